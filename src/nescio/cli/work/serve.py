"""What `nescio serve` does."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from nescio.cli.networks import load_guard
from nescio.cli.options import note
from nescio.core import NescioError, did_you_mean

NEEDED = "nescio serve needs packages that are not installed: pip install 'nescio[serve]'"


def serve_named(
    *,
    guards: Sequence[str],
    net_names: Sequence[str],
    weights: Sequence[str],
    keys: str | None,
    new_key: str | None,
    log: str,
    no_log: bool,
    tls_cert: str | None,
    tls_key: str | None,
    check: bool,
    **words: Any,
) -> None:
    """Serve guard files, or add a key."""
    try:
        from nescio.serving import new_key as add_key
        from nescio.serving import server
    except ImportError as error:
        raise NescioError(f"{NEEDED} ({error})") from error
    if new_key is not None:
        if keys is None:
            raise NescioError("--new-key is added to a file: say which, --keys keys.txt")
        role, _, name = new_key.partition(":")
        click.echo(add_key(keys, role, name))
        note(f"the key of {name}, for {role}; {keys} holds only its digest, so keep it now")
        return
    if not guards:
        raise NescioError("name a guard to serve: nescio serve guard.safetensors")
    named = named_files(guards, server.default_name)
    server.check_tls(tls_cert, tls_key)
    service = server.build_service(
        named,
        log=None if no_log else log,
        keys=keys,
        settings=settings_of(**words),
        readers=readers_of(list(named), net_names, weights),
    )
    if check:
        said = [describe(service.guards.current(name).about()) for name in named]
        click.echo("\n".join([*said, f"log: {server.log_place(service.log)}"]))
        for name in named:
            service.end_watch(service.guards.current(name))
        if service.log is not None:
            service.log.close()
        return
    server.serve_service(service, tls_cert=tls_cert, tls_key=tls_key)


def settings_of(
    *,
    max_rows: int,
    max_mb: float,
    read_seconds: float,
    drain: float,
    no_inputs: bool,
    json_lines: bool,
    guards_folder: str | None,
    **same: Any,
) -> Any:
    """The settings of a service from the words of the command."""
    from nescio.serving import ServiceSettings

    if guards_folder is not None and not Path(guards_folder).is_dir():
        raise NescioError(f"--guards-folder: there is no folder {guards_folder}")
    return ServiceSettings(
        rows=max_rows,
        body_bytes=max(1, int(max_mb * (1 << 20))),
        head_seconds=read_seconds,
        body_seconds=3 * read_seconds,
        drain_seconds=drain,
        keep_inputs=not no_inputs,
        log_json=json_lines,
        webhook_secret=os.environ.get("NESCIO_WEBHOOK_SECRET"),
        guards_folder=None if guards_folder is None else Path(guards_folder),
        **same,
    )


def named_files(words: Sequence[str], default: Callable[[str], str]) -> dict[str, str]:
    """Guard files by name, from `FILE` or `NAME=FILE`."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or Path(word).exists():
            name, path = default(word), word
        if name in found:
            raise NescioError(f"two guards have the name {name!r}; write NAME={path}")
        found[name] = path
    return found


def by_name(words: Sequence[str], names: Sequence[str], option: str) -> dict[str, str]:
    """Values of an option by the guard they belong to, from `VALUE` or `NAME=VALUE`."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not (name in names or name.isidentifier()):
            if len(names) > 1:
                raise NescioError(f"of several guards say which: {option} {names[0]}={word}")
            name, value = names[0], word
        if name not in names:
            raise NescioError(f"{option}: there is no guard {name!r}{did_you_mean(name, names)}")
        found[name] = value
    return found


def readers_of(
    names: Sequence[str], nets: Sequence[str], weights: Sequence[str]
) -> dict[str, Callable[[Path], Any]]:
    """What reads each guard from its file, with its network, on the device of the command."""
    net_of = by_name(nets, names, "--net")
    weights_of = by_name(weights, names, "--weights")
    context = click.get_current_context()

    def reader(name: str) -> Callable[[Path], Any]:
        def read(path: Path) -> Any:
            with context.scope(cleanup=False):  # threads know no --device of their own
                return load_guard(str(path), net_of.get(name), weights_of.get(name))

        return read

    return {name: reader(name) for name in names}


def describe(about: dict[str, Any]) -> str:
    """A guard that would be served, in words."""
    steady = "the same in every batch" if about["steady"] else "each row decided alone"
    lines = [
        f"{about['guard']}, version {about['version']}: {about['task']}, inputs of shape "
        f"{about['input']['shape']}; decisions are {steady}",
        *(f"- {line}" for line in about["guarantees"]),
    ]
    return "\n".join(lines)
