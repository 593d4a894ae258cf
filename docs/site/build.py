"""Build the site: `python docs/site/build.py`, which `make docs` runs; it lands in build/site.

The build is strict: a warning fails it. `--partial` leaves out pages that are not written yet and
only reports warnings; `--out FOLDER` builds elsewhere; `--serve` watches the pages and serves them.
"""

import argparse
import logging
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "mkdocs.yml"


def main(words: list[str]) -> int:
    """Build; 1 where it failed."""
    options = argparse.ArgumentParser(description="Build the site.")
    options.add_argument("--partial", action="store_true", help="leave out missing pages")
    options.add_argument("--out", default=str(ROOT / "build" / "site"), help="the folder")
    options.add_argument("--serve", action="store_true", help="serve, and watch the pages")
    asked = options.parse_args(words)
    import asks  # noqa: F401

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    if asked.serve:
        from mkdocs.commands.serve import serve

        serve(str(CONFIG), strict=False)
        return 0
    return build(Path(asked.out), partial=asked.partial)


def build(out: Path, *, partial: bool = False, config_file: Path = CONFIG) -> int:
    """Build the site into a folder; 1 where there was an error or a warning."""
    from mkdocs.commands.build import build as run
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, BuildError

    config = load_config(str(config_file), site_dir=str(out), strict=not partial)
    config.extra["partial"] = partial
    config.plugins.on_startup(command="build", dirty=False)
    try:
        run(config)
    except (Abort, BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        config.plugins.on_shutdown()
    print(f"{out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
