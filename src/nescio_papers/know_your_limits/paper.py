"""Ulmer and Cinà, "Know your limits" (2021): the half-moons world, whole and corrected."""

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, deferred_parts

PARTS = {
    "blobs": (
        "Nine blobs: entropy, its gradient, and the linear regions (figure 1)",
        "blobs:blobs",
    ),
    "pieces": (
        "Nine blobs: counts of linear regions over twenty starts (figure 1b)",
        "tessellation:pieces",
    ),
    "models": ("Half-moons: accuracy of all models, with two budgets", "accuracy:models"),
    "surfaces": ("Half-moons: uncertainty over the plane (figures 3, 5, 6)", "half_moons:surfaces"),
    "rays": ("Measures along axis rays, to a million times the input", "rays:rays"),
    "assumptions": ("How often the assumptions on V are met", "assumption_shares:assumptions"),
    "exact-limits": (
        "Exact limits by method and number of members",
        "limits_by_members:exact_limits",
    ),
    "activations": ("tanh and Swish beside ReLU", "activations:activations"),
    "softmax": ("Softmax of two logits (figure 4)", "softmax:softmax"),
    "statements": ("Every lemma, proposition and theorem, checked", "proofs:statements"),
    "flow-chart": ("Which statements hold (figure 2)", "flow_chart:flow_chart"),
    "medical": (
        "Tables of patients: other hospitals, other groups, wrong units",
        "medical:medical",
    ),
    "other-inputs": (
        "Sequences of unknown speakers; regression beyond the data",
        "other_inputs:other_inputs",
    ),
}
JUDGES = {
    "blobs": "blob_claims:blob_claims",
    "pieces": "blob_claims:piece_claims",
    "models": "accuracy:model_claims",
    "surfaces": "claims:surface_claims",
    "rays": "rays:ray_claims",
    "assumptions": "assumption_shares:assumption_claims",
    "exact-limits": "limit_claims:limit_claims",
    "activations": "activations:activation_claims",
    "softmax": "softmax:softmax_claims",
    "statements": "statement_claims:statement_claims",
    "medical": "medical_claims:medical_claims",
}
READS = {
    "pieces": ("blobs",),
    "surfaces": ("models",),
    "rays": ("models",),
    "assumptions": ("models", "blobs"),
    "exact-limits": ("models",),
    "activations": ("models",),
    "statements": ("blobs",),
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
        parts=deferred_parts(__name__, PARTS, JUDGES, reads=READS, single_thread=True),
        unpublished=(
            "exact-limits",
            "activations",
            "softmax",
            "flow-chart",
            "medical",
            "other-inputs",
        ),
    )
