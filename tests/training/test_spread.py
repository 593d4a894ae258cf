"""Members that train apart have the bits that they have in one stack."""

from functools import partial

import pytest
import torch
from torch import nn

import nescio
from nescio import nets
from nescio.core import LocalEngine, NescioError
from nescio.training import spread
from nescio.training.spread import FOLDER


def rows(count=192, features=8):
    draws = torch.Generator().manual_seed(0)
    return torch.randn(count, features, generator=draws), torch.arange(count) % 3


def images():
    draws = torch.Generator().manual_seed(0)
    return torch.rand(60, 1, 8, 8, generator=draws), torch.arange(60) % 3


def same(one, two):
    assert dict(one.notes) == dict(two.notes)
    assert set(one.tensors) == set(two.tensors)
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    for name, log in vars(one.history).items():
        other = getattr(two.history, name)
        if isinstance(log, torch.Tensor):
            assert torch.equal(log.nan_to_num(-1), other.nan_to_num(-1)), name
        else:
            assert log == other, name
    assert torch.equal(one.seen, two.seen)


def own(activation, width=16, features=8):
    first, last = partial(nn.Linear, features, width), partial(nn.Linear, width, 4)
    return lambda: nn.Sequential(first(), activation(), last())


TANH, GELU, ODD = own(nn.Tanh), own(nn.GELU), own(nn.Sigmoid, width=7, features=5)
UNEVEN = [torch.arange(192 - 7 * k) for k in range(5)]
CASES = {
    "relu": (lambda: nets.mlp(8, 4, widths=(16, 32)), rows, {}),
    "dropout": (lambda: nets.mlp(8, 4, widths=(16,), dropout=0.3), rows, {"clip": 0.5}),
    "tanh": (TANH, rows, {"schedule": "cosine"}),
    "gelu": (GELU, rows, {"optimizer": "sgd"}),
    "odd sizes": (ODD, partial(rows, features=5), {"members": 18, "clip": 0.5}),
    "images": (lambda: nets.digit_cnn((1, 8, 8), 3), images, {"epochs": 2}),
    "patience": (TANH, rows, {"validation": rows(48), "patience": 1, "epochs": 6}),
    "own rows": (TANH, rows, {"rows": UNEVEN, "standardize": True}),
    "average": (TANH, rows, {"average": 0.9, "bootstrap": True}),
    "lbfgs": (TANH, rows, {"optimizer": "lbfgs", "batch_size": None, "epochs": 4}),
}


@pytest.mark.parametrize("name", CASES)
def test_members_apart_have_the_bits_of_one_stack(name, workers):
    make, data, options = CASES[name]
    options = {"members": 5, "epochs": 3, "batch_size": 32, "progress": False, **options}
    whole = nescio.train(make, data(), **options)
    for count in (2, 5):
        same(whole, nescio.train(make, data(), engine=workers(count), **options))


def test_a_stack_is_cut_where_members_lie_in_memory_as_the_first_one_does(monkeypatch, workers):
    seen = []

    def parts(*given):
        seen.append(original(*given))
        return seen[-1]

    original = spread._parts
    monkeypatch.setattr(spread, "_parts", parts)
    options = {"members": 18, "epochs": 1, "batch_size": 32, "progress": False}
    nescio.train(TANH, rows(), engine=workers(4), **options)
    nescio.train(ODD, rows(features=5), engine=workers(4), **options)
    nescio.train(CASES["images"][0], images(), engine=workers(4), **options)
    assert [[len(part) for part in one] for one in seen] == [[4, 4, 4, 4, 2], [16, 2], 18 * [1]]


def test_a_member_alone_is_that_of_the_ensemble():
    make, data, _ = CASES["relu"]
    options = {"epochs": 3, "batch_size": 32, "progress": False}
    whole = nescio.train(make, data(), members=4, **options)
    alone = nescio.train(make, data(), members=[3], **options)
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor[3:], alone.tensors[name])


def test_members_that_are_finished_are_not_trained_again(tmp_path, workers):
    make, data, _ = CASES["images"]
    options = {"members": 5, "epochs": 1, "batch_size": 32, "progress": False}
    whole = nescio.train(make, data(), run=tmp_path / "whole", **options)
    options["run"] = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        nescio.train(make, data(), engine=workers(2, last=3), **options)
    assert len(list((tmp_path / "run" / FOLDER).iterdir())) == 3
    with pytest.raises(NescioError, match="epochs"):
        nescio.train(make, data(), engine=workers(2), **{**options, "epochs": 2})
    same(whole, nescio.train(make, data(), engine=workers(3, last=2), **options))
    assert not (tmp_path / "run" / FOLDER).exists()
    same(whole, nescio.train(make, data(), engine=workers(3, last=0), **options))


def test_parts_of_a_stack_may_be_cut_otherwise_when_a_run_goes_on(tmp_path, workers):
    make, data, _ = CASES["tanh"]
    options = {"members": 6, "epochs": 2, "batch_size": 32, "progress": False}
    whole = nescio.train(make, data(), run=tmp_path / "whole", **options)
    options["run"] = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        nescio.train(make, data(), engine=workers(3, last=2), **options)
    same(whole, nescio.train(make, data(), engine=workers(5, last=2), **options))


def test_a_run_that_was_begun_here_goes_on_here(tmp_path, monkeypatch, workers):
    make, data, _ = CASES["tanh"]
    options = {"members": 3, "epochs": 4, "progress": False, "run": tmp_path / "run"}
    from nescio.training import loop

    original, steps = loop._end_epoch, []

    def stop(*given):
        original(*given)
        steps.append(1)
        if len(steps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_end_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        nescio.train(make, data(), checkpoint_seconds=0, **options)
    monkeypatch.setattr(loop, "_end_epoch", original)
    going_on = nescio.train(make, data(), engine=workers(3, last=0), **options)
    options["run"] = tmp_path / "whole"
    same(nescio.train(make, data(), **options), going_on)


def test_a_local_engine_changes_nothing():
    make, data, _ = CASES["tanh"]
    options = {"members": 2, "epochs": 1, "progress": False}
    local = LocalEngine(2)
    same(nescio.train(make, data(), **options), nescio.train(make, data(), engine=local, **options))
