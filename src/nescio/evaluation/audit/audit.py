"""How far can a network be trusted: on its data, on noise, and along rays away from the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nescio.core import (
    Head,
    Results,
    make_folder,
    to_json,
    write_atomically,
    write_json,
)
from nescio.evaluation.audit.answers_only import from_arrays
from nescio.evaluation.audit.audit_classes import audit_classes
from nescio.evaluation.audit.findings import Findings
from nescio.evaluation.audit.kept_parts import forget
from nescio.evaluation.audit.named_files import FileDigest
from nescio.evaluation.audit.requirements import requirements
from nescio.evaluation.audit.sections import AuditPlan, Budget
from nescio.evaluation.audit.verdict import Verdict, judged_json, verdict_of
from nescio.evaluation.regression.audit_regression import audit_regression
from nescio.evaluation.regression.regression_findings import RegressionFindings
from nescio.guards import Guard, RegressionGuard, described
from nescio.models import Predictor, is_regression
from nescio.nets import Output

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four per decade
ATTACK_STEPS = 50  # of the attack on noise
GUARD = "guard.safetensors"  # beside the page


@dataclass(frozen=True, repr=False)
class Audit:
    """The findings of an audit, section by section; `guard` decides about new inputs.

    findings: the findings about classes or about numbers.
    guard: the guard of the first network; None where there is none, and of a loaded audit.
    """

    findings: Findings | RegressionFindings
    guard: Guard | RegressionGuard | None = field(default=None, compare=False)

    @property
    def results(self) -> Results:
        """One row per predictor, data set and number."""
        return self.findings.results

    @cached_property
    def verdict(self) -> Verdict:
        """Pass, attention or fail, in a paragraph, and the findings that it rests on."""
        return verdict_of(self.findings)

    def to_json(self) -> dict[str, Any]:
        """What `audit.json` holds."""
        return {**to_json(self.findings), **judged_json(self.verdict)}

    def save(self, folder: str | Path) -> Path:
        """Write `audit.json`, `audit.html`, a page complete in itself, the guard, and its .json.

        `audit.xml` (JUnit) and `summary.md` hold the verdict. Returns the path of the page.

        folder: where to write; it is made if it does not exist.
        """
        from nescio.report import audit_page, junit_xml, summary_markdown

        folder = make_folder(Path(folder))
        whole = self
        if self.guard is not None:
            whole = self._with_guard(file=str(self.guard.save(folder / GUARD, weights=True)))
            write_json(folder / f"{GUARD}.json", described(self.guard))
        elif not self._is_loaded:  # one of an earlier audit would speak for another network
            for name in (GUARD, f"{GUARD}.json"):
                (folder / name).unlink(missing_ok=True)
        write_json(folder / "audit.json", whole.to_json())
        write_atomically(folder / "audit.xml", junit_xml(whole.verdict))
        write_atomically(folder / "summary.md", summary_markdown(whole.verdict))
        write_atomically(folder / "audit.html", audit_page(whole.findings))
        forget(folder)
        return folder / "audit.html"

    @property
    def _is_loaded(self) -> bool:
        """Whether there is a guard, in a file, but not here."""
        return self.findings.guard is not None and self.findings.guard.file is not None

    def model_card(self, *, level: int = 2) -> str:
        """A section for a model card, in Markdown.

        level: level of its heading.
        """
        from nescio.report import model_card

        return model_card(self.findings, level=level)

    def bound_for(
        self, folder: str | Path, *, net: str | None = None, columns: Sequence[str] | None = None
    ) -> "Audit":
        """The same audit, with the words to use the guard once it is saved in a folder.

        folder: folder that the audit will be saved in.
        net: `package.module:factory` of the network, or the folder of a run; None: not known.
        columns: names of the inputs, where the data are a table; the guard takes them by name.
        """
        if self.guard is None:
            return self
        notes = dict(self.guard.notes) | ({} if columns is None else {"columns": list(columns)})
        bound = self._with_guard(file=str(Path(folder) / GUARD), net=net)
        return replace(bound, guard=replace(self.guard, notes=notes))

    def with_command(
        self, command: Sequence[str], files: Mapping[str, FileDigest] | None = None
    ) -> "Audit":
        """The same audit with the command that made it, and the digests of the files that it read.

        command: words of the command.
        files: digests of the files, by the names that the command has for them; None: no files.
        """
        noted = replace(self.findings, command=tuple(command), files=dict(files or {}))
        return replace(self, findings=noted)

    def _with_guard(self, **changes: Any) -> "Audit":
        assert self.findings.guard is not None
        guard: Any = replace(self.findings.guard, **changes)
        return replace(self, findings=replace(self.findings, guard=guard))

    def __repr__(self) -> str:
        numbers = len(self.verdict.findings)
        return f"Audit({self.verdict.status}: {numbers} numbers with a limit, guard={self.guard!r})"

    def __str__(self) -> str:
        from nescio.report import audit_text

        return audit_text(self.findings)

    def _repr_html_(self) -> str:
        from nescio.report import audit_html

        return audit_html(self)


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor] | None,
    data: Any,
    *,
    train: Any = None,
    validation: Any = None,
    ood: Mapping[str, Any] | None = None,
    groups: Any = None,
    class_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    budget: Budget = "standard",
    skip: Sequence[str] = (),
    also: Sequence[str] = (),
    alphas: Sequence[float] = ALPHAS,
    rays: int | None = None,
    attack_steps: int = ATTACK_STEPS,
    attack_radius: float | None = None,
    head: Head | str | None = None,
    output: Output = None,
    repeats: bool = False,
    require: Any = None,
    run: str | Path | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a network is on its test data, off it, under attack, and far away.

    `audit(net, test, train=train, ood={"letters": z}).save("out")`. Of a regression (a head such as
    "gaussian", or targets that are not whole) it is about predicted intervals and deviations.

    net: a network, a predictor, or several by name; the first gets a guard. None: a network that
      runs elsewhere; all data are then what it gave, `nescio.recorded`.
    data: test inputs and labels: a pair `(x, y)`, a loader, or a mapping with labels.
    train: training data, for the range of the noise and the detector of the guard; None: there are
      none.
    validation: other data that the network was not trained on, which fit temperatures and the
      guard; None: a half of the test data does.
    ood: OOD inputs by name, for example `{"letters": z}`; uniform noise and permuted pixels are
      always there.
    groups: group of each test sample, `(N,)`, such as the hospital it comes from; several by name.
    class_names: names of the classes; None: their numbers.
    columns: names of the numbers of a sample, where the data are a table.
    budget: `"quick"` reads few samples; `"standard"`; `"thorough"` reads all samples in every part,
      where for a large network some are drawn, and makes all sections.
    skip, also: names of sections, of `nescio list audit_sections`, that are left out, or made
      whatever the budget.
    alphas: factors on the test inputs; by default 1 to 10,000, four per decade.
    rays: number of rays of each kind to follow to infinity, exactly; 0 leaves the far field out;
      None: 200, fewer for a large network.
    attack_steps: steps of gradient ascent on the confidence, from noise; 0 leaves the attack out.
    attack_radius: how far the attack may go, as a share of the range of the data; None: 0.3 for
      images, 0.05 for vectors.
    head: how the outputs of modules are read, as for `nescio.observe`; a network without a head
      whose targets are not whole predicts means alone.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    repeats: whether equal inputs are separate samples, as for `nescio.guard`.
    require: limits such as `"ece<0.05"` or `"abstained[letters]>0.9"`, a .toml file of them, or
      several; they count in place of the default limits.
    run: folder that stores finished sections: the same audit resumes there after it was killed.
      None: nothing is stored.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    required = requirements(require)
    others = {"train": train, "validation": validation, "ood": ood}
    if net is None:
        net, data, others = from_arrays(data, others)
    bare = dict(net) if isinstance(net, Mapping) else {"network": net}
    regression = any(is_regression(one, data, head) for one in bare.values())
    plan = AuditPlan.of(budget, skip, also, folder=run)
    names = {"groups": groups, "class_names": class_names, "columns": columns}
    findings, guard = (audit_regression if regression else audit_classes)(
        bare,
        data,
        others=others,
        reading={"head": head, "output": output},
        names=names,
        plan=plan,
        alphas=alphas,
        rays=rays,
        attack=(attack_steps, attack_radius),
        repeats=repeats,
        seed=seed,
        show=progress,
    )
    return Audit(replace(findings, required=required), guard)
