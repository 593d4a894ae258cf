"""The lecture's failure prediction on made-up images, with networks that train in seconds."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nescio.core import NescioError
from nescio.evaluation import Comparison
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.errors_task import BASELINE
from nescio_papers import Settings
from nescio_papers.robust_deep_learning import failure, failure_verdicts

TINY = replace(
    failure.QUICK, train={"MNIST": 120, "CIFAR-10": 40}, test=50, width=8, heads=(4,),
    epochs={"MNIST": 3, "CIFAR-10": 1}, passes=2, resamples=4,
)  # fmt: skip
SCORES = {
    BASELINE, failure.COOLED, failure.MC, f"{failure.MC}: entropy", failure.ENSEMBLE,
    f"{failure.ENSEMBLE}: entropy", failure.STAGE_ONE, failure.PUBLISHED, failure.CROSSED,
    failure.RESIDUAL, failure.TRUST, failure.PLAIN, failure.RECOMMENDED, failure.ORACLE,
}  # fmt: skip


@pytest.fixture(scope="module")
def small(image_files, tmp_path_factory):
    folder = image_files(tmp_path_factory.mktemp("data"), train=150, test=50, letters=104)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(folder))
        patch.setattr(failure, "QUICK", TINY)
        yield


@pytest.fixture(scope="module")
def found(small, tmp_path_factory):
    settings = Settings(quick=True, folder=tmp_path_factory.mktemp("run"))
    return settings, failure.run(settings)


def test_every_score_is_there_for_every_seed(found):
    part = found[1].numbers["MNIST"]
    assert set(part["scores"]) == SCORES
    assert part["seeds"] == len(part["error"]) == 2
    assert "gains" not in part["scores"][BASELINE]
    for name in SCORES - {BASELINE}:
        assert len(part["scores"][name]["gains"]) == 2
    json.dumps(found[1].numbers, allow_nan=False)


def test_gains_are_differences_of_the_means(found):
    part = found[1].numbers["MNIST"]
    base = part["scores"][BASELINE]["metrics"]["ap_error"]["value"]
    for name in SCORES - {BASELINE}:
        one = part["scores"][name]
        gain = sum(g["value"] for g in one["gains"]) / 2
        assert gain == pytest.approx(one["metrics"]["ap_error"]["value"] - base)


def test_noise_that_cannot_be_learnt_is_not_judged_in_a_quick_run(found, monkeypatch):
    settings, findings = found
    assert "do not speak for the labels" in findings.numbers["CIFAR-10"]["absent"]
    assert "CIFAR-10 was not judged" in findings.text
    monkeypatch.setattr(failure, "FULL", TINY)
    monkeypatch.setattr(failure, "BLOCKS", {"CIFAR-10": failure.BLOCKS["CIFAR-10"]})
    with pytest.raises(NescioError, match="do not speak for the labels"):
        failure.run(replace(settings, quick=False))


def test_what_is_kept_is_not_made_again(found, monkeypatch):
    settings, first = found
    monkeypatch.setattr(failure, "_compared", None)
    monkeypatch.setattr(failure, "BLOCKS", {"MNIST": failure.BLOCKS["MNIST"]})
    again = failure.run(settings)
    assert again.numbers["MNIST"] == first.numbers["MNIST"]
    assert first.text.startswith(again.text)


def test_the_recommended_score_is_the_detector_that_a_user_makes(found):
    settings, _ = found
    block = failure.BLOCKS["MNIST"]
    in_dist = failure.images(block, TINY)
    model, crossed = failure.networks_of(settings, block, in_dist)
    net = model.member(1)
    seen = failure.observe(net, in_dist.train, progress=False)
    test = failure.observe(net, in_dist.test, progress=False)
    kept = Comparison.load(settings.folder / "failure" / "mnist" / "seed-1")
    plain = failure.recommended(seen)(test)
    assert kept.scores[failure.PLAIN]["MNIST"] == pytest.approx(plain.numpy(), rel=1e-4, abs=1e-4)
    learnt = failure.recommended(seen, crossed=crossed.member(1))(test)
    assert kept.scores[failure.RECOMMENDED]["MNIST"] == pytest.approx(
        learnt.numpy(), rel=1e-4, abs=1e-4
    )


def test_the_page_has_tables_pictures_and_claims(found):
    findings = found[1]
    assert len(findings.figures) == len(findings.captions) == 4
    assert not findings.claims  # they are judged from the numbers
    for name in SCORES:
        assert name in findings.text
    stored = json.loads(json.dumps(findings.numbers))
    claims = failure_verdicts.judge(stored)
    assert len(claims) == 4  # of MNIST; CIFAR-10 was not judged
    assert all("(MNIST)" in claim.sentence for claim in claims)


def test_published_numbers_stand_beside_ours(found):
    rows = {row.what: row for row in found[1].comparisons}
    ours = found[1].numbers["MNIST"]["scores"][failure.TRUST]["metrics"]["ap_error"]["value"]
    row = rows["MNIST, trust score: AP of errors, %"]
    assert (row.published, row.ours) == (52.18, pytest.approx(100 * ours))
    assert row.note


def test_the_true_class_probability_is_apart_by_definition(found):
    settings, findings = found
    kept = Comparison.load(settings.folder / "failure" / "mnist" / "seed-0")
    wrong = np.asarray(kept.wrong, dtype=bool)
    truth = -np.asarray(kept.scores[failure.ORACLE]["MNIST"])
    assert wrong.any()
    assert (truth[wrong] <= 0.5).all()  # above one half the true class has the largest probability
    assert (truth[~wrong] >= 0.1).all()
    np.testing.assert_allclose(truth[~wrong], kept.confidence["before"][~wrong], rtol=1e-6)
    first, second = findings.figures["failure-mnist-true-class.png"].axes
    for axis in (first, second):  # shares of successes and of errors, each summing to 1
        assert sum(bar.get_height() for bar in axis.patches) == pytest.approx(2)


def part(**changes):
    """Numbers as the part stores them, of three networks."""

    def score(auroc, precisions, gain):
        gains = [{"value": gain, "low": gain - 0.02, "high": gain + 0.02}] * 3
        return {
            "metrics": {
                "auroc": {"value": auroc, "deviation": 0.001},
                "ap_error": {"value": precisions[0], "deviation": 0.01},
            },
            "ap_error": [{"value": one} for one in precisions],
            "gains": gains,
        }

    scores = {
        failure.ORACLE: score(0.999, [0.99], 0.6),
        BASELINE: score(0.97, [0.4], 0.0),
        failure.COOLED: score(0.97, [0.4], -0.015),
        failure.RECOMMENDED: score(0.98, [0.5], 0.1),
        failure.ENSEMBLE: score(0.98, [0.5, 0.52, 0.51], 0.1),
        failure.MC: score(0.97, [0.4, 0.41, 0.4], 0.0),
    }
    sure = {"before": 0.2, "after": 0.2}
    return {"seeds": 3, "sure_errors": sure, "scores": scores | changes}


def test_claims_are_judged_by_the_intervals_of_networks_and_images():
    overlap, ranking, separation, ensembles = failure_verdicts.judge({"MNIST": part()})
    assert [one.verdict for one in (overlap, ranking, separation, ensembles)] == ["holds"] * 4
    poor = {**part(), "error": [0.44, 0.45]}
    photographs = failure_verdicts.judge({"CIFAR-10": poor})
    assert {one.verdict for one in photographs} == {"not reached here"}
    assert "0.9990 (0.9965 to 1.0000)" in separation.measured  # 4.303 * 0.001 / sqrt(3)
    assert "0.107 (0.0923 to 0.121)" in ensembles.measured
    scores = part()["scores"]
    swapped = part(**{failure.ENSEMBLE: scores[failure.MC], failure.MC: scores[failure.ENSEMBLE]})
    assert failure_verdicts.ensemble_claim("MNIST", swapped).verdict == "does not hold"
    solved = part(**{failure.COOLED: scores[failure.ORACLE]})
    assert failure_verdicts.overlap_claim("MNIST", solved).verdict == "does not hold"
    near = part(**{failure.RECOMMENDED: scores[BASELINE]})
    assert failure_verdicts.ranking_claim("MNIST", near).verdict == "open"


def test_data_that_are_not_there_are_named(monkeypatch):
    monkeypatch.setattr(failure, "all_images", lambda name, **_: Absent(f"no {name}"))
    findings = failure.run(Settings(quick=True))
    assert findings.numbers["MNIST"] == {"absent": "no mnist"}
    assert "CIFAR-10 is not at hand: no cifar10." in findings.text
