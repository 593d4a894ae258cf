"""Write the table of the lecture's slides: `python docs/make_slides.py`.

It reads the claims and verdicts of `robust-deep-learning/results.json`, so run it after a part.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "robust-deep-learning"
INTRODUCTION = """# The lecture, slide by slide

Source: Nicolas Thome, Robust Deep Learning (slides of the course Foundations of Deep Learning).

The table has every slide in order: what it claims, and what was measured for each claim, with the
verdict in bold, or why there is nothing to measure. *Part* is what
`nescio reproduce robust-deep-learning --part NAME` runs; figures, tables and intervals are in
the pages that [summary.md](summary.md) names, numbers in [results.json](results.json). Where a
slide is wrong,
[errata.md](../errata.md) has the right form; numbers in brackets are those of that page.

| slide | what it claims | part | what was measured |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Slide:
    """A slide: what it claims, and where that was measured.

    claims: a part and how the sentence or the source of its claim begins; "" takes all of them.
    instead: what there is to say where no claim was judged, or beside the claims.
    """

    title: str
    says: str
    claims: tuple[tuple[str, str], ...] = ()
    instead: str = ""


SLIDES = (
    Slide(
        "Outline (three times)",
        "Bayesian networks for classification, applications of uncertainty, other issues.",
        instead="Background: no claim.",
    ),
    Slide(
        "Recap: Bayesian Neural Networks (BNNs)",
        "The predictive distribution is approximated by sampling weights: a sum over samples.",
        instead="A definition: `Prediction.probs` is the mean over members. The sum on the slide "
        "lacks 1/S ([39]). Tested: "
        "`models.weight_samples`, `models.mc_dropout` and `models.ensemble` give such members.",
    ),
    Slide(
        "BNNs: Uncertainty in Classification",
        "Averaging discrete labels loses the variability of the probabilities among the samples; "
        "these lie on the simplex.",
        instead="A definition: members are kept apart, `(M, N, C)`, and every measure reads them. "
        "Pictures of members on the simplex are in the part `dirichlet`.",
    ),
    Slide(
        "Uncertainty in classification: example with MCDropout",
        "A rotated 1, LeNet with dropout on the last layer: the samples scatter; predictions "
        "[1 1 1 1 1 5 5 7 7 7 7].",
        (("lenet", "A qualitative experiment"),),
    ),
    Slide(
        "MCDropout: side note",
        "Dropout propagates the mean, MC dropout the whole distribution; its test error is lower "
        "(LeNet, T = 50).",
        (("lenet", "MC dropout vs dropout"),),
    ),
    Slide(
        "Uncertainty in classification: metrics",
        "Variation ratio: epistemic. Predictive entropy: aleatoric. Mutual information: epistemic.",
        (
            ("mc-dropout", "The predictive entropy captures"),
            ("mc-dropout", "The variation ratio"),
            ("dirichlet", "Predictive entropy: aleatoric"),
        ),
        "The variation ratio also grows with noise in the data ([38]).",
    ),
    Slide(
        "Uncertainty in classification",
        "Three examples and their values: all equal to 1, half and half, all close to 0.5.",
        instead="Half and half has an entropy and a mutual information of ln 2 = 0.693 nats, not "
        "0.5; all close to 0.5 an entropy of 0.69295 ([37]). The part `mc-dropout` prints "
        "the table of the three.",
    ),
    Slide(
        "Practical Session: MC dropout on MNIST for classification",
        "Training with dropout improves the performance, and dropout at test time as well; the "
        "variation ratio finds the most and least uncertain digits.",
        (
            ("mc-dropout", "Training a convnet with dropout"),
            ("mc-dropout", "Improved training performances"),
        ),
        "The digits are drawn in the part `mc-dropout`.",
    ),
    Slide(
        "Practical Session: MC dropout on MNIST for classification (samples)",
        "Histograms of samples for an uncertain and a confident digit.",
        instead="Drawn in the part `mc-dropout` (mc-dropout-samples.png).",
    ),
    Slide(
        "Bayesian Neural Networks & Ensembling",
        "Sampling can be read as an ensemble.",
        instead="A definition, and the member axis of nescio: nothing behind a predictor asks "
        "where its members come from.",
    ),
    Slide(
        "Bayesian Neural Networks & Ensembling (deep ensembles)",
        "Members agree in-domain and spread out-of-domain; better than MC dropout.",
        (
            ("dirichlet", "Ensembling: the members agree"),
            ("shift", "The entropy on inputs from unknown"),
            ("shift", "Ensembles are more accurate than MC dropout"),
            ("failure", "lecture, Bayesian Neural Networks"),
            ("shift", "lecture, Bayesian Neural Networks"),
        ),
    ),
    Slide(
        "Bayesian Models & Ensembling",
        "Several predictions at test time, and several trainings.",
        instead="True of the method. A stack of M small networks trains in less time than M "
        "trainings: see benchmarks.md.",
    ),
    Slide(
        "Dirichlet Prior Networks",
        "A network can model the distribution over class probabilities by a Dirichlet.",
        (("dirichlet", "Explicitly modeling the predictive distribution"),),
    ),
    Slide(
        "Dirichlet distribution",
        "The position on the simplex is aleatoric uncertainty, the total evidence epistemic.",
        (("dirichlet", "Concentrations: position"),),
    ),
    Slide(
        "Dice roll example",
        "More rolls, more evidence, less epistemic uncertainty.",
        (("dirichlet", "Increasing N"),),
    ),
    Slide(
        "Dirichlet Prior Networks (DPN): posterior and inference",
        "Pseudo counts give a Dirichlet posterior as target; the mean is a softmax.",
        (
            ("dirichlet", "The mean of Dir(exp f)"),
            ("dirichlet", "A network that gives a Dirichlet"),
        ),
        "Fractional counts make an improper likelihood ([47]).",
    ),
    Slide(
        "Dirichlet Prior Networks (DPN): KL to the target",
        "Training minimizes the KL divergence to the posterior.",
        (("dirichlet", "Minimizing KL to the target"),),
    ),
    Slide(
        "Dirichlet Prior Networks (DPN): ELBO",
        "The loss is an expected likelihood plus a KL divergence to the prior; expansion of "
        "digamma; the KL divergence is proportional to 1/precision.",
        (
            ("dirichlet", "The loss is that sum"),
            ("dirichlet", "Digamma"),
            ("dirichlet", "KL to the flat Dirichlet"),
        ),
    ),
    Slide(
        "Failure Prediction",
        "Uncertainty decides which predictions to accept.",
        instead="This is what `nescio guard` does, with a guarantee: guard.md.",
    ),
    Slide(
        "Failure Prediction: Model Calibration in Deep Learning",
        "Perfect calibration: of predictions with confidence 0.8, 80 % are right.",
        instead="A definition: `metrics.ece`, `metrics.reliability`; calibration.md.",
    ),
    Slide(
        "Model Calibration in deep learning: reliability diagram",
        "Modern networks are not calibrated.",
        (("calibration", "Modern neural networks"),),
    ),
    Slide(
        "Model Calibration in deep learning: temperature scaling",
        "One temperature, optimized so that accuracy equals confidence in each bin, corrects it.",
        (("calibration", "Simple solution"),),
        "Guo et al. minimize the NLL; equality in all bins is not reachable by one number ([43]).",
    ),
    Slide(
        "Failure Prediction in deep learning",
        "A confidence should rank correct predictions above errors.",
        instead="A definition: average precision of errors, AURC and AUROC in the part `failure`.",
    ),
    Slide(
        "Failure Prediction: maximum class probability",
        "The distributions of successes and errors overlap.",
        instead="Histograms in the part `failure`; the next slides have the numbers.",
    ),
    Slide(
        "MCP, a sub-optimal ranking confidence measure",
        "Calibration does not solve the overlap problem.",
        (
            ("failure", "Calibration does not solve"),
            ("failure", "The maximum probability is a sub-optimal"),
        ),
    ),
    Slide(
        "Failure Prediction with TCP",
        "The true class probability is lower for errors.",
        (("failure", "True class probability"),),
        "It needs the label, so it is a target, not a score. The slide repeats the caption of the "
        "maximum probability ([42]).",
    ),
    Slide(
        "ConfidNet",
        "A second network learns the true class probability.",
        (("confidnet", "ConfidNet"),),
    ),
    Slide(
        "Practical Session: Failure Prediction on MNIST",
        "Compare maximum probability, MC dropout and ConfidNet by precision and recall of errors.",
        instead="Done in the parts `failure` and `confidnet`: curves, average precisions, paired "
        "intervals.",
    ),
    Slide(
        "Applications: Out of Distribution Detection",
        "Detect unknown classes.",
        instead="A definition: detection.md.",
    ),
    Slide(
        "Out of Distribution Detection",
        "Dispersion of Bayesian models; or the logits, which are smaller for OOD inputs.",
        (("ood", "Baseline solution"), ("ood", "In classification: estimate dispersion")),
    ),
    Slide(
        "Out of Distribution Detection: ODIN",
        "A temperature and an inverse attack separate OOD samples.",
        (("ood", "ODIN"),),
        "Sign and tuning as published: [45].",
    ),
    Slide(
        "Out of Distribution Example",
        "MNIST against Kuzushiji-MNIST: maximum probability, MC dropout, ODIN.",
        instead="In the parts `ood` and `detectors`; curves in ood-roc.png.",
    ),
    Slide(
        "Out of Distribution Detection: outlier exposure and Dirichlets",
        "Train with OOD samples: uniform predictions, or flat Dirichlets.",
        (
            ("dirichlet", "In-distribution samples"),
            ("dirichlet", "On OOD sets that were not shown"),
        ),
    ),
    Slide(
        "Relevance of using OOD training datasets?",
        "OOD inputs cannot be modelled: performance depends on the OOD set that was trained on.",
        (("ood", "Performances strongly depend"), ("ood", "By essence")),
    ),
    Slide(
        "Applications: Active Learning",
        "Labeling the most uncertain data gives the fastest convergence.",
        (
            ("active-learning", "Most uncertain data"),
            ("active-learning", "The most informative"),
        ),
    ),
    Slide(
        "Applications: Active Learning (MNIST)",
        "BALD and variation ratios with dropout are better than with a softmax, and than random.",
        (
            ("active-learning", "Under a delta posterior"),
            ("active-learning", "Dropout gives a lower error"),
        ),
    ),
    Slide(
        "Beyond MC nets: and RNNs",
        "Dropout in recurrent networks with one mask for all steps.",
        (("recurrent", ""),),
    ),
    Slide(
        "Application in Semantic Segmentation",
        "Maps of epistemic (and, in the original, aleatoric) uncertainty beside the segmentation.",
        (("segmentation", ""),),
        "The caption lacks the aleatoric map ([48]).",
    ),
    Slide(
        "Application in Reinforcement Learning",
        "Thompson sampling by dropout converges faster than an epsilon-greedy agent.",
        (("exploration", ""),),
    ),
    Slide(
        "Deep Learning Theory",
        "Experimental success, little formal understanding.",
        instead="Background: an opinion.",
    ),
    Slide(
        "Deep Learning and generalization",
        "Networks fit random labels; the Rademacher complexity is about 1.",
        (
            ("generalization", "lecture, Deep Learning and gen"),
            ("generalization", "Zhang"),
            ("generalization", "Random labels, shuffled pixels"),
        ),
    ),
    Slide(
        "Generalization and over-parametrized models",
        "Double descent.",
        (
            ("generalization", "lecture, Generalization and over"),
            ("generalization", "what is asked here"),
        ),
    ),
    Slide(
        "Deep Learning (DL) & Stability",
        "Small changes of an input should change the output little; adversarial examples show "
        "that they need not.",
        (
            ("stability", "lecture, Deep Learning (DL) & Stability"),
            ("stability", "lecture, Deep learning and stability"),
            ("stability", "The network is no less confident"),
            ("stability", "The exact Lipschitz constant"),
            ("stability", "The product bound"),
        ),
    ),
    Slide(
        "Deep Learning (DL) & Stability: attacks in the real world",
        "A printed patch fools a classifier (stop sign).",
        (
            ("stability", "lecture, Adversarial attacks in the real world"),
            ("stability", "A patch "),
        ),
    ),
    Slide(
        "Formal stability analysis of deep models: scattering",
        "Scattering is stable to deformations; bounds (Mallat; Bruna and Mallat).",
        (
            ("stability", "lecture, Formal stability analysis"),
            ("stability", "Logits behind"),
            ("stability", "Scattering operators"),
            ("stability", "A linear layer on scattering"),
            ("stability", "Stability bounds hold"),
        ),
        "Mallat's bounds hold up to constants that are not computed in the papers: background.",
    ),
    Slide(
        "Formal stability analysis of deep models: kernels",
        "Generalized to deep kernel machines (Bietti and Mairal).",
        instead="Background only: the result is about a kernel network with infinitely many "
        "filters, and says nothing about a given trained network that could be measured.",
    ),
    Slide(
        "Formal stability analysis of deep models: influence functions",
        "Formulas for removing and perturbing a training sample.",
        (("influence", ""),),
        "The formula for perturbing repeats that for removing ([40]).",
    ),
    Slide(
        "Data poisoning",
        "One changed training image flips several test predictions.",
        (("poisoning", ""),),
    ),
    Slide(
        "Ad hoc stability training",
        "Consistency losses favor stable functions (Sajjadi; Pi-model, temporal ensembling, "
        "mean teacher).",
        (("little-labels", ""),),
    ),
    Slide("References I to IV", "Sources.", instead="Background: no claim."),
)


