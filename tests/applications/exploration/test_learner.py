"""Learners: the update beside plain PyTorch, one member and one mask per episode, resuming."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from nescio import nets
from nescio.applications.exploration import (
    Agent,
    Bandit,
    Chain,
    Rewards,
    dropout,
    ensemble,
    learn,
    learner,
)
from nescio.applications.exploration.q_learning import packed, td_loss
from nescio.core import NescioError

CHAIN = Chain(length=5, slack=9)
SMALL = {"widths": (8,), "updates": 3, "batch_size": 6, "target_every": 4}
AGENTS = ["ensemble,members=3,prior=2", "dropout,rate=0.2", "epsilon_greedy,epsilon=0.3"]


@pytest.mark.parametrize("agent", ["ensemble,members=3,prior=2", "epsilon_greedy"])
@pytest.mark.parametrize("double", [True, False])
def test_an_update_is_that_of_plain_pytorch(agent, double):
    state = learner(CHAIN, agent, seeds=2, double=double, **SMALL)
    for _ in range(3):
        state.episode()
    batch = state.replay.draw(torch.rand(2, 6, generator=torch.Generator().manual_seed(0)))
    members = state.agent.members
    weights = {n: t.clone() for n, t in state.networks.weights.items()}
    moments = {n: t.clone() for n, t in state.networks.optimizer.tensors().items()}
    state.update(batch)
    for number in range(2 * members):
        run, own = divmod(number, members)
        net = nets.mlp(5, 2, widths=(8,))

        def values(tensors, x, net=net, number=number):
            part = {n: t[number] for n, t in tensors.items()}
            prior = {n: t[number] for n, t in state.prior.items()}
            return functional_call(net, part, x) + state.agent.prior * functional_call(
                net, prior, x
            )

        net.load_state_dict({n: t[number] for n, t in weights.items()})
        rule = torch.optim.Adam(net.parameters(), lr=1e-3)
        for index, parameter in enumerate(net.parameters()):
            rule.state[parameter] = {
                "step": torch.tensor(float(state.networks.steps - 1)),
                "exp_avg": moments[f"mean.{index}"][number].clone(),
                "exp_avg_sq": moments[f"square.{index}"][number].clone(),
            }
        after, target = values(weights, batch.after[run]), values(state.target, batch.after[run])
        best = (after if double else target).argmax(1)
        wanted = batch.reward[run] + 0.99 * ~batch.ended[run] * target[range(6), best]
        prior = {n: t[number] for n, t in state.prior.items()}
        fixed = state.agent.prior * functional_call(net, prior, batch.seen[run])
        q = (net(batch.seen[run]) + fixed)[range(6), batch.action[run]]
        share = batch.members[run, :, own].float()
        ((q - wanted.detach()).square() * share).sum().div(share.sum().clamp_min(1e-30)).backward()
        rule.step()
        for name, tensor in net.state_dict().items():
            torch.testing.assert_close(
                state.networks.weights[name][number], tensor, rtol=1e-4, atol=1e-6
            )


def test_the_slope_of_the_loss_is_its_derivative():
    outputs = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    y = packed(torch.randint(3, (2, 4)), torch.randn(2, 4, dtype=torch.float64), 3)
    loss = td_loss()
    scores, rise = loss.slope(outputs.detach(), y)
    torch.testing.assert_close(scores, loss.score(outputs, y))
    expected = torch.autograd.grad(loss.score(outputs, y).sum(), outputs)[0]
    torch.testing.assert_close(rise, expected)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_in_a_stack_is_the_run_alone(agent):
    together = learn(CHAIN, agent, episodes=12, seeds=[0, 4, 5], **SMALL)
    alone = learn(CHAIN, agent, episodes=12, seeds=[4], **SMALL)
    np.testing.assert_array_equal(together.rewards[1:2], alone.rewards)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_that_stopped_goes_on_to_the_same_bits(agent, tmp_path):
    options = {"seeds": 2, "capacity": 30, **SMALL}
    whole = learner(CHAIN, agent, **options)
    for _ in range(7):
        whole.episode()
    learn(CHAIN, agent, episodes=4, run=tmp_path, **options)
    found = learn(CHAIN, agent, episodes=7, run=tmp_path, **options)
    np.testing.assert_array_equal(found.rewards, torch.stack(whole.rewards, 1).numpy())
    resumed = learner(CHAIN, agent, run=tmp_path, **options)
    for name, tensor in whole.networks.weights.items():
        assert torch.equal(tensor, resumed.networks.weights[name])
    torch.testing.assert_close(
        resumed.values(CHAIN.observations()), whole.values(CHAIN.observations()), rtol=0, atol=0
    )
    assert learn(CHAIN, agent, episodes=5, run=tmp_path, **options).episodes == 5
    with pytest.raises(NescioError, match=r"another run \(learning: discount: 0.99 there, 0.5 "):
        learn(CHAIN, agent, episodes=7, run=tmp_path, discount=0.5, **options)


def test_an_episode_has_one_mask_or_one_for_each_step():
    seen = CHAIN.observations()[:2]
    for masks in ("episode", "step"):
        agent = dropout(rate=0.5, masks=masks)
        state = learner(CHAIN, agent, seeds=2, **SMALL)
        values = state._player(0)
        same = torch.equal(values(seen, 0), values(seen, 1))
        assert same is (masks == "episode")
        assert not torch.equal(values(seen, 0), state._player(1)(seen, 0))


def test_values_of_dropout_are_those_of_its_passes_and_have_the_prior():
    plain, both = (
        learner(CHAIN, Agent(name="both", members=2, dropout=0.3, prior=prior), seeds=2, **SMALL)
        for prior in (0.0, 2.0)
    )
    seen = CHAIN.observations()
    found = both.values(seen, passes=4)
    assert found.shape == (2, 2 * 4, 5, 2)
    assert (found.std(1) > 0).all()
    fixed = learner(CHAIN, ensemble(members=2, prior=2.0), seeds=2, **SMALL).values(seen)
    free = learner(CHAIN, ensemble(members=2, prior=0.0), seeds=2, **SMALL).values(seen)
    added = (fixed - free).repeat_interleave(4, 1)
    torch.testing.assert_close(found, plain.values(seen, passes=4) + added)


def test_one_member_with_its_prior_acts_for_an_episode():
    state = learner(CHAIN, ensemble(members=4, prior=2.0), seeds=3, **SMALL)
    seen = CHAIN.observations()[:3]
    every = state.values(seen)  # (S, K, N, A)
    chosen = set()
    for episode in range(20):
        acting = state._player(episode)(seen, 0)
        for run in range(3):
            near = (every[run, :, run] - acting[run]).abs().amax(-1) < 1e-6
            chosen |= {(run, int(near.nonzero()[0, 0]))}
            assert near.sum() == 1
    assert len(chosen) == 12


def test_the_values_of_a_bandit_are_its_means_and_spread_where_little_was_seen():
    bandit = Bandit(actions=3, noise=0.0)
    agent = ensemble(members=6, prior=3.0, share=1.0)
    state = learner(bandit, agent, seeds=2, updates=10, learning_rate=0.01, widths=(16,))
    for _ in range(40):
        state.episode()
    values = state.values(torch.ones(1, 1))[:, :, 0]  # (S, K, A)
    means = bandit.means([0, 1])[..., 0]
    best = means.argmax(1, keepdim=True)
    found = values.mean(1).gather(1, best)
    torch.testing.assert_close(found, means.gather(1, best), rtol=0, atol=0.03)
    spread = values.std(1)
    assert (spread.argmin(1, keepdim=True) == best).all()


@dataclass(frozen=True)
class Broken:
    """A chain whose rewards, or observations, are not numbers."""

    what: str
    name, actions, shape, steps = "broken", 2, (4,), 3
    solved, window = None, 1

    def start(self, seeds):
        return BrokenRuns(len(seeds), self.what)

    @property
    def continuing(self):
        return self.what == "state"


@dataclass
class BrokenRuns:
    runs: int
    what: str

    def reset(self, episode):
        return torch.zeros(self.runs, 3 if self.what == "start" else 4)

    def step(self, actions):
        seen, reward = torch.zeros(self.runs, 4), torch.zeros(self.runs)
        ended = torch.zeros(self.runs, dtype=torch.bool)
        if self.what == "reward":
            reward[1] = torch.nan
        elif self.what == "observation":
            seen[0, 0] = torch.inf
        elif self.what == "large":
            reward = reward.double() + 1e300
        elif self.what == "end":
            ended = ended.float() + 0.5
        elif self.what == "texts":
            reward = ["a", "b"]
        elif self.what == "five":
            return seen, reward, ended, ended, {}
        elif self.what == "nothing":
            return None
        else:
            reward = reward[:1]
        return seen, reward, ended


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("reward", "the reward of run 1 of broken is nan; rewards must be finite"),
        ("observation", "an observation of broken is NaN or infinite"),
        ("start", r"a reset of broken must give observations of shape \(2, 4\), got \(2, 3\)"),
        ("state", r"broken is continuing, so its runs need state\(\) and restore"),
        ("shape", "must give observations, rewards and ended of shapes"),
        ("large", "the reward of run 0 of broken is inf; rewards must be finite numbers in float3"),
        ("end", "must say True or False for each run that ended"),
        ("texts", "the rewards of a step of broken must be a tensor or an array of numbers"),
        ("five", "must give three things, observations, rewards, ended; got a tuple of 5"),
        ("nothing", "got a NoneType"),
    ],
)
def test_what_breaks_the_protocol_is_refused(what, words):
    with pytest.raises(NescioError, match=words):
        learn(Broken(what), "epsilon_greedy", episodes=1, seeds=2)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(NescioError, match="unknown agent 'ensembel'; did you mean 'ensemble'"):
        learn(CHAIN, "ensembel", episodes=1)
    with pytest.raises(NescioError, match="got a int"):
        learn(CHAIN, 3, episodes=1)
    with pytest.raises(NescioError, match="an epsilon of 0 to 1"):
        learn(CHAIN, "epsilon_greedy,epsilon=2", episodes=1)
    with pytest.raises(NescioError, match="episodes must be a positive whole number, got 0"):
        learn(CHAIN, "dropout", episodes=0)
    with pytest.raises(NescioError, match="unknown option of learn 'discont'; did you mean"):
        learn(CHAIN, "dropout", episodes=1, discont=0.9)
    with pytest.raises(NescioError, match="updates must be a positive whole number, got 1.5"):
        learn(CHAIN, "dropout", episodes=1, updates=1.5)
    with pytest.raises(NescioError, match=r"as \(64, 64\), got 64"):
        learn(CHAIN, "dropout", episodes=1, widths=64)
    with pytest.raises(NescioError, match="batch_size must be a positive whole number, got 0"):
        learn(CHAIN, "dropout", episodes=1, batch_size=0)
    for seeds in ([1, 1], 0, [], 2.5, [0, 1.5], "ab", [-1]):
        with pytest.raises(NescioError, match="seeds must be a positive whole number, or"):
            learn(CHAIN, "dropout", episodes=1, seeds=seeds)
    with pytest.raises(NescioError, match="the network has none"):
        learn(CHAIN, "dropout", episodes=1, make_net=lambda: nn.Linear(5, 2))
    with pytest.raises(NescioError, match="2 values, one for each action of chain"):
        learn(CHAIN, "epsilon_greedy", episodes=1, make_net=lambda: nn.Linear(5, 3))
    with pytest.raises(NescioError, match="inputs"):
        learn(CHAIN, "epsilon_greedy", episodes=1, make_net=lambda: nn.Linear(4, 2))


@dataclass(frozen=True)
class Steps:
    """A walk whose numbers are tensors, arrays, or the same memory at each step."""

    kind: str
    name, actions, shape, steps = "steps", 2, (1,), 6
    solved, window, continuing = None, 1, False

    def start(self, seeds):
        return StepsRuns(self.kind, np.zeros((len(seeds), 1), dtype=np.float32))


@dataclass
class StepsRuns:
    kind: str
    place: np.ndarray

    def seen(self):
        if self.kind == "arrays":
            return self.place.copy()
        shared = torch.from_numpy(self.place)
        return shared if self.kind == "memory" else shared.clone()

    def reset(self, episode):
        self.place[:] = 0
        return self.seen()

    def step(self, actions):
        self.place += 2 * actions[:, None].numpy() - 1
        actions.zero_()
        return self.seen(), self.seen()[:, 0], np.zeros(len(self.place), dtype=bool)


@pytest.mark.parametrize("kind", ["memory", "arrays"])
def test_an_environment_may_go_on_in_the_same_memory_or_give_arrays(kind):
    options = {"seeds": 2, "widths": (8,), "updates": 1}
    expected, found = (learner(Steps(k), "epsilon_greedy", **options) for k in ("tensors", kind))
    for state in (expected, found):
        state.episode()
    stored = found.replay.tensors
    for name, tensor in expected.replay.tensors.items():
        assert torch.equal(stored[name], tensor)
    moved = stored["after"][:, :6, 0] - stored["seen"][:, :6, 0]
    assert torch.equal(moved, 2.0 * stored["action"][:, :6] - 1)
    assert torch.equal(found.rewards[0], stored["after"][:, :6, 0].double().sum(1))


def test_numbers_of_runs_may_be_those_of_an_array(tmp_path):
    found = learn(CHAIN, "dropout", episodes=1, seeds=np.arange(2), run=tmp_path, **SMALL)
    assert found.seeds == (0, 1)


def test_rewards_lost_between_two_files_are_written_again(tmp_path):
    call = {"episodes": 2, "seeds": 2, "run": tmp_path, **SMALL}
    found = learn(CHAIN, "epsilon_greedy", **call)
    (tmp_path / "rewards.json").unlink()
    learn(CHAIN, "epsilon_greedy", **call)
    np.testing.assert_array_equal(Rewards.load(tmp_path).rewards, found.rewards)


def test_a_network_with_batch_normalization_goes_on_to_the_same_bits(tmp_path):
    layers = (nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    options = {"seeds": 2, "make_net": lambda: nn.Sequential(*deepcopy(layers)), **SMALL}
    whole = learn(CHAIN, "epsilon_greedy", episodes=6, run=tmp_path / "a", **options)
    learn(CHAIN, "epsilon_greedy", episodes=3, run=tmp_path / "b", **options)
    again = learn(CHAIN, "epsilon_greedy", episodes=6, run=tmp_path / "b", **options)
    np.testing.assert_array_equal(again.rewards, whole.rewards)
    one, two = (learner(CHAIN, "epsilon_greedy", run=tmp_path / f, **options) for f in "ab")
    assert one.networks.weights["1.running_mean"].abs().sum() > 0
    for name, tensor in one.networks.weights.items():
        assert torch.equal(tensor, two.networks.weights[name])


def test_another_network_of_the_same_weights_is_another_run(tmp_path):
    def make(layer):
        return lambda: nn.Sequential(nn.Linear(5, 4), layer(), nn.Linear(4, 2))

    call = {"episodes": 1, "seeds": 1, "run": tmp_path, **SMALL}
    learn(CHAIN, "epsilon_greedy", make_net=make(nn.ReLU), **call)
    with pytest.raises(NescioError, match="another run"):
        learn(CHAIN, "epsilon_greedy", make_net=make(nn.Tanh), **call)


@dataclass(frozen=True)
class Walk:
    """A walk along a line that never ends: the reward is how far it is."""

    name, actions, shape, steps = "walk", 2, (1,), 5
    solved, window, continuing = None, 1, True

    def start(self, seeds):
        return WalkRuns(torch.zeros(len(seeds)))


@dataclass
class WalkRuns:
    place: torch.Tensor

    def reset(self, episode):
        return self.place[:, None]

    def step(self, actions):
        self.place = self.place + actions - 0.5
        return self.place[:, None], self.place, torch.zeros(len(self.place), dtype=torch.bool)

    def state(self):
        return {"place": self.place}

    def restore(self, state):
        self.place = state["place"]


def test_a_world_that_continues_is_a_part_of_the_state(tmp_path):
    options = {"seeds": 2, **SMALL}
    whole = learn(Walk(), "epsilon_greedy,epsilon=0.5", episodes=6, **options)
    learn(Walk(), "epsilon_greedy,epsilon=0.5", episodes=3, run=tmp_path, **options)
    found = learn(Walk(), "epsilon_greedy,epsilon=0.5", episodes=6, run=tmp_path, **options)
    np.testing.assert_array_equal(found.rewards, whole.rewards)
    assert whole.rewards[:, 3:].any()


def test_runs_that_ended_wait_and_store_nothing_more():
    state = learner(Chain(length=3, slack=9), "epsilon_greedy,epsilon=1,decay=0", seeds=6, **SMALL)
    rewards = state.episode()
    replay = state.replay.state()
    for run in range(6):
        count = int(replay["count"][run])
        stored = replay["reward"][run, :count]
        assert float(stored.double().sum()) == pytest.approx(float(rewards[run]))
        assert replay["ended"][run, : count - 1].sum() == 0
        assert bool(replay["ended"][run, count - 1]) == (rewards[run] >= 1)
    assert len(set(replay["count"].tolist())) > 1
