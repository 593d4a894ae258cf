"""The audit page that the documentation shows is complete in itself, small and from no machine."""

import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "live" / "audit.html"
LARGEST = 700_000  # bytes


def test_the_live_audit_is_small_and_needs_nothing_else() -> None:
    text = PAGE.read_text()
    assert len(text) < LARGEST
    assert "<h1" in text
    assert re.search("Attention|Pass|Fail", text)
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]+", text)
    places = {f"{one}/" for one in (ROOT, Path.home(), tempfile.gettempdir()) if str(one) != "/"}
    for place in (*places, "site-packages"):
        assert place not in text
    assert (PAGE.parent / "README.txt").exists()
