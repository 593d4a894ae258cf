"""What a TD step costs beside the same step in plain PyTorch, interleaved in one run.

`python -m benchmarks.td_step` prints the best processor time of each and the ratio: transitions
are drawn from the replay, the target of double Q-learning is computed, Adam moves the weights.
One network, 10 seeds at once, and 10 seeds of 10 members with priors, each beside as many steps of
PyTorch, one after the other. Before it measures, it checks that both sides end with the same
weights.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

from nescio.applications import exploration
from nescio.applications.exploration import Chain, QLearner
from nescio.applications.exploration.replay import Transitions

Step = Callable[[torch.Tensor], object]
DISCOUNT, STEPS = 0.99, 5
CASES = {
    "1 network": ("epsilon_greedy", 1),
    "10 seeds": ("epsilon_greedy", 10),
    "10 seeds x 10 members, priors": ("ensemble,members=10,prior=3,share=1", 10),
    "1 network, dropout": ("dropout,rate=0.1", 1),
}


def filled(agent: str, seeds: int, batch: int) -> QLearner:
    """A learner that has played, and never replaces its target network."""
    chain = Chain(length=20)
    state = exploration.learner(
        chain, agent, seeds=seeds, batch_size=batch, updates=1, target_every=1 << 30
    )
    for _ in range(10):
        state.episode()
    return state


class Plain:
    """The same networks, targets, priors and moments as modules of PyTorch."""

    def __init__(self, state: QLearner) -> None:
        self.state, self.scale = state, state.agent.prior
        members = range(len(state.networks.members))
        self.nets = [self.net(state.networks.weights, m) for m in members]
        self.targets = [self.net(state.target, m).eval() for m in members]
        self.priors = [self.net(state.prior, m).eval() for m in members]
        self.rules = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in self.nets]
        for number, (net, rule) in enumerate(zip(self.nets, self.rules, strict=True)):
            self.give_moments(number, net, rule)

    def net(self, weights: dict[str, torch.Tensor], member: int) -> nn.Module:
        from copy import deepcopy

        net = deepcopy(self.state.networks.net)
        net.load_state_dict({name: tensor[member].clone() for name, tensor in weights.items()})
        return net

    def give_moments(self, number: int, net: nn.Module, rule: torch.optim.Adam) -> None:
        optimizer = self.state.networks.optimizer
        for index, parameter in enumerate(net.parameters()):
            rule.state[parameter] = {
                "step": torch.tensor(float(optimizer.steps)),
                "exp_avg": optimizer.state["mean"][index][number].clone(),
                "exp_avg_sq": optimizer.state["square"][index][number].clone(),
            }

    def step(self, chance: torch.Tensor) -> None:
        tensors, filled = self.state.replay.tensors, int(self.state.replay.count[0])
        members = self.state.agent.members
        for number, net in enumerate(self.nets):
            run = number // members
            slot = (chance[run] * filled).long()
            own = {name: part[run][slot] for name, part in tensors.items()}
            del own["members"]
            self.update(number, net, **own)

    def update(
        self,
        number: int,
        net: nn.Module,
        seen: torch.Tensor,
        action: torch.Tensor,
        reward: torch.Tensor,
        after: torch.Tensor,
        ended: torch.Tensor,
    ) -> None:
        with torch.no_grad():
            net.eval()
            online, later = net(after), self.targets[number](after)
            net.train()
            if self.scale:
                prior = self.scale * self.priors[number](after)
                online, later = online + prior, later + prior
            value = later.gather(1, online.argmax(1, keepdim=True))[:, 0]
            wanted = reward + DISCOUNT * value * ~ended
        values = net(seen)
        if self.scale:
            with torch.no_grad():
                fixed = self.scale * self.priors[number](seen)
            values = values + fixed
        chosen = values.gather(1, action[:, None])[:, 0]
        self.rules[number].zero_grad()
        nn.functional.mse_loss(chosen, wanted).backward()
        self.rules[number].step()

    def gap(self) -> float:
        """The largest difference between a weight here and there."""
        there = self.state.networks.weights
        return max(
            float((there[name][number] - weight).abs().max())
            for number, net in enumerate(self.nets)
            for name, weight in net.state_dict().items()
        )


def nescio_step(state: QLearner) -> Step:
    def step(chance: torch.Tensor) -> None:
        batch: Transitions = state.replay.draw(chance)
        state.update(batch)

    return step


def measured(agent: str, seeds: int, batch: int, rounds: int, calls: int) -> tuple[float, ...]:
    """The best seconds of the processor per step, nescio and PyTorch, and the gap of weights."""
    state = filled(agent, seeds, batch)
    plain = Plain(state)
    sides = {"nescio": nescio_step(state), "torch": plain.step}
    for _ in range(STEPS):
        chance = torch.rand(seeds, batch)
        for side in sides.values():
            side(chance)
    gap = plain.gap()
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            chance = torch.rand(seeds, batch)
            start = time.process_time()
            for _ in range(calls):
                side(chance)
            best[name] = min(best[name], (time.process_time() - start) / calls)
    return best["nescio"], best["torch"], gap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, (agent, seeds) in CASES.items():
        calls = max(2, options.calls // max(1, seeds // 2))
        ours, theirs, gap = measured(agent, seeds, options.batch_size, options.rounds, calls)
        same = "masks differ" if "dropout" in agent else f"weights differ by {gap:.0e} at most"
        times = f"{1e3 * ours:8.3f} ms  PyTorch {1e3 * theirs:8.3f} ms  {ours / theirs:5.2f} x"
        print(f"{name:30} nescio {times}  ({same})", flush=True)


if __name__ == "__main__":
    main()
