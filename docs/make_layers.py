"""Draw the layers of the package: `python docs/make_layers.py` writes `images/layers.svg`."""

from pathlib import Path
from xml.sax.saxutils import escape

FILE = Path(__file__).parent / "images" / "layers.svg"
BANDS = {  # title of a band, its color, and its rooms with what they hold
    "foundations": (
        "#0072B2",
        {
            "core": "errors, registry, files, random, prediction, heads, measures",
            "data": "data sets, readers, tables, images, OOD sources, corruptions",
            "nets": "architectures; M networks as one stack; dropout",
            "metrics": "ranking, calibration errors, selective risk, intervals, tests",
        },
    ),
    "models": (
        "#009E73",
        {
            "models": "where members come from: model, ensemble, MC dropout, weight samples",
            "attacks": "gradient ascent on any objective, norms, named attacks",
            "losses": "one file per loss; losses can be combined",
            "training": "the one training loop, optimizers, checkpoints, recipes",
        },
    ),
    "decisions": (
        "#E69F00",
        {
            "calibration": "temperature, Platt, isotonic, ...: probabilities corrected",
            "conformal": "prediction sets and intervals, p-values",
            "detectors": "activations to OOD scores, one file each; failure scores",
            "guards": "answer or abstain, with a guarantee; the guard file",
            "monitoring": "drift of a stream (martingale), shift of a batch (tests)",
        },
    ),
    "analysis": (
        "#CC79A7",
        {
            "geometry": "linear regions, rays, limits and certificates, exactly",
            "applications": "active learning, influence of training samples",
            "evaluation": "audit, compare, under shift, leave classes out",
        },
    ),
    "people": (
        "#56B4E9",
        {
            "report": "tables, the audit page, plots",
            "serving": "HTTP, decision log, review queue, watching, client",
            "integrations": "scikit-learn, Lightning, Transformers, MLflow",
            "cli": "the command, one file per verb",
        },
    ),
}
WIDTH, HIGH, GAP, LEFT, TOP = 860, 30, 5, 150, 52
FONT = 'font-family="system-ui, sans-serif"'


def layers() -> str:
    """The picture as SVG text."""
    shapes, top = [], TOP
    for title, (color, rooms) in BANDS.items():
        height = len(rooms) * (HIGH + GAP)
        shapes.append(
            f'<rect x="{LEFT - 126}" y="{top}" width="118" height="{height - GAP}" rx="5" '
            f'fill="{color}" fill-opacity="0.45"/><text x="{LEFT - 67}" y="{top + height / 2 + 2}" '
            f'{FONT} font-size="14" text-anchor="middle" fill="#1b1b1b">{escape(title)}</text>'
        )
        for room, holds in rooms.items():
            shapes.append(
                f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 56}" height="{HIGH}" rx="5" '
                f'fill="{color}" fill-opacity="0.14" stroke="{color}"/>'
                f'<text x="{LEFT + 12}" y="{top + 20}" {FONT} font-size="14" font-weight="700" '
                f'fill="#1b1b1b">{room}</text><text x="{LEFT + 120}" y="{top + 20}" {FONT} '
                f'font-size="13" fill="#333">{escape(holds)}</text>'
            )
            top += HIGH + GAP
    x = WIDTH - 30
    arrow = (
        f'<path d="M{x} {top - GAP} V{TOP + 10}" stroke="#333" stroke-width="2" fill="none"/>'
        f'<path d="M{x - 6} {TOP + 12} L{x} {TOP} L{x + 6} {TOP + 12} Z" fill="#333"/>'
        f'<text transform="translate({x + 18} {(top + TOP) / 2}) rotate(-90)" {FONT} '
        'font-size="13" text-anchor="middle" fill="#333">a room imports only from rooms above it'
        "</text>"
    )
    heading = (
        f'<text x="{LEFT - 126}" y="32" {FONT} font-size="18" font-weight="700" fill="#1b1b1b">'
        "The rooms of src/nescio, in layer order</text>"
    )
    frame = f'viewBox="0 0 {WIDTH} {top + 14}" width="{WIDTH}" height="{top + 14}"'
    body = "\n".join([heading, *shapes, arrow])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img">'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    FILE.write_text(layers())
