"""Recurrent networks for sequences of any length, with dropout masks that are tied over the steps.

Variational dropout (Gal and Ghahramani, 2016b) has one mask per sequence for inputs, states and
outputs, the same at every step, and drops words by type. Naive dropout has a new mask at every step
and none for states. `nescio.nets.recurrent_layers` says where the masks come from.

One mask serves all gates of a layer (the paper's tied weights). The cell of an LSTM and the state
that a GRU carries over are not dropped; what the gates read is. In training every sequence has its
own masks. A pass of MC dropout is one network: all sequences share its masks, so that an answer
does not depend on the batch. Naive masks are drawn for the padded length.
"""

from collections.abc import Sequence

from torch import nn

from nescio.core import NescioError
from nescio.nets.factory import network
from nescio.nets.recurrent_layers import Recurrent, RecurrentOptions


@network
def lstm(
    inputs: int | Sequence[int],
    outputs: int,
    *,
    width: int = 64,
    depth: int = 1,
    dropout: float = 0.0,
    dropout_kind: str = "variational",
    input_dropout: float | None = None,
    pooling: str = "last",
    per_step: bool = False,
    marked: bool = True,
    vocabulary: int | None = None,
    embedding: int = 64,
    word_dropout: float = 0.0,
    padding: int = 0,
) -> nn.Module:
    """Long short-term memory over the steps of a sequence; one answer, or one at every step.

        lstm((13, 29), 9, width=64, dropout=0.25)
        lstm(20, 6, vocabulary=5000, dropout=0.25, word_dropout=0.1)

    inputs: shape of one sequence, `(channels + 1, length)`; the last channel is 1 where there is a
      step and 0 in the padding. Sequences of other lengths run as well; one of padding alone is
      refused. `nescio.train(..., standardize=True)` scales channels over the marked steps. With
      `vocabulary` a sequence is `(length,)` whole numbers.
    outputs: number of outputs, such as classes.
    width: size of the states.
    depth: number of layers.
    dropout: dropout rate of inputs, states and outputs.
    dropout_kind: "variational" for one mask per sequence, the same at every step; "naive" for a new
      mask at every step, and none for states.
    input_dropout: dropout rate of what enters the first layer; None: as `dropout`.
    pooling: what is answered from, the "last" state or the "mean" of the states.
    per_step: whether there is an answer at every step, `(N, outputs, length)`.
    marked: False where no channel marks steps, and all of them count.
    vocabulary: number of tokens; None: the inputs are numbers.
    embedding: how many numbers stand for a token.
    word_dropout: share of the tokens that is dropped, each in its whole sequence.
    padding: the token that stands for no word.
    """
    options = RecurrentOptions(
        cell="lstm",
        width=width,
        depth=depth,
        dropout=dropout,
        dropout_kind=dropout_kind,
        input_dropout=input_dropout,
        pooling=pooling,
        per_step=per_step,
        marked=marked,
        vocabulary=vocabulary,
        embedding=embedding,
        word_dropout=word_dropout,
        padding=padding,
    )
    return _network(inputs, outputs, options)


@network
def gru(
    inputs: int | Sequence[int],
    outputs: int,
    *,
    width: int = 64,
    depth: int = 1,
    dropout: float = 0.0,
    dropout_kind: str = "variational",
    input_dropout: float | None = None,
    pooling: str = "last",
    per_step: bool = False,
    marked: bool = True,
    vocabulary: int | None = None,
    embedding: int = 64,
    word_dropout: float = 0.0,
    padding: int = 0,
) -> nn.Module:
    """Gated recurrent units over the steps of a sequence; one answer, or one at every step.

        gru((13, 29), 9, width=64, dropout=0.25)

    inputs: shape of one sequence, `(channels + 1, length)`; the last channel is 1 where there is a
      step and 0 in the padding. Sequences of other lengths run as well; one of padding alone is
      refused. `nescio.train(..., standardize=True)` scales channels over the marked steps. With
      `vocabulary` a sequence is `(length,)` whole numbers.
    outputs: number of outputs, such as classes.
    width: size of the states.
    depth: number of layers.
    dropout: dropout rate of inputs, states and outputs.
    dropout_kind: "variational" for one mask per sequence, the same at every step; "naive" for a new
      mask at every step, and none for states.
    input_dropout: dropout rate of what enters the first layer; None: as `dropout`.
    pooling: what is answered from, the "last" state or the "mean" of the states.
    per_step: whether there is an answer at every step, `(N, outputs, length)`.
    marked: False where no channel marks steps, and all of them count.
    vocabulary: number of tokens; None: the inputs are numbers.
    embedding: how many numbers stand for a token.
    word_dropout: share of the tokens that is dropped, each in its whole sequence.
    padding: the token that stands for no word.
    """
    options = RecurrentOptions(
        cell="gru",
        width=width,
        depth=depth,
        dropout=dropout,
        dropout_kind=dropout_kind,
        input_dropout=input_dropout,
        pooling=pooling,
        per_step=per_step,
        marked=marked,
        vocabulary=vocabulary,
        embedding=embedding,
        word_dropout=word_dropout,
        padding=padding,
    )
    return _network(inputs, outputs, options)


def _network(inputs: int | Sequence[int], outputs: int, options: RecurrentOptions) -> nn.Sequential:
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    wanted = 2 if options.vocabulary is None else 1
    if len(shape) != wanted or min(*shape, outputs) < 1:
        expected = "(channels + 1, length)" if wanted == 2 else "a length, with vocabulary="
        raise NescioError(
            f"{options.cell} takes inputs of shape {expected}, and outputs that are positive; got "
            f"{shape} and {outputs}; tokens need vocabulary=, their number"
        )
    channels = None if options.vocabulary is not None else shape[0] - options.marked
    if channels == 0:
        raise NescioError(
            f"inputs of shape {shape} have the channel that marks steps and no other; without such "
            "a channel say marked=False"
        )
    body = Recurrent(channels, options)
    if not options.per_step:
        dropped = [nn.Dropout(options.dropout)] if options.dropout else []
        return nn.Sequential(body, *dropped, nn.Linear(options.width, outputs))
    tied = nn.Dropout1d if options.is_tied else nn.Dropout
    each = [tied(options.dropout)] if options.dropout else []
    return nn.Sequential(body, *each, nn.Conv1d(options.width, outputs, 1))
