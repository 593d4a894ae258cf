"""Sets against loops in plain Python, and what cannot be calibrated."""

import math

import pytest
import torch

import nescio
from nescio import conformal
from nescio.conformal import Sets, adaptive, coverage, regularized_adaptive, threshold
from nescio.core import NescioError


def world(samples, classes=4, seed=0, sure=1.0):
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(samples, classes, generator=draw)
    probs = (sure * logits).softmax(1)
    return logits, torch.multinomial(probs, 1, generator=draw)[:, 0]


def quantile(values, share):
    """The ceil((n + 1)(1 - a))-th smallest."""
    place = math.ceil(round((len(values) + 1) * (1 - share), 9))
    return sorted(values)[place - 1] if place <= len(values) else math.inf


def adaptive_score(probs, label, penalty=0.0, free=0):
    order = sorted(range(len(probs)), key=lambda c: -probs[c])
    rank = order.index(label)
    return sum(probs[c] for c in order[:rank]) + penalty * max(0, rank + 1 - free)


SCORES = {
    "threshold": lambda probs, label: 1 - probs[label],
    "adaptive": adaptive_score,
    "regularized_adaptive": lambda probs, label: adaptive_score(probs, label, 0.01, 1),
}
OPTIONS = {"regularized_adaptive": {"free": 1}}


def brute(name, old, labels, new, share, by=None):
    """Sets by the definition; a small number for rounding in sums."""
    score = SCORES[name]
    rows = old.double().softmax(1).tolist()
    values = [score(p, y) for p, y in zip(rows, labels.tolist(), strict=True)]
    classes = range(old.shape[1])
    own = [[v for v, y in zip(values, labels, strict=True) if y == c] for c in classes]
    limit = [quantile(own[c] if by == "class" else values, share) for c in classes]
    return torch.tensor(
        [[score(p, c) <= limit[c] + 1e-12 for c in classes] for p in new.double().softmax(1)]
    )


@pytest.mark.parametrize("by", [None, "class"])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("name", SCORES)
def test_sets_are_those_of_the_definition(name, share, by):
    (old, labels), (new, _) = world(150), world(60, seed=1)
    options = {"miscoverage": share, "by": by, **OPTIONS.get(name, {})}
    fitted = getattr(conformal, name)(old.double(), labels, **options)
    wanted = brute(name, old, labels, new, share, by)
    assert torch.equal(fitted(new.double()), wanted)
    single = getattr(conformal, name)(old, labels, **options)(new)
    assert (single | ~wanted).all()  # in single precision a class may be in by rounding, never out
    assert (single != wanted).sum() <= 1


