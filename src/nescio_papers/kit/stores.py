"""Where a part keeps its work: folders and file names."""

import re
import tempfile
from functools import cache
from pathlib import Path

from nescio.core import make_folder
from nescio_papers.kit.experiment import Settings


def folder_of(settings: Settings, name: str) -> Path:
    """Where a part keeps its work."""
    return make_folder((settings.folder or _scratch(settings)) / name)


@cache
def _scratch(settings: Settings) -> Path:
    """Where there is no folder: one for all parts of the process."""
    del settings
    return Path(tempfile.mkdtemp())


def slug(name: str) -> str:
    """A name as a file's: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
