"""Every public name of the library and of its command: none goes, and none comes, unnoticed.

Public is what a namespace gives on purpose: what it exports with `from a import b as b` or in
`__all__`, and the functions and classes that are written in it; no submodule by accident.
"""

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import nescio
from nescio import registry
from nescio.cli import main

CLASSES = {
    "Activations": nescio.Activations,
    "Audit": nescio.Audit,
    "Categorical": nescio.Categorical,
    "Comparison": nescio.Comparison,
    "Decisions": nescio.guarding.Decisions,
    "Detector": nescio.detectors.Detector,
    "DetectorComparison": nescio.DetectorComparison,
    "Dirichlet": nescio.Dirichlet,
    "Gaussian": nescio.Gaussian,
    "Guard": nescio.Guard,
    "Model": nescio.Model,
    "Monitor": nescio.Monitor,
}
NAMESPACES = {
    "nescio": """
        Absent Activations AdversarialNoise AdversarialSamples Audit Categorical Comparison
        DetectorComparison Dirichlet DoubleExponential Gaussian Guard LeftOut Model Monitor
        NescioError Prediction attacks audit augmentation calibration compare
        compare_detectors conformal data detectors failing geometry guard heads
        leave_classes_out load losses measures metrics monitor nets observe predictors
        recipes scorer shifting train
    """,
    "nescio.attacks": """
        Ascent Attacked Norm adversarial_noise adversarial_samples answer_of confidence fgsm
        l1 l2 label_loss leaking linf pgd uncertainty wrong_confidence
    """,
    "nescio.augmentation": "Augment augment check_augments crops mirrors",
    "nescio.calibration": """
        Calibrated Map dirichlet fit fit_platt fit_temperature histogram isotonic load
        matrix platt scaled temperature vector
    """,
    "nescio.comparing": "Absent AdversarialNoise AdversarialSamples Comparison compare",
    "nescio.conformal": """
        Coverage IntervalCoverage Intervals Sets adaptive benjamini_hochberg
        binomial_interval coverage coverage_law interval_coverage needed normalised p_values
        quantile regularised_adaptive residual threshold
    """,
    "nescio.data": """
        Columns Dataset Encoded Outside Table as_images blobs cifar10 cifar100 colour
        corruptions crop cubic dataset_from_npz diabetes_130 diabetes_table digits
        emnist_letters fashion_mnist grey half_moons heart_disease heart_disease_table
        image_folder imagenet_minus japanese_vowels kuzushiji_mnist learn_columns letters
        load load_columns lsun_classroom mnist mnist_c pad permuted_pixels read_idx read_npz
        read_table read_ts scaling shifted shuffled_features spiral svhn uci uniform_noise
    """,
    "nescio.data.outside": """
        Outside another faded mixture overlaid paper_noise patches permuted scaled shapes
        shuffled smoothed stored strokes uniform
    """,
    "nescio.data.shifted": """
        MOST Shifted blur brightness contrast feature_scaling gaussian_noise impulse_noise
        pixelation rotation translation
    """,
    "nescio.data.streams": "Stream array_stream columns_of is_streamed is_table open_stream row_of",
    "nescio.demo": "audit_digits compare_digits",
    "nescio.detecting": "DetectorComparison LeftOut compare_detectors leave_classes_out",
    "nescio.detectors": """
        Detector ash combined dice energy entropy gaussian_mixture generalised_entropy gower
        kl_matching knn load mahalanobis max_logit measured msp odin openmax react
        relative_mahalanobis she smoothed_density trust_score tuned_odin vim
    """,
    "nescio.experiments": """
        Claim Comparison Experiment Findings Part Settings deep_ensembles know_your_limits
        know_your_limits_search listing named relu_overconfidence robust_deep_learning
        run_experiment
    """,
    "nescio.failing": """
        CrossFit FailureComparison compare confidnet cross_fit extra_score log_odds_against
        recommended true_class_probability without_score
    """,
    "nescio.geometry": """
        Affine Boundaries Certificate FarField FirstConfident LastPiece LimitMap Limits
        Monotone Rays Regions affine along_axis around certificate draw_regions
        exact_far_field exact_ray exact_regions far_field first_confident limit_map limits
        monotone ray regions stream_regions through_origin
    """,
    "nescio.guarding": """
        Coverage DECISIONS Decisions Guard RULES about coverages guard largest_coverage
        upper_bound
    """,
    "nescio.heads": """
        Head categorical classes_of cross_entropy dirichlet double_exponential
        fixed_variance gaussian with_score
    """,
    "nescio.losses": """
        Batch Loss absolute_error acet adversarial adversarial_training anchored as_loss
        brier ceda elbo learned_confidence nll outlier_exposure plus pointwise reject_class
        squared_error virtual_adversarial weight_decay
    """,
    "nescio.measures": """
        aleatoric_variance applicable class_variance differential_entropy epistemic_variance
        expected_entropy expected_pairwise_kl least_confidence log_odds measure measure_all
        mutual_information predictive_entropy total_variance variation_ratio
    """,
    "nescio.metrics": """
        Decomposition Difference Interval Ranking Reliability RiskCoverage Sketch accuracy
        against_best ap_error ap_success aupr aurc auroc autc bootstrap_mean
        bootstrap_metric bootstrap_ranking bootstrap_selective bootstrap_test brier
        brier_decomposition classwise_ece debiased_ece delong_covariance delong_interval
        delong_test detection_error ece excess_aurc fpr_at_tpr holm mce mean_max_confidence
        nll nll_decomposition rank reliability risk_coverage selective_test sketch
        smooth_ece
    """,
    "nescio.monitoring": "Merged Monitor load merge monitor",
    "nescio.nets": """
        Standardise bayesian_mlp centred digit_cnn lenet median_gamma mlp network rbf resnet
        small_cnn standardised
    """,
    "nescio.observing": "Scorer observe scorer",
    "nescio.prediction": """
        Categorical Classification Dirichlet DoubleExponential Gaussian Prediction
        Regression answer check_labels
    """,
    "nescio.predictors": "Predictor ensemble evaluating mc_dropout plain weight_samples",
    "nescio.randomness": "Rng derive drawing_from generator layer_noise seeded",
    "nescio.recipes": """
        Recipe acet adversarial_ensemble adversarial_training anchored_ensemble
        bayes_by_backprop ceda deep_ensemble dropout outlier_exposure recipe_options single
        virtual_adversarial_ensemble
    """,
    "nescio.registry": "Registry unknown",
    "nescio.report": "audit_page audit_text",
    "nescio.report.monitoring": "martingale",
    "nescio.report.plots": """
        confidence_along_ray confidence_histograms far_field numbers reliability_diagrams
        risk_coverage separation_along_ray svg under_shift
    """,
    "nescio.report.reliability": "reliability_diagram",
    "nescio.report.shift": "confident_answers curves entropy_histograms",
    "nescio.shifting": "Along Confident Entropies accuracy_above along entropies",
    "nescio.shifts": "ColumnShift ColumnShifts Shift adjust by_column classifier_two_sample mmd",
    "nescio.threads": "in_order one_thread",
}
# Attributes right after `import nescio`; the others are imported by name.
AT_ONCE = """
    attacks augmentation calibration comparing conformal data data.outside data.shifted
    data.streams detecting detectors failing geometry guarding heads losses measures metrics
    monitoring nets observing prediction predictors randomness recipes registry shifting
    threads
"""
REGISTRIES = {
    "attacks": "adversarial_noise adversarial_samples fgsm pgd",
    "calibrators": "dirichlet histogram isotonic matrix platt temperature vector",
    "conformals": "adaptive normalised quantile regularised_adaptive residual threshold",
    "datasets": """
        blobs cifar10 cifar100 cubic diabetes_130 digits emnist_letters fashion_mnist
        half_moons heart_disease image_folder imagenet_minus japanese_vowels kuzushiji_mnist
        letters lsun_classroom mnist mnist_c spiral svhn uci
    """,
    "detectors": """
        ash combined dice energy entropy gaussian_mixture generalised_entropy gower
        kl_matching knn mahalanobis max_logit measured msp odin openmax react
        relative_mahalanobis she smoothed_density trust_score vim
    """,
    "experiments": """
        deep_ensembles know_your_limits know_your_limits_search relu_overconfidence
        robust_deep_learning
    """,
    "heads": "categorical dirichlet double_exponential fixed_variance gaussian with_score",
    "losses": """
        absolute_error acet adversarial adversarial_training anchored brier ceda elbo
        learned_confidence nll outlier_exposure reject_class squared_error
        virtual_adversarial weight_decay
    """,
    "measures": """
        aleatoric_variance class_variance differential_entropy epistemic_variance
        expected_entropy expected_pairwise_kl least_confidence log_odds mutual_information
        predictive_entropy total_variance variation_ratio
    """,
    "metrics": """
        accuracy ap_error ap_success aupr aurc auroc autc brier classwise_ece debiased_ece
        detection_error ece excess_aurc fpr_at_tpr mce mean_max_confidence nll smooth_ece
    """,
    "nets": "bayesian_mlp digit_cnn lenet mlp rbf resnet small_cnn",
    "outsides": """
        another faded mixture overlaid paper_noise patches permuted scaled shapes shuffled
        smoothed stored strokes uniform
    """,
    "predictors": "ensemble mc_dropout plain weight_samples",
    "recipes": """
        acet adversarial_ensemble adversarial_training anchored_ensemble bayes_by_backprop
        ceda deep_ensemble dropout outlier_exposure single virtual_adversarial_ensemble
    """,
    "shifts": """
        blur brightness contrast feature_scaling gaussian_noise impulse_noise pixelation
        rotation scaling translation
    """,
}
COMMANDS = {
    "audit": """
        --attack-radius --attack-steps --class-names --data --epochs --net --out --output
        --outside --passes --rays --recipe --seed --target --train --validation --weights
        NETWORK
    """,
    "compare": """
        --data --detector --layer --near --net --ood --out --output --passes --pool
        --resamples --seed --train --tune --weights NETWORK
    """,
    "data": "",
    "data download": "--folder NAMES",
    "data list": "--folder",
    "data verify": "--folder NAMES",
    "guard": """
        --by-class --class-names --confidence --data --detector --failure --false-alarm
        --layer --net --no-weights --out --output --part --repeats --risk --seed --sets
        --target --test --train --weights NETWORK
    """,
    "list": "KIND",
    "monitor": "--false-alarm --net --plot --seed --state --weights REFERENCE STREAMS",
    "pieces": "--box --cases --colour --data --merge --net --out --seed --weights NETWORK",
    "predict": "--data --net --out --passes --weights NETWORK",
    "reproduce": "--bits --out --part --quick --seed EXPERIMENT",
    "score": "--batch-mb --net --out --restart --weights GUARD INPUTS",
    "search": "--epochs --layers --learning-rate --out --seed --trials --workers MODEL",
    "train": """
        --augment --batch-size --calibrate --clip --data --epochs --learning-rate --net
        --optimiser --option --patience --run --schedule --seed --standardise -o RECIPE
    """,
}
VALUES = {
    "Activations": """
        answers bias cases checked classes features hashes inputs known labels last layer
        logits made mean members views weight
    """,
    "Audit": "bound_for guard result save table",
    "Categorical": """
        batch_shape choose classes device from_probs join labels log_prob log_probs logits
        member_log_probs member_probs members pool probs to
    """,
    "Comparison": "beside join json latex load markdown result rows save",
    "Decisions": """
        answered batch columns decision doubt false_alarm in_range join label names p_value
        probability rule score set_sizes sets summary table to
    """,
    "Detector": "each layers made name options rows save score seen states to",
    "DetectorComparison": """
        auroc histograms json latex load markdown ranked result roc rows save scores
    """,
    "Dirichlet": """
        alpha batch_shape choose classes device join labels log_prob log_probs
        member_log_probs member_precision member_probs members pool precision probs to
    """,
    "Gaussian": """
        aleatoric batch_shape choose device epistemic join log_prob mean member_variance
        members mixture_mean mixture_variance pool to variance
    """,
    "Guard": """
        batch_size by confidence decide detector failure false_alarm groups guarantees
        hashes head layers load map names nets notes prediction range risk rules save scores
        sets table
    """,
    "Model": """
        answer architecture device dtype head history load member members net notes outputs
        save seen tensors to
    """,
    "Monitor": """
        alarm counts edges false_alarm history log_martingale logs p_value peaks pending
        save seed seen shard source threshold update
    """,
}


