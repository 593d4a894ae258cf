"""Copies of a network: layers of their own, the weights of the network, one call each."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn.utils import weight_norm

from nescio.core import NescioError
from nescio.nets import Copies, is_scripted, unwrapped
from nescio.nets.copies import sharing


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def test_a_copy_is_at_rest_and_the_network_stays_as_it_was():
    trained = net().train()
    trained[1].eval()
    trained[0].weight.requires_grad_(False)
    copied = sharing(trained)
    assert not any(module.training for module in copied.modules())
    assert not copied(torch.ones(2, 4)).requires_grad
    assert [module.training for module in trained] == [True, False, True, True]
    assert [weight.requires_grad for weight in trained.parameters()] == [False] + 5 * [True]


def test_a_copy_has_the_memory_of_the_weights():
    trained = net()
    copied = sharing(trained)
    for ours, theirs in zip(copied.parameters(), trained.parameters(), strict=True):
        assert ours is not theirs
        assert ours.data_ptr() == theirs.data_ptr()


def test_hooks_and_weights_of_a_copy_reach_no_other():
    copies = Copies(net(), sharing)
    with copies.lent() as first, copies.lent() as second:
        first[0].register_forward_hook(lambda *_: 1 / 0)
        first[3]._parameters["weight"] = torch.zeros(3, 6)
        assert second(torch.ones(2, 4)).any()
    assert copies.net(torch.ones(2, 4)).any()


def test_a_copy_is_used_again_but_not_after_an_error():
    copies = Copies(net(), sharing)
    with copies.lent() as first:
        pass
    with copies.lent() as second:
        assert second is first
    with pytest.raises(RuntimeError, match="stop"), copies.lent():
        raise RuntimeError("stop")
    with copies.lent() as third:
        assert third is not first


@pytest.mark.parametrize(
    "change",
    [
        lambda n: n.double(),
        lambda n: n[0].weight.data.__imul__(2),
        lambda n: setattr(n, "0", nn.Linear(4, 6)),
        lambda n: n[0].weight.requires_grad_(False).mul_(2),
    ],
)
def test_a_network_of_the_user_may_change(change):
    own = net().eval()
    copies = Copies(own, sharing, fixed=False)
    with copies.lent() as before:
        before(torch.ones(2, 4))
    change(own)
    x = torch.ones(2, 4, dtype=own[3].weight.dtype)
    with copies.lent() as after:
        torch.testing.assert_close(after(x), own(x).detach(), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_old_style_weight_norm_can_be_read():
    normed = nn.Sequential(weight_norm(nn.Linear(4, 3)))
    x = torch.randn(5, 4)
    torch.testing.assert_close(sharing(normed)(x), normed(x).detach())


def test_lazy_layers_without_weights_are_refused():
    with pytest.raises(NescioError, match="call it once"):
        sharing(nn.Sequential(nn.LazyLinear(3)))


def test_a_network_that_cannot_be_copied_says_why():
    odd = net()
    odd.lock = __import__("threading").Lock()
    with pytest.raises(NescioError, match="cannot be copied"):
        sharing(odd)


def test_wrappers_are_taken_off():
    inner = net()
    assert unwrapped(nn.DataParallel(inner)) is inner
    assert unwrapped(torch.compile(nn.DataParallel(inner), backend="eager")) is inner
    assert unwrapped(inner) is inner


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_part_is_found():
    assert is_scripted(nn.Sequential(torch.jit.script(nn.ReLU())))
    assert not is_scripted(net())


def test_copies_can_be_copied_and_pickled_without_what_is_lent():
    copies = Copies(net(), sharing, fixed=False)
    with copies.lent():
        twins = copy.deepcopy(copies), pickle.loads(pickle.dumps(copies))
    for twin in twins:
        assert not twin.fixed
        with twin.lent() as one:
            assert one[0].weight.data_ptr() == twin.net[0].weight.data_ptr()


def test_threads_never_share_a_copy():
    copies, seen = Copies(net(), sharing), []

    def hold(_):
        with copies.lent() as mine:
            seen.append(id(mine))
            assert not hasattr(mine, "taken")
            mine.taken = True
            mine(torch.ones(64, 4))
            del mine.taken

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, range(200)))
    assert len(set(seen)) <= 8


class Switched(nn.Module):
    """A network with Python state, and functions that use its layers."""

    def __init__(self):
        super().__init__()
        self.inner, self.last, self.scale = nn.Linear(4, 6), nn.Linear(6, 3), 1.0
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(6)
        self.body = lambda x: self.norm(self.inner(x))
        self.inner.register_forward_hook(lambda *given: self.drop(given[-1]))
        self.settings = {"shift": torch.zeros(3)}

    def forward(self, x):
        return self.scale * self.last(self.body(x)) + self.settings["shift"]


def test_functions_of_a_network_use_the_layers_of_its_copy():
    trained, x = Switched(), torch.randn(5, 4)
    expected = trained.eval()(x)
    statistics = trained.train().norm.running_mean.clone()
    assert torch.equal(sharing(trained)(x), expected)
    assert torch.equal(statistics, trained.norm.running_mean)
    with pytest.raises(RuntimeError, match="stop"):
        _stopped(sharing(trained))(x)
    assert not trained.norm._forward_pre_hooks


def _stopped(copy):
    def stop(*_):
        raise RuntimeError("stop")

    copy.norm.register_forward_pre_hook(stop)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net, "scale", 2.0),
        lambda net: net.settings.update(shift=torch.ones(3)),
        lambda net: net.settings["shift"].add_(1),
        lambda net: net.last.register_forward_hook(lambda *given: 2 * given[-1]),
        lambda net: setattr(net, "last", nn.Linear(6, 3)),
    ],
)
def test_a_change_of_anything_in_the_network_is_seen(change):
    trained, x = Switched().eval(), torch.randn(5, 4)
    copies = Copies(trained, sharing, fixed=False)
    with copies.lent() as first:
        before = first(x)
    with copies.lent() as again:
        assert again is first
    change(trained)
    with copies.lent() as changed:
        assert torch.equal(changed(x), trained(x))
        assert not torch.equal(changed(x), before)
