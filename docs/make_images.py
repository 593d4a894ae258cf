"""Draw the pictures of the documentation: `python docs/make_images.py` (half a minute)."""

from pathlib import Path

from nescio.demo import audit_digits
from nescio.report import plots

FOLDER = Path(__file__).parent / "images"


def main() -> None:
    """Audit the digits and save the two plots that README and docs show."""
    result = audit_digits().result
    FOLDER.mkdir(exist_ok=True)
    plots.confidence_along_ray(result).savefig(FOLDER / "confidence-far-away.png", dpi=110)
    plots.confidence_histograms(result).savefig(FOLDER / "confidence-histograms.png", dpi=110)


if __name__ == "__main__":
    main()
