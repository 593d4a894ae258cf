"""Warnings as lines for people, without the place in the source."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def warnings_said() -> Iterator[None]:
    """Say each warning of a block once, at its end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(one.message) for one in caught):
                click.echo(f"WARNING: {text}", err=True)
