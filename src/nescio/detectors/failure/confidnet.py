"""ConfidNet (Corbière et al., 2019): a small network learns how probable the true class is.

As published, a head on the penultimate features learns the true class probability of the training
inputs (stage one); then a clone of the encoder learns with it, dropout off and BatchNorm with the
statistics it has (stage two). Where the network fits its training data that probability is about 1
everywhere, and there is nothing to learn; probabilities of fold networks are different.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from nescio import nets
from nescio.core import NescioError, as_batch, heads, only_tensor
from nescio.detectors.activations import Activations, NoInputsError, View, hash_inputs
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.failure.recommended import CrossFit
from nescio.detectors.simple import log_odds
from nescio.losses import Loss, pointwise
from nescio.models import Predictor, networks
from nescio.nets.factory import made_by, rebuild
from nescio.training import train as train_networks

ENCODER = "encoder/"  # the names of a fine-tuned encoder's weights begin with it


def confidnet(
    train: Activations,
    *,
    crossed: CrossFit | None = None,
    residual: bool = False,
    tuned: nn.Module | Predictor | None = None,
    widths: Sequence[int] = (400, 400, 400, 400),
    epochs: int = 20,
    tuning_epochs: int = 5,
    learning_rate: float = 1e-4,
    tuning_rate: float = 1e-5,
    batch_size: int = 128,
    layer: str | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    progress: bool | None = None,
) -> Detector:
    """A head on the features that learns the true class probability; its minus log-odds.

    The epoch with the best precision on validation errors, which the authors choose, is not looked
    for.

    train: activations of the training data, with labels.
    crossed: fold networks of the same training data; the head then learns their probabilities.
      None: it learns those of the network itself.
    residual: learn, with `crossed`, what to add to the log-odds of the answer so that they say how
      often it is right.
    tuned: the network, or the model, to fine-tune in stage two: a clone of it, without its last
      layer and dropout, learns with the head. It must be one of `nescio.nets` that is a sequence of
      layers, so that a file can hold it, and the activations must have been observed with
      inputs=True. None: there is no stage two.
    widths: widths of the hidden layers of the head.
    epochs: epochs of stage one.
    tuning_epochs: epochs of stage two.
    learning_rate: learning rate of stage one.
    tuning_rate: learning rate of stage two.
    batch_size: samples per step.
    layer: name of the layer whose features are read; None: that before the last linear layer.
    seed: seed of the random draws.
    run: a folder for checkpoints, as for `nescio.train`; None: none are written.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    if residual and crossed is None:
        raise NescioError("residual=True learns from fold networks; give crossed=cross_fit(...)")
    if residual and tuned is not None:
        raise NescioError("stage two is for the published form; leave out residual= or tuned=")
    name, labels = train.layer(layer), train.known().long()
    answers = train.logits if crossed is None else _crossed(crossed, train)
    states, recipe = [], None
    for member in range(train.members):
        options: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
        options |= {"loss": _loss(residual), "members": [member]}
        folders = [None if run is None else Path(run) / f"stage-{s}" / str(member) for s in (1, 2)]
        features = train.features[name][member].float()
        target, offset = _targets(answers[member].to(features), labels, residual)
        head = train_networks(
            partial(_head, features.shape[1], tuple(widths), residual),
            (features if offset is None else torch.cat([features, offset], 1), target),
            epochs=epochs,
            learning_rate=learning_rate,
            run=folders[0],
            **options,
        ).member(0)
        if tuned is None:
            states.append(_weights(head))
            continue
        if train.inputs is None:
            raise NescioError("stage two reads inputs; observe with inputs=True")
        whole, recipe = _joined(tuned, member, head)
        whole = train_networks(
            partial(deepcopy, whole),
            (as_batch(only_tensor(train.inputs, "stage two")), target),
            epochs=tuning_epochs,
            learning_rate=tuning_rate,
            run=folders[1],
            **options,
        ).member(0)
        states.append({ENCODER + key: value for key, value in whole.state_dict().items()})
    parts = {"residual": residual, "net": recipe, "widths": list(widths)}
    return fitted("confidnet", train, parts, states, *([name] if tuned is None else []))


@scores.named("confidnet")
def score(
    view: View, state: State, *, residual: bool, net: dict[str, Any] | None, widths: Sequence[int]
) -> Tensor:
    """Minus the log-odds that the head gives; with those of the answer where it is a residual."""
    if net is not None:
        return -_by_encoder(view, state, net, widths)
    hidden = only_layer(view).float()
    for index in range(len(widths) + 1):
        hidden = F.linear(hidden, state[f"{index}.weight"], state[f"{index}.bias"])
        hidden = hidden.relu() if index < len(widths) else hidden
    return log_odds(view.logits) - hidden[:, 0] if residual else -hidden[:, 0]


