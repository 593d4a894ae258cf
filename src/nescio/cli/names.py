"""Names that the Tab key completes: those of the registries, without loading what they name.

A test compares them with the registries, and says what to write here.
"""

_TEXT = {
    "heads": """
        binary categorical dirichlet double_exponential fixed_variance gaussian gaussian_logits
        multilabel normal_inverse_gamma with_score
    """,
    "datasets": """
        blobs camvid cifar10 cifar100 cubic diabetes_130 digits emnist_letters fashion_mnist
        gun_point half_moons heart_disease image_folder imagenet_minus italy_power_demand
        japanese_vowels kuzushiji_mnist letters lsun_classroom mnist mnist_c spiral svhn
        tiny_imagenet uci
    """,
    "ood_sources": """
        another faded mixture overlaid paper_noise patches permuted scaled shapes shuffled
        smoothed stored strokes uniform
    """,
    "nets": """
        bayesian_mlp digit_cnn dilated_cnn gru lenet lstm mlp posterior_network rbf
        recorded_columns resnet scattering small_cnn unet
    """,
    "detectors": """
        ash combined dice energy entropy gaussian_mixture generalized_entropy gower kl_matching
        knn mahalanobis max_logit measured msp odin openmax react relative_mahalanobis she
        smoothed_density trust_score vim
    """,
    "measures": """
        aleatoric_variance class_variance differential_entropy epistemic_variance
        expected_entropy expected_pairwise_kl least_confidence log_odds mutual_information
        negative_log_precision predictive_entropy total_variance variation_ratio
    """,
    "calibrators": """
        dirichlet histogram isotonic matrix platt temperature vector
    """,
    "optimizers": """
        adam lbfgs sgd
    """,
    "recipes": """
        acet adversarial_ensemble adversarial_training anchored_ensemble bayes_by_backprop ceda
        deep_ensemble dirichlet dirichlet_ood dropout evidential evidential_ood
        evidential_regression mean_teacher outlier_exposure pi_model posterior_network single
        temporal_ensembling transformation_consistency virtual_adversarial
        virtual_adversarial_ensemble
    """,
    "acquisitions": """
        bald batchbald core_set entropy least_confidence margin mean_std random variation_ratio
    """,
    "parts": """
        guard calibration failure noise attack shift scaled-inputs far-field
    """,
    "augments": """
        crops mirrored_crops mirrors noise affine colors
    """,
    "audit_sections": """
        answers cases duplicates groups influence interval-remedies label-errors planner
        provenance remedies shift-budget slices stability thresholds
    """,
    "experiments": """
        deep-ensembles know-your-limits know-your-limits-search relu-overconfidence
        robust-deep-learning uci
    """,
    "models": """
        plain mc_dropout bayes_by_backprop bayes_mixture bayes_released
    """,
    "limits": """
        above_chance abstained accuracy auroc brier broken_guarantees certain_far_away
        confidence coverage ece failure_auroc false_alarms group_gap interval_coverage leaked
        nll nll_over_baseline out_of_range outrun_far_away overconfidence risk rmse
        rmse_over_baseline slices smallest_change spread_correlation survived_shift
        worst_group_accuracy
    """,
    "downloads": """
        mnist fashion_mnist kuzushiji_mnist emnist_letters letters cifar10 cifar100 svhn
        lsun_classroom imagenet_minus tiny_imagenet camvid mnist_c heart_disease diabetes_130
        uci japanese_vowels gun_point italy_power_demand
    """,
    "kinds": """
        heads measures metrics datasets corruptions ood_sources nets attacks losses detectors
        calibrators conformal_methods predictors optimizers recipes acquisitions agents
        audit_sections experiments limits
    """,
}
NAMES = {kind: tuple(names.split()) for kind, names in _TEXT.items()}
