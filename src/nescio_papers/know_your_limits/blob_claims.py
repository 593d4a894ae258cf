"""Claims about the network on nine blobs, judged from the numbers of parts `blobs` and `pieces`."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import A_SHARE, NOT_NEGATIVE, Claim, Fact, Range, exactly, percent
from nescio_papers.know_your_limits.judging import ABSENT, counted, of_number, over_trainings

Numbers = Mapping[str, Any]
CAPTION = "Ulmer and Cinà, caption of figure 1"
OPEN_AREAS = 0.25  # of the outer ring
RARE = 0.1  # of the points: an assumption that is broken on fewer holds reasonably often
USUAL = 1.25  # a mean within this factor of the published count is of the same size
PUBLISHED = 42  # pieces, in the authors' notebook


def blob_claims(numbers: Numbers) -> list[Claim]:
    """What figures 1a and 1c show, over all starts."""
    starts = numbers.get("starts", {})

    def over(key: str, what: str, within: Range = NOT_NEGATIVE, **limit: float) -> Fact:
        row = starts.get(key, ABSENT)
        return of_number(what, row, within=within, **limit)  # type: ignore[arg-type]

    return [
        Claim(
            source="Ulmer and Cinà, section 1",
            sentence="One can observe open areas of constant certainty stretching beyond the "
            "training data.",
            facts=[
                over(
                    "ring_below_tenth",
                    "share of the outer ring with less than a tenth of the possible entropy",
                    within=A_SHARE,
                    above=OPEN_AREAS,
                )
            ],
        ),
        Claim(
            source=CAPTION,
            sentence="Small perturbations in the input have a decreasing influence on the "
            "uncertainty of the network as we stray away from the training data.",
            facts=[
                over(
                    "gradient_ratio",
                    "median gradient norm in the outer ring over that in the box of the data",
                    below=0.1,
                )
            ],
        ),
        Claim(
            source=CAPTION,
            sentence="Exceptions to this are the model's decision boundaries.",
            facts=[
                over(
                    "edge_ratio",
                    "median distance from a decision boundary, steep points of the outer ring "
                    "over all of them",
                    below=0.5,
                )
            ],
        ),
        Claim(
            source="Ulmer and Cinà, footnote 6",
            sentence="The assumption still appears to hold reasonably often: just around 6.3 % of "
            "plotted points in figure 1 possess a matrix V with at least one zero entry.",
            facts=[
                of_number(
                    f"share of the points with a zero entry, {len(numbers['zero_of_starts'])} "
                    "starts",
                    over_trainings(numbers["zero_of_starts"]),
                    below=RARE,
                    within=A_SHARE,
                    form=".1%",
                )
            ],
            note=f"{sum(value > 0 for value in numbers['zero_of_starts'])} networks have any, "
            f"{percent(max(numbers['zero_of_starts']))} of the points at most",
        ),
    ]


def piece_claims(numbers: Numbers) -> list[Claim]:
    """What figure 1b shows, as exact counts and areas, over all starts."""
    rows = numbers["starts"]
    counts = over_trainings([row["pieces in the box"] for row in rows])
    zero = [row for row in rows if row["zero pieces"]]
    return [
        Claim(
            source="Ulmer and Cinà, figure 1b",
            sentence="The network's polytopes in [-5, 5]^2 (42 in the authors' notebook).",
            facts=[
                of_number(f"mean number of {len(rows)} starts", counts, above=PUBLISHED / USUAL),
                of_number(f"mean number of {len(rows)} starts", counts, below=PUBLISHED * USUAL),
            ],
            note=f"{counts['low']:g} to {counts['high']:g}; a quarter more or less counts as the "
            "same",
        ),
        Claim(
            source="Ulmer and Cinà, section 4",
            sentence="There is a finite number of polytopes, and at least one of them is "
            "unbounded.",
            facts=[
                exactly(
                    "smallest number of unbounded pieces of the plane",
                    numbers["unbounded of the plane"]["low"],
                    above=0.5,
                    why="every piece of every start",
                ),
                exactly(
                    "number of pieces of the plane over the upper bound, largest",
                    max(row["pieces of the plane"] / max(row["bounds"].values()) for row in rows),
                    below=1.0000001,
                    why="every piece of every start",
                ),
            ],
        ),
        Claim(
            source="Ulmer and Cinà, footnote 6",
            sentence="The points whose V has a zero entry are all located in the PUP in the top "
            "right corner.",
            facts=_where(zero),
            note=f"all of V is 0 on {percent(numbers['zero area in dead pieces'])} of that area; "
            f"{len({row['zero quarter'] for row in zero})} of four quarters of the box, by start",
        ),
    ]


def _where(zero: list[Numbers]) -> list[Fact]:
    """Whether the pieces with a zero entry are unbounded, and in which quarter they lie."""
    count = max(1, len(zero))
    open_ = sum(row["zero unbounded pieces"] > 0 for row in zero)
    corner = sum(row["zero quarter"] == "top right" for row in zero)
    return [
        counted("starts with such points in an unbounded piece", open_, count, above=0.5),
        counted("starts with such points in the top right quarter", corner, count, above=0.5),
    ]
