"""Claims about statements and definitions, judged from the numbers of part `statements`."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Comparison, exactly, percent
from nescio_papers.know_your_limits.judging import counted
from nescio_papers.know_your_limits.statement import CLEAR, CLOSE

Numbers = Mapping[str, Any]
LEMMAS = {
    "lemma3": "maximum probability",
    "lemma4": "mean probability",
    "lemma5": "class variance",
    "lemma6": "entropy",
    "lemma7": "mutual information",
}
IMAGINABLE = 0.05  # of the trained networks: what occurs in more is not hardly imaginable


def statement_claims(numbers: Numbers) -> list[Claim]:
    """Lemmas 3 to 7, definition 3, footnote 4, and what the second paper says of equal rows."""
    return [
        _lemmas(numbers["statements"]),
        *_definitions(numbers.get("definitions"), numbers["statements"]),
        _equal_rows(numbers["dead"]),
    ]


def statement_comparisons(numbers: Numbers) -> list[Comparison]:
    """The limits that are printed beside those of the counter-examples."""
    rows = numbers["statements"]
    return [
        Comparison(
            f"{rows[key]['name']}: limit of the gradient norm of the {name}",
            0.0,
            rows[key]["miss"],
            note="of the counter-example",
        )
        for key, name in LEMMAS.items()
    ]


def _lemmas(rows: Numbers) -> Claim:
    return Claim(
        source="Ulmer and Cinà, lemmas 3 to 7",
        sentence="If no V has a zero entry, the gradients of maximum probability, mean "
        "probability, class variance, entropy and mutual information go to 0.",
        facts=[
            exactly(
                f"limit of the gradient of the {name} in a counter-example",
                rows[key]["miss"],
                below=CLEAR,
                why="exact limit of a network without zero entries",
                form=".4f",
            )
            for key, name in LEMMAS.items()
        ],
        note="where one class alone grows fastest the limit is 0 on all rays (entropy: "
        + rows["lemma6"]["check"].split(" with that")[0]
        + ")",
    )


def _definitions(numbers: Numbers | None, rows: Numbers) -> list[Claim]:
    if numbers is None:  # stored before they were measured
        return []
    column = numbers["equal column"]
    return [
        Claim(
            source="Ulmer and Cinà, definition 3 and section 4",
            sentence="V allows to quickly check whether a network is component-wise strictly "
            "monotonic by checking V(x) for entries containing zeros.",
            facts=[
                exactly(
                    "on one piece: deviation of the logits' moves from V",
                    rows["lemma1"]["worst"],
                    below=CLOSE,
                    why="random networks, up to rounding",
                ),
                exactly(
                    "on the plane: signs of the slope of |x_1| + x_2, whose V has no zero entry",
                    numbers["signs of the slope of |x|"],
                    below=1.5,
                    why="exact pieces",
                ),
                counted(
                    "on the plane: trained networks without a zero entry whose slopes have both "
                    "signs",
                    numbers["of these with slopes of both signs"],
                    max(1, numbers["without a zero entry"]),
                    below=0.5,
                ),
            ],
            note=f"{numbers['without a zero entry']} of {numbers['networks']} networks of the nine "
            "blobs have no zero entry in the box",
        ),
        Claim(
            source="Ulmer and Cinà, footnote 4",
            sentence="If V has a column d filled with the same value a, then the resulting p will "
            "have a gradient of 0 at dimension d, regardless of what class we are considering.",
            facts=[
                exactly(
                    "largest slope of a probability in x_d",
                    column["along"],
                    below=1e-12,
                    why=f"p_c (a - sum p a) = 0; {column['matrices']} random matrices, rounding",
                )
            ],
            note="in the other dimensions the gradient stays, so such a V is a counter-example to "
            f"proposition 1 (here at least {column['across']:.2g})",
        ),
    ]


def _equal_rows(dead: Numbers) -> Claim:
    return Claim(
        source="here",
        sentence="Small trained networks, too, rarely have directions in which all rows of V are "
        "equal.",
        facts=[
            counted(
                "trained 2-5-5-9 networks that are constant in some directions and not in others",
                dead["trained with dead directions"],
                dead["trained"],
                below=IMAGINABLE,
            )
        ],
        note="Hein et al. (section 3) find this hardly imaginable of a normally trained network: "
        "see `nescio reproduce relu-overconfidence`; over all "
        f"networks up to {percent(dead['largest share'])} of the directions are "
        f"dead, with a confidence from {dead['lowest confidence']:.2f}",
    )
