"""A loss from its description, such as models keep it."""

import ast
from typing import Any

from nescio.core import NescioError
from nescio.core.registry import heads, losses
from nescio.losses.loss import Loss


def from_description(text: str) -> Loss | None:
    """The loss that the description `text` names; None: it has parts that only Python can give.

    >>> from_description("weight_decay(nll(categorical()), strength=0.001)").decay
    0.001
    """
    try:
        made = _made(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, NescioError, _UnknownError):
        return None
    return made if isinstance(made, Loss) else None


class _UnknownError(Exception):
    """A part of a description that no registry has."""


def _made(node: ast.expr) -> Any:
    """A constant, or what a registered head or loss makes of such arguments."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _UnknownError
    part = losses.get(node.func.id) or heads.get(node.func.id)
    if part is None or any(keyword.arg is None for keyword in node.keywords):
        raise _UnknownError
    options = {keyword.arg: _made(keyword.value) for keyword in node.keywords if keyword.arg}
    return part(*(_made(argument) for argument in node.args), **options)
