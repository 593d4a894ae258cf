"""ACET on networks with BatchNorm: small steps, a renewed pool, starts at training inputs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, attacks, losses, nets
from nescio.attacks import Ascent
from nescio.core import Rng
from nescio.data.ood import another, paper_noise, uniform
from nescio.losses import Batch
from nescio.losses.acet import _search
from nescio.losses.with_ood import APART, NO_LABEL, confidence_term, top_odds, turns
from nescio.nets.stack import Forward, Stack, stack

CLASSES, SIDE = 3, 8
SOURCE = torch.Generator().manual_seed(0)
Y = torch.arange(150) % CLASSES
BARS = torch.zeros(CLASSES, 3, SIDE, SIDE)
for label in range(CLASSES):
    BARS[label, label, :, 2 * label : 2 * label + 3] = 1.0
X = (BARS[Y] + 0.1 * torch.rand(150, 3, SIDE, SIDE, generator=SOURCE)).clamp(0, 1)
NOISE = paper_noise(X, seed=5)


def residual():
    return nets.resnet((3, SIDE, SIDE), CLASSES, blocks=1, width=4)


def trained(loss, **options):
    kept = {"epochs": 6, "batch_size": 25, "learning_rate": 0.01, "progress": False, **options}
    return nescio.train(residual, (X, Y), loss=loss, **kept)


def attacked(model):
    """Mean confidence under the training attack of a residual network, on noise it has not seen."""
    noise = NOISE.take(40)
    found = [
        attacks.adversarial_noise(model, noise, radius=0.3, steps=30, step=step).x
        for step in (0.03, 0.01, 0.003)
    ]
    return torch.stack([model(x).probs.amax(-1) for x in found]).amax(0).mean().item()


def test_the_confidence_on_its_training_attack_falls() -> None:
    plain = trained(losses.nll())
    humble = trained(losses.acet(losses.nll(), NOISE, pool=50), start=plain, epochs=12)
    before, after = attacked(plain), attacked(humble)
    assert before > 0.9
    assert after < 0.6
    assert (humble(X).log_probs.argmax(-1) == Y).float().mean() > 0.95


FEATURES = 4


def batch_at(step: int, *, members: int = 2, samples: int = 10) -> Batch:
    x = torch.rand(members, samples, FEATURES, generator=torch.Generator().manual_seed(step))
    low, high = torch.zeros(FEATURES), torch.ones(FEATURES)
    y = torch.zeros(members, samples, dtype=torch.long)
    return Batch(x=x, y=y, points=20, low=low, high=high, steps=2, step=step, total=40)


@pytest.mark.parametrize("ood", [uniform((FEATURES,), seed=1), another(torch.rand(30, 4), "few")])
def test_an_input_stays_for_its_visits_and_gives_way_then(ood) -> None:
    pool, renew = 5, 3
    stays: dict[int, list[list[int]]] = {}
    for step in range(12):
        turn = turns(ood, batch_at(step), Rng(0, (0, 1), (0, step)), 0.5, pool, renew)
        rows = zip(turn.slot[0], turn.index[0], turn.fresh[0], strict=True)
        for slot, index, fresh in rows:
            own = stays.setdefault(int(slot), [])
            if fresh:
                own.append([])
            own[-1].append(int(index))
    assert sorted(stays) == list(range(pool))
    for own in stays.values():
        assert all(len(set(stay)) == 1 for stay in own)  # one input at a time
        assert all(len(stay) == renew for stay in own[1:-1])  # for all its visits
        first = [stay[0] for stay in own]
        assert len(set(first)) == len(first)  # and never the same again
    together = {len(own[0]) for own in stays.values()}
    assert len(together) > 1  # not all of them at once


def test_without_renewal_an_input_is_new_once() -> None:
    ood = uniform((FEATURES,), seed=1)
    for step in range(6):
        turn = turns(ood, batch_at(step), Rng(0, (0, 1), (0, step)), 0.5, 5)
        assert turn.fresh.all() == (step == 0)
        assert torch.equal(turn.index % APART, turn.slot)


class Recording(Stack):
    """Keeps the inputs of evaluation passes: the points that an attack looks at."""

    def __init__(self, net):
        super().__init__(net)
        self.looked = []

    def __call__(self, tensors, x, rng=None):
        if rng is None:
            self.looked.append(x.detach().clone())
        return super().__call__(tensors, x, rng)


def normalized():
    return nn.Sequential(
        nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES)
    )


def plain_net():
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def looked_at(make, **options):
    nets_made = [make() for _ in range(2)]
    batch = batch_at(0)
    rng = Rng(0, (0, 1), (0, 0))
    architecture = Recording(nets_made[0])
    tensors = stack(nets_made)
    for name, tensor in tensors.items():
        if "running" not in name and "num" not in name:
            tensor.requires_grad_()
    ood = uniform((FEATURES,), seed=1)
    losses.acet(losses.nll(), ood, pool=20, **options)(
        Forward(architecture, tensors, rng), batch, rng
    )
    turn = turns(ood, batch, rng, 1.0, 20, options.get("renew", 12) or None)
    centers = torch.stack([ood(row) for row in turn.index])
    return architecture.looked, centers, batch


def test_the_network_chooses_the_search() -> None:
    assert len(looked_at(plain_net)[0]) == 0  # the free step alone
    assert len(looked_at(normalized)[0]) == 9  # the last one, for the best of them
    assert len(looked_at(normalized, candidates=2)[0]) == 10  # and the candidates
    assert len(looked_at(normalized, free=0.5)[0]) == 0  # as it was asked for
    assert len(looked_at(plain_net, attack=Ascent(radius=0.3, steps=3))[0]) == 4


def test_lengths_of_steps_are_drawn_for_each_training_step() -> None:
    found = []
    for step in range(12):
        search = _search(None, True, None, None, None, None, None, 1, None, 0.0, steps=8)
        found.append(search.drawn(0, step).size)
    assert max(found) <= 0.3 / 8
    assert min(found) >= 0.3 / 8 / 20
    assert max(found) / min(found) > 4
    fixed = _search(None, True, None, None, None, None, None, 1, 1.0, 0.0, steps=8)
    assert fixed.drawn(0, 0) == fixed.ascent


def dead_net():
    net = plain_net()
    net[0].bias.data.fill_(-10)  # no input of the box wakes a unit
    return net


@pytest.mark.parametrize("leaking", [0.0, 1.0])
def test_leaking_gradients_move_a_search_past_dead_units(leaking) -> None:
    points, *_ = looked_at(dead_net, attack=Ascent(radius=0.3, steps=3), leaking=leaking)
    moved = [not torch.equal(one, points[0]) for one in points[1:]]
    assert moved == [bool(leaking)] * 3


def test_a_share_of_the_training_steps_leaks() -> None:
    def leaks(share):
        search = _search(None, True, None, None, None, None, None, 1, None, share, steps=8)
        return [search.leaks(3, step) for step in range(400)]

    assert sum(leaks(0.25)) == pytest.approx(100, abs=30)
    assert leaks(0.25) == leaks(0.25)
    assert not any(leaks(0.0))
    assert all(leaks(1.0))


def test_leaking_is_told_only_where_it_is_asked_for() -> None:
    usual, leaky = (losses.acet(losses.nll(), NOISE, leaking=share) for share in (0.0, 0.5))
    assert "leaking" not in usual.description  # a run of before is the same run
    assert leaky.description.replace(", leaking=0.5", "") == usual.description


@pytest.mark.parametrize("options", [{"leaking": 0.5}, {"finer": 20.0}])
def test_what_guides_the_steps_needs_some(options) -> None:
    (name,) = options
    with pytest.raises(NescioError, match=rf"{name} is about .* no step; .*-o steps=8"):
        looked_at(plain_net, **options)
    assert len(looked_at(normalized, **options)[0]) == 9


def test_searches_start_at_training_inputs_cut_into_the_ball() -> None:
    points, centers, batch = looked_at(normalized, from_data=1.0)
    expected = (batch.x - centers).clamp(-0.3, 0.3) + centers
    assert torch.allclose(points[0], expected.clamp(0, 1), atol=1e-6)
    points, centers, batch = looked_at(normalized, from_data=0.0)
    assert not torch.allclose(points[0], expected.clamp(0, 1), atol=1e-2)
    assert ((points[0] - centers).abs() <= 0.3 + 1e-6).all()


def test_of_several_training_inputs_the_search_starts_at_the_most_confidently_misread() -> None:
    """Of three that follow each other in the batch; brute force over all of them."""
    torch.manual_seed(3)
    made = [normalized() for _ in range(2)]
    rng, memory = Rng(0, (0, 1), (0, 0)), {}
    labels = torch.arange(20).view(2, 10) % CLASSES
    weight = torch.ones(2, 10).index_fill(1, torch.tensor([4]), 0.0)
    batch = replace(batch_at(0), y=labels, weight=weight, memory=memory)
    ood, architecture = uniform((FEATURES,), seed=1), Recording(made[0])
    forward = Forward(architecture, stack(made), rng)
    losses.acet(losses.nll(), ood, pool=20, from_data=1.0, candidates=3)(forward, batch, rng)
    tried, started = architecture.looked[:2]
    assert tried.shape == (2, 30, FEATURES)
    (shown,) = (tensor for name, tensor in memory.items() if name.endswith(" shown"))
    turn = turns(ood, batch, rng, 1.0, 20, 16)
    for member in range(2):
        for row in range(10):
            center = ood(turn.index[member, [row]])[0]
            cuts = [(batch.x[member, (3 * row + j) % 10] - center).clamp(-0.3, 0.3) + center
                    for j in range(3)]  # fmt: skip
            values = []
            for j, cut in enumerate(cuts):
                sample = (3 * row + j) % 10
                probs = made[member].eval()(cut[None]).softmax(-1)[0]
                probs[labels[member, sample]] = 0.0
                values.append(-1.0 if sample == 4 else probs.max().item())
            best = max(range(3), key=values.__getitem__)
            torch.testing.assert_close(started[member, row], cuts[best])
            there = shown[member, turn.slot[member, row]]
            assert there == labels[member, (3 * row + best) % 10]


def test_what_shows_a_class_is_raised_in_the_others_alone() -> None:
    outputs = torch.tensor([[[3.0, 1.0, 0.0], [3.0, 1.0, 0.0], [0.0, 1.0, 3.0]]])
    shown = torch.tensor([[0, NO_LABEL, 1]])
    logs = outputs.log_softmax(-1)[0]
    expected = torch.stack([logs[0, 1], logs[1, 0], logs[2, 2]])
    expected = expected - torch.log1p(-expected.exp())
    torch.testing.assert_close(top_odds(outputs, shown)[0], expected)
    nothing = torch.full_like(shown, NO_LABEL)
    torch.testing.assert_close(top_odds(outputs, nothing), top_odds(outputs))


def test_who_names_the_class_that_is_shown_is_not_taught_to_be_unsure() -> None:
    head, outputs = losses.nll().head, torch.tensor([[[3.0, 1.0, 0.0], [0.0, 1.0, 3.0]]])
    each = [confidence_term(head, outputs[:, [i]], "uniform") for i in range(2)]
    shown = torch.tensor([[0, 0]])
    torch.testing.assert_close(confidence_term(head, outputs, "uniform", shown), each[1] / 2)


def test_the_class_of_a_start_is_known_for_all_its_visits() -> None:
    """Two visits each: the class is that of the training input the search began at."""
    ood, memory, began = uniform((FEATURES,), seed=1), {}, {}
    loss = losses.acet(losses.nll(), ood, pool=20, renew=2, from_data=0.5)
    made = [normalized() for _ in range(2)]
    for step in range(8):
        labels = torch.full((2, 10), step % CLASSES)
        batch, rng = replace(batch_at(step), y=labels, memory=memory), Rng(0, (0, 1), (0, step))
        loss(Forward(Stack(made[0]), stack(made), rng), batch, rng)
        turn = turns(ood, batch, rng, 1.0, 20, 2)
        (shown,) = (tensor for name, tensor in memory.items() if name.endswith(" shown"))
        for member in range(2):
            for slot, fresh in zip(turn.slot[member], turn.fresh[member], strict=True):
                now, key = int(shown[member, slot]), (member, int(slot))
                if fresh:
                    assert now in (NO_LABEL, step % CLASSES)
                    began[key] = now
                assert now == began[key]
    assert {NO_LABEL, 0, 1, 2} <= set(began.values())


def test_samples_without_a_label_that_counts_are_no_starts() -> None:
    memory: dict = {}
    made, weight = [normalized() for _ in range(2)], (torch.arange(10) < 3).float().expand(2, -1)
    batch = replace(batch_at(0), y=torch.ones(2, 10, dtype=torch.long), weight=weight)
    batch, rng = replace(batch, memory=memory), Rng(0, (0, 1), (0, 0))
    losses.acet(losses.nll(), uniform((FEATURES,), seed=1), pool=10, from_data=1.0, candidates=1)(
        Forward(Stack(made[0]), stack(made), rng), batch, rng
    )
    (shown,) = (tensor for name, tensor in memory.items() if name.endswith(" shown"))
    assert shown.sort(1).values.tolist() == 2 * [[NO_LABEL] * 7 + [1] * 3]


def test_of_label_maps_no_search_starts_at_the_data() -> None:
    """There an input shows no single class, and nothing tells which answers are right."""
    x, memory = torch.rand(1, 6, 1, 4, 4), {}
    y = torch.randint(0, 2, (1, 6, 4, 4))
    net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    architecture, rng = Recording(net), Rng(0, (0,), (0, 0))
    ends = torch.zeros(1, 4, 4), torch.ones(1, 4, 4)
    batch = Batch(x=x, y=y, points=6, low=ends[0], high=ends[1], total=4, memory=memory)
    loss = losses.acet(losses.nll(), uniform((1, 4, 4), seed=1), pool=12, from_data=1.0)
    loss(Forward(architecture, stack([net]), rng), batch, rng)
    turn = turns(uniform((1, 4, 4), seed=1), batch, rng, 1.0, 12, 16)
    center = uniform((1, 4, 4), seed=1)(turn.index[0])[None]
    cut = (x - center).clamp(-0.3, 0.3) + center
    assert ((architecture.looked[0] - cut).abs().flatten(2).amax(2) > 1e-3).all()
    assert not [name for name in memory if name.endswith(" shown")]


def test_a_start_at_the_data_needs_a_step() -> None:
    with pytest.raises(NescioError, match="no step to move"):
        looked_at(plain_net, from_data=0.5)


def test_candidates_need_searches_that_start_at_data() -> None:
    for make, options in ((normalized, {"from_data": 0.0}), (plain_net, {})):
        with pytest.raises(NescioError, match="candidates=4 chooses among starts"):
            looked_at(make, candidates=4, **options)


def test_the_weight_grows() -> None:
    ood, terms = uniform((FEATURES,), seed=1), []
    made = [normalized() for _ in range(2)]
    for step in (0, 9, 19, 39):
        batch, rng = batch_at(step), Rng(0, (0, 1), (0, step))
        values = [
            losses.acet(losses.nll(), ood, pool=20, weight_ramp=0.5, weight=weight)(
                Forward(Stack(made[0]), stack(made), rng), batch, rng
            )
            for weight in (0.0, 1.0)
        ]
        batch = replace(batch, memory={})
        whole = losses.acet(losses.nll(), ood, pool=20)(
            Forward(Stack(made[0]), stack(made), rng), batch, rng
        )
        terms.append((values[1] - values[0]) / (whole - values[0]))
    assert torch.stack(terms)[:, 0].tolist() == pytest.approx([0.05, 0.5, 1.0, 1.0], rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_ramp": 1.5}, "weight_ramp"),
        ({"from_data": -0.1}, "from_data"),
        ({"renew": -1}, "renew"),
        ({"finer": 0.5}, "finer"),
        ({"leaking": 1.5}, "leaking"),
        ({"leaking": "half"}, "leaking is a share, from 0 to 1, got 'half'"),
        ({"leaking": None}, "leaking"),
        ({"candidates": 0}, "candidates"),
        ({"candidates": 2.0}, "candidates"),
        ({"renew": 2.5}, "renew"),
        ({"renew": 3, "keep": False, "attack": Ascent(radius=0.3, steps=5)}, "keep=True"),
        ({"form": "least"}, "form"),
        ({"weight": "a"}, "weight must be a number from 0 up, got 'a'"),
        ({"weight": True}, "weight must be a number"),
        ({"share": "x"}, "share must be a positive number, got 'x'"),
        ({"pool": 2.5}, "pool"),
        ({"free": "x"}, "free is a share of the radius"),
        ({"ramp": "x"}, "ramp is a share, from 0 to 1, got 'x'"),
        ({"weight_ramp": True}, "weight_ramp is a share"),
        ({"finer": "x"}, "finer is a factor"),
        ({"keep": "no"}, "keep is True or False, got 'no'"),
        ({"attack": 0.3}, "attacks.Ascent.* got 0.3"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message) -> None:
    with pytest.raises(NescioError, match=message):
        losses.acet(losses.nll(), uniform((FEATURES,)), **options)


def test_a_stopped_run_resumes_to_the_same_weights(tmp_path) -> None:
    loss = losses.acet(losses.nll(), NOISE, pool=50, renew=2)
    whole = trained(loss, epochs=3)
    with pytest.raises(KeyboardInterrupt):
        trained(_stopping(loss, 9), epochs=3, run=tmp_path, checkpoint_seconds=0.0)
    again = trained(loss, epochs=3, run=tmp_path)
    for name, tensor in whole.tensors.items():
        assert torch.equal(again.tensors[name], tensor), name


def _stopping(loss, step):
    def stop(forward, batch, rng):
        if batch.step == step:
            raise KeyboardInterrupt
        return loss.step(forward, batch, rng)

    return replace(loss, step=stop)


def test_noise_in_the_place_of_the_loss_is_refused() -> None:
    noise = uniform((FEATURES,), seed=1)
    with pytest.raises(NescioError, match=r"first argument is the loss on the data"):
        losses.acet(noise, noise)
