"""The lecture on robust deep learning: what a network does not know, and who tells."""

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, deferred_parts

PARTS = {
    "ood": ("Out-of-distribution detection: three scores, and outlier exposure", "ood:run"),
    "detectors": ("All detectors on all OOD sets", "all_detectors:run"),
    "calibration": ("Calibration: reliability before and after", "calibrating:run"),
    "failure": ("Failure prediction: which answers are wrong?", "failure:run"),
    "confidnet": ("ConfidNet trained to a plateau", "confidnet_plateau:run"),
    "mc-dropout": ("MC dropout: examples, errors, digits", "mc_dropout:run"),
    "lenet": ("LeNet with dropout: a digit that turns, and errors by masks", "dropout_lecture:run"),
    "dirichlet": ("Dirichlet networks: distributions over class probabilities", "dirichlet:run"),
    "active-learning": ("Active learning: which images to label", "active_digits:run"),
    "little-labels": ("Little labels: what unlabeled inputs teach", "little_labels:run"),
    "influence": ("Influence: training samples behind an answer", "influence_checks:run"),
    "poisoning": (
        "Data poisoning: one training image and the predictions it flips",
        "poisoning:run",
    ),
    "recurrent": ("Recurrent networks: dropout masks tied over time", "recurrent_sequences:run"),
    "segmentation": ("Segmentation: what is unsure in a road scene", "segmentation_scenes:run"),
    "exploration": (
        "Exploration: who finds out what it does not know",
        "exploration_worlds:run",
    ),
    "generalization": (
        "Generalization: random labels, Rademacher complexity, double descent",
        "generalization:run",
    ),
    "shift": ("Under shift: what holds as digits move away", "shift:run"),
    "stability": ("Stability: Lipschitz constants, deformations, attacks", "stability_checks:run"),
}
JUDGES = {
    "active-learning": "active_digits:judge",
    "little-labels": "little_verdicts:judge",
    "influence": "influence_checks:judge",
    "poisoning": "poisoning_words:judge",
    "exploration": "exploration_verdicts:judge",
    "ood": "ood_verdicts:judge",
    "calibration": "calibrating:judge",
    "failure": "failure_verdicts:judge",
    "confidnet": "confidnet_words:judge",
    "mc-dropout": "mc_dropout:judge",
    "lenet": "dropout_lecture:judge",
    "dirichlet": "dirichlet:judge",
    "recurrent": "recurrent_verdicts:judge",
    "segmentation": "segmentation_verdicts:judge",
    "generalization": "generalization_verdicts:judge",
    "shift": "shift_verdicts:judge",
    "stability": "stability_checks:judge",
}

READS = {"confidnet": ("calibration",), "lenet": ("failure",)}


@experiments.register
def robust_deep_learning() -> Experiment:
    """Detectors, outlier exposure, calibration, failure prediction, MC dropout, Dirichlets."""
    return Experiment(
        name="robust-deep-learning",
        title="Robust deep learning: calibration, failure prediction, what a network does not know",
        source="Thome, lecture slides Robust Deep Learning, on Hendrycks and Gimpel (2017), Liang "
        "et al. (2018), Gal and Ghahramani (2016), Hendrycks et al. (2019), Malinin and Gales "
        "(2018), Sensoy et al. (2018), Gal et al. (2017), Kirsch et al. (2019) and Koh and Liang "
        "(2017)",
        needs="data sets: see `nescio data list`; Gymnasium: pip install nescio[exploration]; what "
        "is absent is left out",
        parts=deferred_parts(__name__, PARTS, JUDGES, reads=READS),
        unpublished=("recurrent", "generalization", "stability"),
    )
