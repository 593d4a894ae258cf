"""Ends with a sentence about what to install where a package of the site is missing.

To import it is to check: `build.py` and the hooks do so before they import the packages.
"""

from importlib.util import find_spec

NEEDED = {"mkdocs": "mkdocs", "material": "mkdocs-material", "mkdocstrings": "mkdocstrings"}
NEEDED |= {"mkdocstrings_handlers": "mkdocstrings-python", "latex2mathml": "latex2mathml"}

if missing := [name for module, name in NEEDED.items() if find_spec(module) is None]:
    raise SystemExit(f'the site needs {", ".join(missing)}: pip install "nescio[docs]"')
