"""`python -m nescio` is the command `nescio`."""

from nescio.cli import main

main()
