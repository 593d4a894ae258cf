"""The stepper: PyTorch's steps, nescio.train's bits, stacked equals alone, resumed to the bit."""

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, heads, losses, nets, stepper
from nescio.core import seeded

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(40, 3, generator=DRAW, dtype=torch.float64)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).long()
IMAGES = torch.rand(24, 1, 8, 8, generator=DRAW)
KINDS = torch.arange(24) % 3


def small() -> nn.Module:
    return nets.mlp(3, 2, widths=(8, 6)).double()


def dropping() -> nn.Module:
    return nets.mlp(3, 2, widths=(8,), dropout=0.3).double()


class Images(nn.Module):
    """Convolutions, BatchNorm and dropout: not stacked, with buffers and draws."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3)]
        self.layers = nn.Sequential(*layers, nn.Linear(72, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


CASES = {
    "by hand": (small, (X, Y), losses.nll()),
    "dropout": (dropping, (X, Y), losses.weight_decay(losses.nll(), strength=1e-3)),
    "images": (Images, (IMAGES, KINDS), losses.nll()),
    "anchored": (small, (X, Y), losses.anchored(losses.nll())),
    "range": (small, (X, Y), losses.adversarial(losses.nll(), share=0.05)),
}


def equal(one, two) -> bool:
    return all(torch.equal(tensor, two[key]) for key, tensor in one.items())


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_steps_on_changing_data_are_those_of_torch(optimizer: str) -> None:
    state = stepper(small, members=2, optimizer=optimizer, learning_rate=0.01, seed=4)
    rules = {"adam": torch.optim.Adam, "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)}
    models = []
    for member in range(2):
        with seeded(4, "start", member):
            models.append(small())
    judges = [rules[optimizer](model.parameters(), lr=0.01) for model in models]
    for step in range(30):
        index = torch.randint(40, (2, 16), generator=torch.Generator().manual_seed(step))
        values = state.step(X[index], Y[index])
        for member, (model, judge) in enumerate(zip(models, judges, strict=True)):
            judge.zero_grad()
            loss = nn.functional.cross_entropy(model(X[index[member]]), Y[index[member]])
            loss.backward()
            judge.step()
            assert values[member].item() == pytest.approx(loss.item(), rel=1e-9)
    for member, model in enumerate(models):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                state.weights[name][member], parameter.detach(), rtol=0, atol=1e-9
            )
    assert state.steps == 30


@pytest.mark.parametrize("name", CASES)
def test_fit_and_step_go_where_train_goes_to_the_bit(name: str) -> None:
    make, data, loss = CASES[name]
    options = {"loss": loss, "members": 3, "learning_rate": 0.01, "seed": 2}
    trained = nescio.train(make, data, epochs=3, batch_size=10, **options)
    state = stepper(make, **options)
    history = [state.fit(data, batch_size=10), state.fit(data, epochs=2, batch_size=10)]
    assert equal(trained.tensors, state.model().tensors)
    torch.testing.assert_close(torch.cat(history), trained.history.train)
    whole = nescio.train(make, data, epochs=4, batch_size=None, **options)
    state = stepper(make, **options)
    for _ in range(4):
        state.step(*data)
    assert equal(whole.tensors, state.model().tensors)


@pytest.mark.parametrize("name", CASES)
def test_a_member_of_a_stack_steps_as_it_steps_alone(name: str) -> None:
    make, (x, y), loss = CASES[name]
    index = torch.stack([torch.randperm(len(x))[:12] for _ in range(3)])
    together = stepper(make, loss=loss, members=3, seed=1)
    for _ in range(4):
        together.step(x[index], y[index])
        together.fit((x, y), batch_size=9)
    for member in range(3):
        alone = stepper(make, loss=loss, members=[member], seed=1)
        for _ in range(4):
            alone.step(x[index[member]], y[index[member]])
            alone.fit((x, y), batch_size=9)
        for key, tensor in alone.weights.items():
            torch.testing.assert_close(
                tensor[0], together.weights[key][member], rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_goes_on_to_the_same_bits(name: str, optimizer: str, tmp_path) -> None:
    make, (x, y), loss = CASES[name]
    options = {"loss": loss, "members": 2, "optimizer": optimizer, "clip": 1.0, "seed": 5}
    whole = stepper(make, **options)
    for _ in range(3):
        whole.step(x[:10], y[:10])
    whole.learning_rate = 0.02
    path = whole.save(tmp_path / "state.safetensors")
    resumed = nescio.load(path, net=make, loss=loss)
    assert repr(resumed) == repr(whole)
    for state in (whole, resumed):
        state.step(x, y, torch.linspace(0, 1, len(x)))
        state.fit((x, y), epochs=2, batch_size=7)
    assert equal(whole.weights, resumed.weights)
    assert equal(whole.optimizer.tensors(), resumed.optimizer.tensors())
    assert (whole.steps, whole.rounds) == (resumed.steps, resumed.rounds)


def test_a_state_without_steps_and_nescio_networks_are_loaded_without_more(tmp_path) -> None:
    make = lambda: nets.mlp(3, 2, widths=(8,))  # noqa: E731
    state = stepper(make, members=2)
    resumed = nescio.load(state.save(tmp_path / "state"), kind="stepper")
    for one in (state, resumed):
        one.step(X, Y)
    assert equal(state.weights, resumed.weights)


def test_lbfgs_steps_to_the_minimum_and_resumes(tmp_path) -> None:
    make = lambda: nn.Sequential(nn.Linear(3, 2)).double()  # noqa: E731
    loss = losses.weight_decay(losses.nll(), strength=0.01)
    state = stepper(make, loss=loss, members=2, optimizer="lbfgs")
    for _ in range(5):
        state.step(X[:20], Y[:20])
    state = nescio.load(state.save(tmp_path / "state"), net=make, loss=loss)
    for _ in range(40):
        state.step(X, Y)  # more data: it goes on
    assert (state.optimizer.norms <= 1e-8).all()


def test_samples_of_weight_zero_are_as_if_they_were_not_there() -> None:
    for loss in (losses.nll(), losses.weight_decay(losses.nll(), strength=0.01)):
        some, all_ = (stepper(small, loss=loss, members=2, seed=3) for _ in range(2))
        weight = torch.zeros(40)
        weight[:25] = 1
        one = some.step(X[:25], Y[:25])
        two = all_.step(X, Y, weight)
        torch.testing.assert_close(one, two)
        for key, tensor in some.weights.items():
            torch.testing.assert_close(tensor, all_.weights[key], rtol=0, atol=1e-9)


def test_the_mean_loss_of_an_epoch_is_that_of_the_weights() -> None:
    weight = torch.rand(2, 40, generator=DRAW).double()
    state = stepper(small, members=2, learning_rate=1e-12)
    found = state.fit((X, Y), batch_size=13, weight=weight, epochs=2)
    whole = stepper(small, members=2).step(X, Y, weight)
    torch.testing.assert_close(found, whole.expand(2, 2), rtol=1e-6, atol=0)


def test_weights_by_member_are_the_weighted_mean() -> None:
    state = stepper(small, members=2)
    weight = torch.rand(2, 40, generator=DRAW).double()
    found = state.step(X, Y, weight)
    fresh = stepper(small, members=2)
    outputs = fresh.live.outputs(X)
    scores = heads.categorical().nll(outputs, Y.expand(2, 40))
    torch.testing.assert_close(found, (weight * scores).sum(1) / weight.sum(1))


def test_rows_of_a_growing_pool() -> None:
    state = stepper(small, members=2, seed=6)
    rows = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])
    for size in (10, 20, 40):
        history = state.fit((X[:size], Y[:size]), epochs=2, batch_size=3, rows=rows)
        assert history.shape == (2, 2)
        rows = torch.cat([rows, torch.randint(size, (2, 2), generator=DRAW)], 1)
    alone = stepper(small, members=[1], seed=6)
    alone.fit((X[:10], Y[:10]), epochs=2, batch_size=3, rows=[[4, 5, 6, 7]])
    twin = stepper(small, members=[1], seed=6)
    twin.fit((X[4:8], Y[4:8]), epochs=2, batch_size=3)
    assert equal(alone.weights, twin.weights)


def test_targets_may_differ_by_member_where_inputs_do_not() -> None:
    make = lambda: nets.mlp(3, 2, widths=(8,)).double()  # noqa: E731
    loss = losses.nll(heads.gaussian())
    targets = torch.randn(2, 40, 1, generator=DRAW, dtype=torch.float64)
    together = stepper(make, loss=loss, members=2)
    found = [together.step(X, targets), together.step(X.numpy(), targets[..., 0].numpy())]
    for member in range(2):
        alone = stepper(make, loss=loss, members=[member])
        for step in range(2):
            torch.testing.assert_close(alone.step(X, targets[member])[0], found[step][member])


def test_a_step_may_have_another_loss_of_the_same_head() -> None:
    state, twin = (stepper(small, members=2) for _ in range(2))
    decay = losses.weight_decay(losses.nll(), strength=0.1)
    first, second = state.step(X, Y), twin.step(X, Y, loss=decay)
    assert (second > first).all()
    assert not equal(state.weights, twin.weights)
    state.step(X, Y, loss=lambda forward, batch, _: batch.mean(forward(batch.x).square().sum(-1)))
    with pytest.raises(NescioError, match="the head of the stepper, categorical"):
        state.step(X, Y, loss=losses.brier(heads.dirichlet()))


def test_another_loss_ignores_the_same_labels() -> None:
    labels = torch.where(torch.arange(40) < 30, Y, -100)  # torch's own: it would count as a 0
    for other in (losses.nll(), losses.brier()):
        state = stepper(small, members=2, loss=losses.nll(ignore_index=-100))
        found = state.step(X, labels, loss=other)
        torch.testing.assert_close(
            found, stepper(small, members=2).step(X[:30], Y[:30], loss=other)
        )


def test_a_model_is_a_snapshot_and_the_call_is_live(tmp_path) -> None:
    state = stepper(small, members=2)
    state.step(X, Y)
    model = state.model()
    assert model.loss == "nll(categorical())"
    before = model(X).probs
    assert torch.equal(before, state(X).probs)
    state.step(X, Y)
    assert torch.equal(before, model(X).probs)
    assert not torch.equal(before, state(X).probs)
    model.save(tmp_path)
    assert nescio.load(tmp_path, net=small).notes["steps"] == 1


def test_label_maps_and_bytes_are_read() -> None:
    make = lambda: nn.Sequential(nn.Conv2d(1, 3, 3, padding=1))  # noqa: E731
    state = stepper(make, members=2)
    pixels = (255 * IMAGES).round().byte()
    maps = torch.randint(3, (24, 8, 8), generator=DRAW)
    twin = stepper(make, members=2)
    torch.testing.assert_close(state.step(pixels, maps.byte()), twin.step(pixels / 255, maps))
    assert state.step(IMAGES.expand(2, *IMAGES.shape), maps).shape == (2,)


def test_gradient_mode_threads_and_generator_are_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with torch.inference_mode():
        state = stepper(dropping, members=2)
        state.step(X, Y)
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        state.step(X, Y)
    assert torch.equal(torch.rand(3), expected)


def started(**options):
    state = stepper(small, members=3, **options)
    state.step(X, Y)
    return state


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


def own(forward, batch, _):
    return forward(batch.x).square().sum((1, 2))


NAN = X.clone()
NAN[3, 1] = torch.nan


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: stepper(small()), "must be a factory"),
        (lambda: stepper(small, members=0), "members must be positive"),
        (lambda: stepper(small, learning_rate=0.0), "learning_rate must be positive"),
        (lambda: stepper(small, clip=-1.0), "clip must be positive"),
        (lambda: stepper(small, optimizer="adamw"), "unknown optimizer"),
        (lambda: stepper(small, optimizer="lbfgs", clip=1.0), "leave clip out"),
        (lambda: stepper(small, loss=losses.nll), "call it: losses.nll"),
        (lambda: stepper(small, loss=losses.nll(), head="gaussian"), "leave head= out"),
        (lambda: stepper(lambda: nn.Linear(3, 1)), "one output"),
        (
            lambda: stepper(normed).step(X[:1], Y[:1]),
            "the network refuses a batch of 1: .*more than",
        ),
        (lambda: stepper(small).step(X[:, :2], Y), "3"),
        (lambda: stepper(small).step(X[:0], Y[:0]), "inputs must have shape"),
        (lambda: stepper(small).step(X[:, 0], Y), "a single feature needs an axis"),
        (lambda: stepper(small, head="gaussian").step(X, X[:, :2]), r"outputs for 1 target\(s\)"),
        (lambda: started().step(X[:, :2], Y), r"inputs must have shape \(N, 3\), or for 3"),
        (lambda: started().step(X.expand(2, 40, 3), Y), r"\(3, N, 3\), got \(2, 40, 3\)"),
        (lambda: started().step(NAN, Y), "NaN or infinite"),
        (lambda: started().step(X, Y[:5]), "40 inputs but targets"),
        (lambda: started().step(X, Y.expand(2, 40)), "40 inputs but targets of shape"),
        (lambda: started().step(X, Y + 1), "labels must lie in 0..1"),
        (lambda: started().step(X, Y.double() / 2), "class labels must be integers"),
        (lambda: started().step(X, Y, torch.ones(7)), "weight must have shape"),
        (lambda: started().step(X, Y, -torch.ones(40)), "0 or more"),
        (lambda: started().fit(X), r"a pair \(x, y\)"),
        (lambda: started().fit((X, Y), epochs=0), "epochs must be positive"),
        (lambda: started().fit((X, Y), rows=[[0, 1]]), r"rows are for 1 member\(s\)"),
        (lambda: started().fit((X, Y), rows=[[0], [1], [2, 3]]), "equally many rows"),
        (lambda: started().step(X, Y, torch.ones(40), loss=own), "reads no weights of samples"),
        (lambda: started().fit((X, Y), rows=[[0], [1], [40]]), "must be in 0..39"),
        (lambda: started().step(X, Y, points=0), "points must be positive"),
        (lambda: stepper(small, learning_rate="fast"), "learning_rate must be a number"),
        (lambda: stepper(dropping, optimizer="lbfgs").step(X, Y), "draws random numbers"),
    ],
)
def test_bad_input_is_refused(call, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        call()


def test_a_refused_step_changes_nothing() -> None:
    state, twin = started(), started()
    for bad in ((NAN, Y), (9 * X, Y + 1), (X[:, :2], Y)):
        with pytest.raises(NescioError):
            state.step(*bad)
    for wrong in ({"rows": [[40]] * 3}, {"epochs": 0}, {"batch_size": 0}):
        with pytest.raises(NescioError):
            state.fit((9 * X, Y), **wrong)
    for one in (state, twin):
        one.step(X, Y)
    assert equal(state.weights, twin.weights)
    assert torch.equal(state.reading.high, twin.reading.high)


def test_a_loss_that_runs_away_is_said() -> None:
    state = stepper(small, members=2, learning_rate=1e300)
    state.step(X, Y)
    with pytest.raises(NescioError, match="of member 0 became NaN or infinite"):
        state.fit((X, Y), epochs=5)
    with pytest.raises(NescioError, match="became NaN or infinite"):
        state.model()


def test_another_loss_or_network_is_refused_at_loading(tmp_path) -> None:
    state = stepper(small, loss=losses.weight_decay(losses.nll(), strength=0.1))
    path = state.save(tmp_path / "state")
    with pytest.raises(NescioError, match="was trained with the loss"):
        nescio.load(path, net=small)
    with pytest.raises(NescioError, match="got nll"):
        nescio.load(path, net=small, loss=losses.nll())
    with pytest.raises(NescioError, match="these weights differ"):
        nescio.load(path, net=dropping, loss=state.loss)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(NescioError, match="damaged"):
        nescio.load(path, net=small, loss=state.loss)


def test_numpy_arrays_of_float64_train_a_network_of_float32() -> None:
    state = stepper(lambda: nets.mlp(3, 2, widths=(4,)))
    found = state.step(np.asarray(X), Y.tolist())
    assert found.dtype == torch.float32


def test_losses_see_epochs_go_on_where_the_data_grow() -> None:
    epochs = []

    def noted(forward, batch, rng):  # what the annealing of `losses.evidential` reads
        epochs.append(batch.step / batch.steps)
        return losses.nll()(forward, batch, rng)

    state = stepper(small, loss=noted, members=1, seed=0)
    state.fit((X[:12], Y[:12]), epochs=2, batch_size=4)
    state.fit((X, Y), epochs=1, batch_size=4)
    state.step(X, Y)
    truth = [*(k / 3 for k in range(6)), *(2 + k / 10 for k in range(10)), 3.0]
    assert epochs == pytest.approx(truth)


def test_refused_first_inputs_do_not_fix_the_shape() -> None:
    state = stepper(lambda: nn.Sequential(nn.Conv2d(1, 3, 1)))
    with pytest.raises(NescioError, match="expected"):
        state.step(torch.rand(4, 1, 9, 9), torch.zeros(4, 5, 5, dtype=torch.long))
    assert state.step(torch.rand(4, 1, 5, 5), torch.zeros(4, 5, 5, dtype=torch.long)).shape == (1,)


def test_losses_are_ordinary_tensors() -> None:
    state = stepper(small, members=2)  # its gradients are computed by hand
    total = state.step(X, Y)
    total += state.step(X, Y)
    assert not total.is_inference()


def test_rows_of_fit_have_the_range_of_train() -> None:
    rows = torch.stack([torch.arange(20), torch.arange(15, 35)])
    loss = losses.adversarial(losses.nll(), share=0.1)
    state = stepper(small, members=2, loss=loss)
    state.fit((X, Y), epochs=3, batch_size=8, rows=rows)
    options = {"loss": loss, "epochs": 3, "batch_size": 8, "rows": rows}
    assert equal(nescio.train(small, (X, Y), members=2, **options).tensors, state.weights)


def test_threads_step_one_after_the_other() -> None:
    state, twin = stepper(small, members=2), stepper(small, members=2)

    def walk() -> None:
        for _ in range(40):
            state.step(X, Y)

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(160):
        twin.step(X, Y)
    assert state.steps == 160
    assert equal(state.weights, twin.weights)


def test_a_copy_goes_its_own_way() -> None:
    state = started()
    twin = copy.deepcopy(state)
    twin.step(X, 1 - Y)
    assert not equal(state.weights, twin.weights)
    assert state.steps == 1


def test_new_data_free_a_member_that_could_come_no_nearer() -> None:
    state = stepper(lambda: nn.Linear(3, 2).double(), optimizer="lbfgs")
    for _ in range(3):
        before = state.step(X, Y)
    state.optimizer.state["stuck"][0].fill_(True)
    after = [state.step(X, Y) for _ in range(2)]
    assert after[0] == after[1] < before  # it stays where it is
    first = state.step(X, 1 - Y)
    assert state.step(X, 1 - Y) < 0.9 * first


def test_a_learning_rate_that_was_changed_to_nonsense_is_refused(tmp_path):
    state = stepper(small, members=2)
    state.learning_rate = -1.0
    with pytest.raises(NescioError, match="learning_rate must be positive"):
        state.step(X, Y)
    with pytest.raises(NescioError, match="learning_rate must be positive"):
        state.save(tmp_path / "state.safetensors")