def main() -> None:
    """Write README.md beside the results."""
    results = json.loads((FOLDER / "results.json").read_text())["parts"]
    (FOLDER / "README.md").write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """The table with what was measured."""
    return INTRODUCTION + "".join(row(slide, results) for slide in SLIDES)


def row(slide: Slide, results: dict[str, Any]) -> str:
    """A slide as a line of the table."""
    parts = list(dict.fromkeys(part for part, _ in slide.claims))
    judged = [
        f"*{one['sentence']}* **{one['verdict']}**: {one['measured']}"
        for one in claims_of(slide, results)
    ]
    judged += [f"Not run yet: the part `{part}`." for part in parts if part not in results]
    said = "<br>".join([*judged, slide.instead] if slide.instead else judged)
    named = ", ".join(f"`{part}`" for part in parts)
    return f"| {slide.title} | {slide.says} | {named} | {_cell(said)} |\n"


def claims_of(slide: Slide, results: dict[str, Any]) -> list[dict[str, str]]:
    """The judged claims of a slide, each once."""
    found: list[dict[str, str]] = []
    for part, start in slide.claims:
        every = results.get(part, {}).get("claims", [])
        found += [one for one in every if _begins(one, start) and one not in found]
    return found


def _begins(claim: dict[str, str], start: str) -> bool:
    return claim["sentence"].startswith(start) or claim["source"].startswith(start)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