@pytest.mark.parametrize("name", SCORES)
def test_ties_offsets_and_certainty_do_not_show_in_single_precision(name):
    draw = torch.Generator().manual_seed(0)
    logits = (8 * torch.randn(4000, 6, generator=draw)).round()  # many ties, and p up to 1 - 1e-15
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    exact = getattr(conformal, name)(logits.double(), labels, **OPTIONS.get(name, {}))
    for offset in (0.0, 8192.0, -8192.0):
        fitted = getattr(conformal, name)(logits + offset, labels, **OPTIONS.get(name, {}))
        assert torch.allclose(fitted.state["high"], exact.state["high"], atol=1e-5)
        assert (fitted(logits + offset) != exact(logits.double())).double().mean() < 1e-3
    sure = torch.tensor([[0.0, -200.0, -201.0]]).repeat(99, 1)  # beyond the range of exp
    far = conformal.threshold(sure, torch.arange(99) % 3 // 2)
    assert far(sure[:1]).tolist() == [[True, True, False]]


def test_a_class_at_the_limit_stays_in_the_set_whatever_rounding_does():
    logits = torch.tensor([[0.7, 0.0]]).expand(100, 2)
    fitted = threshold(logits, torch.arange(100) // 80, miscoverage=0.1)
    assert float(fitted.state["high"]) == pytest.approx(0.7)
    for moved in (-1e-6, 0.0, 1e-6):
        assert fitted(logits[:1].double() + torch.tensor([moved, 0.0])).all()
    assert not fitted(logits[:1] + torch.tensor([1e-2, 0.0]))[0, 1]


def test_groups_have_the_sets_they_would_have_alone():
    (old, labels), (new, _) = world(300), world(60, seed=1)
    groups, new_groups = 10 * (torch.arange(300) % 3), 10 * (torch.arange(60) % 3)
    fitted = threshold(old, labels, by=groups)
    found = fitted(new, new_groups)
    for group in (0, 10, 20):
        alone = threshold(old[groups == group], labels[groups == group])
        assert torch.equal(found[new_groups == group], alone(new[new_groups == group]))


@pytest.mark.parametrize("build", [threshold, adaptive, regularized_adaptive])
@pytest.mark.parametrize("randomize", [False, True])
def test_one_group_is_all_samples_together(build, randomize):
    (old, labels), (new, _) = world(100), world(30, seed=1)
    together = build(old, labels, randomize=randomize)(new)
    zeros = torch.zeros(100, dtype=torch.int64)
    grouped = build(old, labels, randomize=randomize, by=zeros)
    assert torch.equal(grouped(new, zeros[:30]), together)


@pytest.mark.parametrize("build", [threshold, adaptive, regularized_adaptive])
def test_randomized_sets_cover_exactly(build):
    """Every redraw is a group, so that all are calibrated in one call."""
    redraws, samples = 1500, 40
    old, labels = world(redraws * samples, sure=0.5)
    new, wanted = world(redraws, seed=1, sure=0.5)
    fitted = build(old, labels, by=torch.arange(redraws).repeat_interleave(samples), randomize=True)
    hits = fitted(new, torch.arange(redraws)).gather(1, wanted[:, None])
    interval = conformal.binomial_interval(int(hits.sum()), redraws, level=0.999)
    assert interval.low <= 0.9 <= interval.high


def test_randomized_sets_of_equal_inputs_cover_exactly_over_calibration_sets():
    """Equal inputs draw one number: another one for each calibration set, whatever the seed."""
    draw, logits = torch.Generator().manual_seed(0), torch.tensor([0.0, -1.0, -1.5])
    labels = torch.multinomial(logits.softmax(0).expand(1000, -1), 41, True, generator=draw)
    fits = (threshold(logits.expand(40, -1), y[:40], randomize=True) for y in labels)
    sets = torch.cat([fitted(logits[None]) for fitted in fits])
    interval = conformal.binomial_interval(
        int(sets.gather(1, labels[:, 40:]).sum()), 1000, level=0.999
    )
    assert interval.low <= 0.9 <= interval.high


def test_the_randomized_adaptive_score_takes_a_share_of_the_class_itself():
    from nescio.conformal.sets import _adaptive as score

    probs = torch.tensor([[0.2, 0.5, 0.3]]).double()
    found = score(probs.log(), torch.tensor([0.25]).double())
    assert found[0].tolist() == pytest.approx([0.8 + 0.05, 0.125, 0.5 + 0.075])


def test_members_are_averaged_as_probabilities():
    old, labels = world(200)
    members = torch.stack([old, 3 * old.roll(1, 1)])
    mixed = nescio.Categorical(members)
    one = nescio.Categorical.from_probs(mixed.probs.double()[None])
    first = threshold(mixed, labels)(mixed)
    assert torch.equal(threshold(one, labels)(one), first)
    assert torch.equal(threshold(members, labels)(members), first)


def test_a_dirichlet_prediction_has_sets_too():
    old, labels = world(100)
    said = nescio.Dirichlet(old[None])
    assert torch.equal(threshold(said, labels)(said), threshold(old, labels)(old))


def test_probabilities_that_round_to_one_are_still_ranked():
    margins = torch.linspace(40, 80, 100).double()  # 1 - p is 0 in float64
    logits = torch.stack([margins, torch.zeros(100).double()], 1)
    logits[-1] = logits[-1].flip(0)
    labels = torch.zeros(100, dtype=torch.int64)
    labels[-1] = 1
    in_dist = threshold(logits, labels, miscoverage=0.3)(logits)
    assert (logits.softmax(1).amax(1) == 1).all()
    assert int(in_dist.sum()) == 71  # the ceil(0.7 x 101) surest ones


def test_adaptive_sets_are_never_empty_without_randomization():
    (old, labels), (new, _) = world(500, sure=5.0), world(200, seed=1)
    assert adaptive(old, labels, miscoverage=0.5)(new).any(1).all()


@pytest.mark.parametrize("by", [None, "class"])
def test_never_empty_adds_the_most_probable_class_and_nothing_else(by):
    (old, labels), (new, _) = world(500, sure=5.0), world(200, seed=1)
    few = threshold(old, labels, miscoverage=0.4, by=by)(new)
    more = threshold(old, labels, miscoverage=0.4, by=by, never_empty=True)(new)
    top = torch.nn.functional.one_hot(new.argmax(1), 4).bool()
    assert not few.any(1).all()
    assert torch.equal(more, few | top)


def test_a_class_without_samples_is_in_every_set_and_that_is_said():
    old, labels = world(300)
    kept = labels != 2
    with pytest.warns(UserWarning, match=r"1 of 4 classes .* in every set: 2 \(0\)") as found:
        fitted = threshold(old[kept], labels[kept], by="class")
    assert found[0].filename == __file__
    assert fitted(old)[:, 2].all()
    assert "2 (0)" in fitted.guarantee


def test_a_small_group_gets_everything_and_that_is_said():
    old, labels = world(100)
    groups = torch.zeros(100, dtype=torch.int64)
    groups[:5] = 3
    with pytest.warns(UserWarning, match=r"fewer than the 9 .* they get everything: 3 \(5\)"):
        fitted = threshold(old, labels, by=groups)
    assert fitted(old[:5], groups[:5]).all()


@pytest.mark.parametrize(("samples", "share"), [(8, 0.1), (98, 0.01)])
def test_too_few_samples_are_refused_with_the_number_that_would_do(samples, share):
    old, labels = world(samples + 1)
    with pytest.raises(NescioError, match=f"at least {samples + 1} samples, or raise"):
        threshold(old[:-1], labels[:-1], miscoverage=share)
    assert threshold(old, labels, miscoverage=share).options["samples"] == samples + 1


def test_too_few_samples_in_every_class_are_refused():
    old, labels = world(20)
    with pytest.raises(NescioError, match="in any class are too few"):
        threshold(old, labels, by="class", miscoverage=0.05)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": torch.zeros(100, dtype=torch.int64)}, "all of class 0"),
        ({"labels": torch.full((100,), 4)}, "labels must lie in 0..3"),
        ({"labels": torch.zeros(99, dtype=torch.int64)}, "labels have shape"),
        ({"labels": torch.zeros(100)}, "must be integers"),
        ({"prediction": torch.full((100, 4), math.nan)}, "NaN"),
        ({"prediction": torch.zeros(100, 4).long()}, "floating point"),
        ({"prediction": torch.zeros(1, 10, 10, 4)}, "exchangeable"),
        ({"prediction": torch.zeros(100, 1)}, r"labels must lie in 0\.\.1"),
        ({"prediction": torch.zeros(0, 4), "labels": torch.zeros(0).long()}, "labels are none"),
        ({"miscoverage": 1.5}, "between 0 and 1"),
        ({"by": "label"}, "by must be None, 'class'"),
        ({"by": torch.zeros(99).long()}, r"shape \(100,\)"),
        ({"by": torch.zeros(100)}, "whole numbers"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(options, words):
    logits, labels = world(100)
    given = {"prediction": logits, "labels": labels, **options}
    with pytest.raises(NescioError, match=words):
        threshold(**given)


@pytest.mark.parametrize(
    ("prediction", "groups", "words"),
    [
        (torch.zeros(5, 3), torch.zeros(5).long(), "calibrated for 4 classes"),
        (torch.zeros(5, 4), None, "need groups="),
        (torch.zeros(5, 4), torch.arange(5), "groups 2, 3, 4 were not among"),
        (torch.zeros(5, 4), torch.zeros(4).long(), r"shape \(5,\)"),
    ],
)
def test_what_cannot_have_sets_is_refused(prediction, groups, words):
    logits, labels = world(100)
    fitted = threshold(logits, labels, by=torch.arange(100) % 2)
    with pytest.raises(NescioError, match=words):
        fitted(prediction, groups)


def test_groups_for_sets_without_are_refused():
    logits, labels = world(100)
    with pytest.raises(NescioError, match="take no groups="):
        threshold(logits, labels)(logits, torch.zeros(100).long())


@pytest.mark.parametrize("options", [{"penalty": -1.0}, {"penalty": math.nan}, {"free": -1}])
def test_penalties_are_numbers_from_0_up(options):
    with pytest.raises(NescioError, match="from 0 up"):
        regularized_adaptive(*world(100), **options)


def test_no_samples_have_no_sets():
    assert threshold(*world(100))(torch.zeros(0, 4)).shape == (0, 4)


def test_coverage_of_the_calibration_samples_is_at_least_the_guarantee():
    logits, labels = world(400)
    assert coverage(threshold(logits, labels)(logits), labels).covered.value >= 0.9


def test_the_guarantee_says_what_it_is_and_what_it_rests_on():
    logits, labels = world(100)
    plain, exact = threshold(logits, labels), threshold(logits, labels, randomize=True)
    for words in ("at least 90 %", "100 samples", "exchangeable", "nothing under shift"):
        assert words in plain.guarantee
    assert "exactly 90 %" in exact.guarantee
    assert "for each class" in threshold(logits, labels, by="class", miscoverage=0.2).guarantee


def test_a_damaged_manifest_is_refused():
    fitted = threshold(*world(100))
    for change in ({"kind": "detector"}, {"name": "treshold"}, {"options": None}):
        with pytest.raises(NescioError):
            Sets.from_manifest({**fitted.manifest(), **change}, fitted.state)
    with pytest.raises(NescioError, match="low, sizes, steps missing"):
        Sets.from_manifest(fitted.manifest(), {"high": fitted.state["high"]})
