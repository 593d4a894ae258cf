"""Ulmer and Cinà, "Know your limits" (2021): the half-moons world, whole and corrected."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nescio.core import one_thread
from nescio.core.registry import experiments
from nescio_papers.kit import Claim, Experiment, Findings, Part, Settings
from nescio_papers.know_your_limits.accuracy import model_claims, models
from nescio_papers.know_your_limits.activations import activation_claims, activations
from nescio_papers.know_your_limits.assumption_shares import assumption_claims, assumptions
from nescio_papers.know_your_limits.blob_claims import blob_claims, piece_claims
from nescio_papers.know_your_limits.blobs import blobs
from nescio_papers.know_your_limits.claims import surface_claims
from nescio_papers.know_your_limits.flow_chart import flow_chart
from nescio_papers.know_your_limits.half_moons import surfaces
from nescio_papers.know_your_limits.limit_claims import limit_claims
from nescio_papers.know_your_limits.limits_by_members import exact_limits
from nescio_papers.know_your_limits.medical import medical
from nescio_papers.know_your_limits.medical_claims import medical_claims
from nescio_papers.know_your_limits.other_inputs import other_inputs
from nescio_papers.know_your_limits.proofs import statements
from nescio_papers.know_your_limits.rays import ray_claims, rays
from nescio_papers.know_your_limits.softmax import softmax, softmax_claims
from nescio_papers.know_your_limits.statement_claims import statement_claims
from nescio_papers.know_your_limits.tessellation import pieces

Run = Callable[[Settings], Findings]
Judge = Callable[[Mapping[str, Any]], Sequence[Claim]]
PARTS: tuple[tuple[str, str, Run], ...] = (
    ("blobs", "Nine blobs: entropy, its gradient, and the linear regions (figure 1)", blobs),
    ("pieces", "Nine blobs: counts of linear regions over twenty starts (figure 1b)", pieces),
    ("models", "Half-moons: accuracy of all models, with two budgets", models),
    ("surfaces", "Half-moons: uncertainty over the plane (figures 3, 5, 6)", surfaces),
    ("rays", "Measures along axis rays, to a million times the input", rays),
    ("assumptions", "How often the assumptions on V are met", assumptions),
    ("exact-limits", "Exact limits by method and number of members", exact_limits),
    ("activations", "tanh and Swish beside ReLU", activations),
    ("softmax", "Softmax of two logits (figure 4)", softmax),
    ("statements", "Every lemma, proposition and theorem, checked", statements),
    ("flow-chart", "Which statements hold (figure 2)", flow_chart),
    ("medical", "Tables of patients: other hospitals, other groups, wrong units", medical),
    ("other-inputs", "Sequences of unknown speakers; regression beyond the data", other_inputs),
)
JUDGES: Mapping[str, Judge] = {
    "blobs": blob_claims,
    "pieces": piece_claims,
    "models": model_claims,
    "surfaces": surface_claims,
    "rays": ray_claims,
    "assumptions": assumption_claims,
    "exact-limits": limit_claims,
    "activations": activation_claims,
    "softmax": softmax_claims,
    "statements": statement_claims,
    "medical": medical_claims,
}


@experiments.register
def know_your_limits() -> Experiment:
    """Uncertainty of ReLU classifiers far from the data, on blobs and half-moons."""
    return Experiment(
        name="know-your-limits",
        title="Know your limits: uncertainty of ReLU classifiers far from the data",
        source="Ulmer and Cinà, Know Your Limits: Uncertainty Estimation with ReLU Classifiers "
        "Fails at Reliable OOD Detection, UAI 2021",
        needs="no extras; medical and other-inputs need data sets: see `nescio data list`",
        parts=tuple(
            Part(name, title, one_thread()(run), judge=JUDGES.get(name))
            for name, title, run in PARTS
        ),
    )
