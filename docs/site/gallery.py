"""The gallery: every picture with its caption, its code, and the seconds it took."""

PAGE = "gallery.md"


def page() -> str:
    """The Markdown of the gallery."""
    return "# Gallery\n"
