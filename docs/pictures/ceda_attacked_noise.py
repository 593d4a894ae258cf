"""CEDA looks safe under an attack that has no gradient; past its dead units, noise fools it."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import attacks, losses, nets


def draw() -> Figure:
    """The confidence on noise, attacked noise, and noise attacked through dead ReLUs."""
    digits = nescio.data.digits()
    noise = nescio.data.ood.uniform((1, 8, 8))
    start, how = noise.take(60), {"radius": 0.3, "steps": 40, "step": 0.02}
    trained = {
        "plain": losses.nll(),
        "CEDA": losses.ceda(losses.nll(), noise),
        "ACET": losses.acet(losses.nll(), noise),
    }
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    panels, blind = fig.subplots(1, 3, sharey=True), {}
    for index, (name, loss) in enumerate(trained.items()):
        net = nescio.train(
            nets.digit_cnn, digits.train, loss=loss, epochs=6, batch_size=50, learning_rate=3e-3
        )
        usual = attacks.adversarial_noise(net, start, **how)
        leaking = attacks.pgd(attacks.leaking(attacks.confidence(net)), start, **how)
        blind[name] = usual.blind.float().mean().item()
        for panel, x in zip(panels, (start, usual.x, leaking.x), strict=True):
            confidence = net(x).probs.amax(-1)
            jitter = 0.5 * torch.rand(len(x), generator=torch.Generator().manual_seed(0)) - 0.25
            panel.scatter(index + jitter, confidence, s=6, color="tab:blue", alpha=0.6)
            panel.hlines(confidence.mean(), index - 0.35, index + 0.35, color="black", lw=2)
            above = confidence.mean() + (0.04 if confidence.mean() < 0.9 else -0.1)
            panel.text(index, above, f"{confidence.mean():.2f}", ha="center", fontsize=9)
    titles = ("noise", "attacked noise", "attacked, `leaking`")
    for panel, title in zip(panels, titles, strict=True):
        panel.set(xticks=range(3), xticklabels=trained, xlim=(-0.6, 2.6), ylim=(0, 1.05))
        panel.set_title(title, fontsize=10)
    said = "without a gradient:\n" + "\n".join(f"{k}: {v:.0%} of images" for k, v in blind.items())
    panels[1].text(2.5, 0.4, said, fontsize=9, ha="right")
    panels[0].set_ylabel("confidence")
    return fig
