"""The intervals of two audits overlap, and yet the paired difference is far from zero."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import metrics

DARK, RED = "#31688e", "#a50026"


def draw() -> Figure:
    digits = nescio.data.digits()
    audits = []
    for epochs in (20, 40):
        model = nescio.train(
            lambda: nescio.nets.mlp((1, 8, 8), 10), digits.train, epochs=epochs, progress=False
        )
        audits.append(
            nescio.audit(
                model.member(0),
                digits.test,
                train=digits.train,
                budget="quick",
                rays=0,
                attack_steps=0,
                progress=False,
            )
        )
    found = nescio.evaluation.diff(*(audit.findings for audit in audits))
    (one,) = (c for c in found.changes if c.name == "AUROC" and c.data == "permuted pixels")

    figure = Figure(figsize=(7, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    for row, (audit, value) in enumerate(zip(audits, (one.before, one.after), strict=True)):
        low, high = alone(audit)
        left.plot([low, high], [row, row], color=DARK, lw=4, solid_capstyle="butt")
        left.plot(value, row, "o", color=DARK, ms=9)
    left.set(ylim=(1.6, -0.6), yticks=[0, 1], yticklabels=["20 epochs", "40 epochs"])
    left.set(xlabel="AUROC on permuted pixels", title="each audit alone: the intervals overlap")
    right.axvline(0, color="black", lw=1)
    right.plot([one.low, one.high], [0.5, 0.5], color=RED, lw=4, solid_capstyle="butt")
    right.plot(one.after - one.before, 0.5, "o", color=RED, ms=9)
    right.text(one.after - one.before, 0.25, one.word, color=RED, ha="center", weight="bold")
    right.set(ylim=(1.6, -0.6), yticks=[], xlim=(-0.032, 0.006), xticks=[-0.03, -0.02, -0.01, 0])
    right.set(xlabel="difference", title="the same samples, paired")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    return figure


def alone(audit: nescio.Audit) -> tuple[float, float]:
    """The interval of the AUROC of one audit."""
    answers = audit.findings.sections["answers"]
    sides = (answers.test, answers.ood["permuted pixels"])
    found = metrics.bootstrap_ranking(*(torch.tensor(one.columns()["log_odds"]) for one in sides))
    return found["auroc"].low, found["auroc"].high
