"""`python -m nescio` is the command `nescio`."""

from nescio.cli.main import main

main()
