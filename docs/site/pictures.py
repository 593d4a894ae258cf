"""Draw the pictures of the documentation: `python docs/site/pictures.py`.

A picture is a file `docs/pictures/NAME.py` whose function `draw` returns a figure; it becomes
`docs/images/NAME.png`. Only pictures older than their code are drawn, or those that are named.
`docs/images/pictures.json` has the digest of the code that drew each, and its processor seconds.
`--check` draws nothing, lists the pictures that are out of date and ends with 1 if there are any.
"""

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nescio.spelling import did_you_mean

DOCS = Path(__file__).parent.parent
CODE, IMAGES = DOCS / "pictures", DOCS / "images"
RECORD = IMAGES / "pictures.json"


def recorded() -> dict[str, dict[str, Any]]:
    """What is known of each picture: `code` and `image`, digests, and `seconds`."""
    found: dict[str, dict[str, Any]] = (
        json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    )
    return found


def digest(path: Path) -> str:
    """The SHA-256 of a file; empty where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def outdated() -> list[str]:
    """Pictures that are missing, changed by hand, or older than the code that draws them."""
    known = recorded()
    return [
        name for name in names() if now(name) != {k: known.get(name, {}).get(k) for k in now(name)}
    ]


def now(name: str) -> dict[str, str]:
    """The digests of a picture as it is on disk."""
    return {"code": digest(CODE / f"{name}.py"), "image": digest(IMAGES / f"{name}.png")}


def names() -> list[str]:
    """All pictures."""
    return sorted(path.stem for path in CODE.glob("*.py"))


def draw(name: str) -> float:
    """Draw and record one picture; its processor seconds."""
    started = time.process_time()
    figure = drawing(name)()
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    seconds = round(time.process_time() - started, 1)
    known = {**recorded(), name: {**now(name), "seconds": seconds}}
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return seconds


def drawing(name: str) -> Callable[[], Any]:
    """The function that draws a picture."""
    spec = importlib.util.spec_from_file_location(f"picture_{name}", CODE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[], Any] = module.draw
    return made


def main(words: list[str]) -> int:
    """Draw what is named, or what is out of date."""
    if words == ["--check"]:
        stale = outdated()
        for name in stale:
            print(f"docs/images/{name}.png is older than docs/pictures/{name}.py")
        return int(bool(stale))
    for name in [one for one in words if one not in names()]:
        print(f"there is no picture {name!r}{did_you_mean(name, names())}")
        return 1
    for name in words or outdated():
        print(f"docs/images/{name}.png: {draw(name)} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