def _by_encoder(view: View, state: State, net: dict[str, Any], widths: Sequence[int]) -> Tensor:
    if view.inputs is None:
        raise NoInputsError(
            "the fine-tuned ConfidNet reads inputs, and the activations have none; observe with "
            "inputs=True"
        )
    encoder = _encoder(rebuild(net))
    weights = {name.removeprefix(ENCODER): tensor for name, tensor in state.items()}
    width = weights[f"{len(encoder)}.weight"].shape[1]
    whole = nn.Sequential(*encoder, *_head(width, tuple(widths), residual=False)).eval()
    with torch.no_grad():
        whole = whole.to(view.logits.device)
    x = as_batch(only_tensor(view.inputs, "ConfidNet"))
    outputs: Tensor = torch.func.functional_call(whole, weights, (x,))
    return outputs[:, 0]


class _Residual(nn.Module):
    """A head whose answer is added to the last input."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(x[:, :-1]) + x[:, -1:]
        return outputs


def _head(features: int, widths: tuple[int, ...], residual: bool) -> Any:
    plain = nets.mlp(features, 1, widths=widths)
    return _Residual(plain) if residual else plain


def _targets(logits: Tensor, labels: Tensor, residual: bool) -> tuple[Tensor, Tensor | None]:
    """What the head learns, and what is added to it: log-odds of the answer; `(N, 1)` each."""
    labels = labels.to(logits.device)[:, None]
    if residual:
        right = logits.argmax(-1, keepdim=True) == labels
        return right.to(logits.dtype), -log_odds(logits)[:, None]
    return logits.log_softmax(-1).gather(-1, labels).exp(), None


def _crossed(crossed: CrossFit, train: Activations) -> Tensor:
    logits = crossed.logits()
    if logits.shape != train.logits.shape:
        raise NescioError(
            f"the fold networks answer {tuple(logits.shape)} (networks, inputs, classes), the "
            f"activations are {tuple(train.logits.shape)}; observe the data of cross_fit, in its "
            "order, with as many members"
        )
    pair = crossed.y, train.known()
    if train.hashes is not None:
        pair = hash_inputs(crossed.x), train.hashes
    different = int((pair[0].cpu() != pair[1].cpu()).sum())
    if different:
        raise NescioError(
            f"{different} of the {len(pair[0])} samples of the activations are not those of the "
            "fold networks at their index; observe the data of cross_fit, in its order"
        )
    return logits


def _loss(residual: bool) -> Loss:
    """Squared error of the probability as published, or the likelihood of being right."""
    head = heads.fixed_variance()

    def slope(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        chance = outputs.sigmoid()
        gap = chance - y
        return gap.square().sum(-1), 2 * gap * chance * (1 - chance)

    def likelihood(outputs: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, y, reduction="none").sum(-1)

    if residual:
        return pointwise("confidnet residual", head, likelihood)
    return pointwise("confidnet", head, lambda outputs, y: slope(outputs, y)[0], slope)


def _weights(head: nn.Module) -> dict[str, Tensor]:
    linear = enumerate(module for module in head.modules() if isinstance(module, nn.Linear))
    return {f"{i}.{n}": t for i, module in linear for n, t in module.state_dict().items()}


def _joined(tuned: nn.Module | Predictor, member: int, head: nn.Module) -> tuple[nn.Module, Any]:
    """The encoder and the head as one network, and how the first is rebuilt."""
    net = deepcopy(tuned) if isinstance(tuned, nn.Module) else networks(tuned)[member].net
    recipe = made_by(net)
    if recipe is None:
        raise NescioError(
            "stage two keeps the whole network in the detector, and a file never names code to "
            "run; use one of nescio.nets without standardize=True, or leave out tuned="
        )
    whole = nn.Sequential(*_encoder(net), *head.children())
    for module in whole.modules():
        if isinstance(module, _BatchNorm):
            module.eval().train = _stay  # type: ignore[assignment]
    return whole, recipe


def _stay(mode: bool = True) -> None:
    """BatchNorm as it was learnt: training leaves its means and variances alone."""


def _encoder(net: nn.Module) -> list[nn.Module]:
    layers = list(net.children()) if isinstance(net, nn.Sequential) else []
    if not layers or not isinstance(layers[-1], nn.Linear):
        raise NescioError(
            f"stage two needs a sequence of layers that ends in a linear one, got "
            f"{type(net).__name__}; leave out tuned="
        )
    return [layer for layer in layers[:-1] if not isinstance(layer, nn.Dropout)]