def public(namespace: str) -> list[str]:
    """The names that a namespace gives on purpose, sorted."""
    module = importlib.import_module(namespace)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    source = Path(inspect.getfile(module)).read_text()
    found = {name for node in ast.parse(source).body for name in _given(node)}
    return sorted(name for name in found if not name.startswith("_"))


def _given(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (one.name for one in node.names if one.asname == one.name)
    elif isinstance(node, ast.If):  # under TYPE_CHECKING: what is loaded when it is asked for
        for inner in node.body:
            yield from _given(inner)


def attributes(kind: type) -> list[str]:
    """Fields, properties and methods without an underscore, sorted."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    return sorted(name for name in names if not name.startswith("_"))


def registries() -> dict[str, list[str]]:
    import nescio.experiments  # noqa: F401 (fills one of them)

    found = {n: v for n, v in vars(registry).items() if isinstance(v, registry.Registry)}
    return {name: sorted(found[name]) for name in sorted(found)}


def commands() -> dict[str, list[str]]:
    """By command, with those of a group as `group command`."""
    return dict(sorted(_under("", main)))


def _under(before: str, group: click.Group) -> Iterator[tuple[str, list[str]]]:
    for name, command in group.commands.items():
        yield f"{before}{name}", _parameters(command)
        if isinstance(command, click.Group):
            yield from _under(f"{before}{name} ", command)


def _parameters(command: click.Command) -> list[str]:
    """Arguments in capitals, options with dashes; sorted."""
    found: list[str] = []
    for part in command.params:
        if isinstance(part, click.Argument):
            found.append(str(part.name).upper())
        else:
            found += [*part.opts, *part.secondary_opts]
    return sorted(found)


def values() -> dict[str, list[str]]:
    return {name: attributes(kind) for name, kind in CLASSES.items()}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_names(namespace: str) -> None:
    module = importlib.import_module(namespace)
    assert public(namespace) == NAMESPACES[namespace].split()
    for name in public(namespace):
        assert hasattr(module, name), f"{namespace}.{name}"


def test_what_is_there_at_once() -> None:
    code = "import sys, nescio, operator\nfor name in sys.argv[1:]:\n    try:\n"
    code += "        operator.attrgetter(name)(nescio) and print(name)\n"
    code += "    except AttributeError: pass"
    asked = [name.removeprefix("nescio.") for name in NAMESPACES if name != "nescio"]
    words = [sys.executable, "-c", code, *asked]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert found.split() == AT_ONCE.split()


def test_registries() -> None:
    assert registries() == {name: names.split() for name, names in REGISTRIES.items()}


def test_commands() -> None:
    assert commands() == {name: words.split() for name, words in COMMANDS.items()}


def test_values() -> None:
    assert values() == {name: names.split() for name, names in VALUES.items()}
