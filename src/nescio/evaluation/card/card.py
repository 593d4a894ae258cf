"""The safety card of a network: what was audited, what is guaranteed, and how to check both.

A card holds digests of weights, data and files, the guarantees of the guard, what was proved, the
numbers of the audit as printed, versions, and the commands that make all of it again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nescio.core import (
    DamagedError,
    NescioError,
    finite,
    from_json,
    load,
    load_manifest,
    save_manifest,
    to_json,
)
from nescio.evaluation.audit.named_files import FileDigest, digest_of
from nescio.evaluation.audit.provenance import Provenance
from nescio.evaluation.card.claims import Whole, canonical, canonical_digest, printed, whole
from nescio.evaluation.card.proved import certificates
from nescio.evaluation.card.signature import Signature, is_valid, sign
from nescio.guards import about

KIND = "safety card"


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file that a card is about, where it was, and its digest."""

    path: str
    digest: FileDigest


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card says about a network, its data, its guarantees and how to check them.

    network: name of the network.
    task: classification or regression.
    samples: number of test samples.
    seed: seed of the random draws.
    status: status of the verdict.
    verdict: the verdict in words.
    guarantees: guarantees of the guard, each with what it assumes.
    certificates: what was proved.
    weights: SHA-256 of the weights, by predictor.
    data: SHA-256 of the data, by name.
    files: digests of the files, by how the command names them.
    audit: the file of the audit.
    guard: the file of the guard; None: there is none.
    guard_contents: SHA-256 of the tensors of the guard.
    commands: commands that make the audit, and a separate guard.
    versions: versions of Python and packages, by name.
    machine: architecture of the processor and its vector instructions.
    threads: number of threads of PyTorch.
    numbers: numbers of the audit as printed, by their path in audit.json.
    whole: digest of all that audit.json says.
    """

    network: str
    task: str
    samples: int
    seed: int
    status: str
    verdict: str
    guarantees: tuple[str, ...]
    certificates: tuple[str, ...]
    weights: Mapping[str, tuple[str, ...]]
    data: Mapping[str, str]
    files: Mapping[str, FileDigest]
    audit: Document
    guard: Document | None = None
    guard_contents: str | None = None
    commands: tuple[tuple[str, ...], ...]
    versions: Mapping[str, str]
    machine: str
    threads: int
    numbers: Mapping[str, str]
    whole: Whole

    @property
    def content(self) -> bytes:
        """What is signed: all of the card in one form."""
        return canonical(to_json(self))

    @property
    def sha256(self) -> str:
        """The fingerprint of the card."""
        return canonical_digest(to_json(self))


@dataclass(frozen=True, kw_only=True)
class SignedCard:
    """A card, and its signature if it has one.

    card: the card.
    signature: its signature; None: it is not signed.
    """

    card: Card
    signature: Signature | None = None

    def save(self, path: str | Path) -> Path:
        """Write the card as JSON at `path`, and return the path."""
        signature = None if self.signature is None else to_json(self.signature)
        said = {"card": to_json(self.card), "sha256": self.card.sha256, "signature": signature}
        save_manifest(Path(path), {"kind": KIND, **said})
        return Path(path)

    def signed(self, key: str | Path) -> "SignedCard":
        """The same card with a signature by the key in the file `key`."""
        return replace(self, signature=sign(self.card.content, Path(key)))

    def is_signed_by(self, key: str | Path | None) -> bool:
        """Whether the card has a signature, and it is valid.

        key: file of the key to check it with; None: the public key that the signature names.
        """
        if self.signature is None:
            return False
        return is_valid(self.card.content, self.signature, None if key is None else Path(key))


def make_card(audit: str | Path, guard: str | Path | None = None) -> SignedCard:
    """The card of an audit, from its audit.json, and of a guard, from its file.

    audit: the file audit.json, or the folder of the audit.
    guard: file of a guard of the audited network; None: the card has no guard.
    """
    path = Path(audit) / "audit.json" if Path(audit).is_dir() else Path(audit)
    findings = load(path, kind="audit").findings
    source = findings.sections.get("provenance")
    if source is None:
        why = findings.not_run.get("provenance", "it was made by an older nescio")
        raise NescioError(
            f"{path} does not say which weights and data it is about ({why}); audit again without "
            "--skip provenance"
        )
    said = json.loads(path.read_text("utf-8"))
    manifest = None if guard is None else _guard_of(Path(guard), findings, source)
    name = next(iter(findings.predictors))
    return SignedCard(
        card=Card(
            network=name,
            task=_task(said, findings),
            samples=findings.samples,
            seed=findings.seed,
            status=said["status"],
            verdict=said["verdict"],
            guarantees=() if manifest is None else tuple(manifest["guarantees"]),
            certificates=certificates(findings),
            weights=source.weights,
            data=source.data,
            files=findings.files,
            audit=_document(path),
            guard=None if guard is None else _document(Path(guard)),
            guard_contents=None if manifest is None else manifest["contents"],
            commands=_commands(findings.command, guard),
            versions=source.versions,
            machine=source.machine,
            threads=source.threads,
            numbers=printed(said),
            whole=whole(said),
        )
    )


def read_card(path: str | Path) -> SignedCard:
    """A card from its file `path`; one that was changed, be it by one byte, is refused."""
    manifest = load_manifest(Path(path), KIND)
    written = json.dumps(finite(manifest), indent=2, allow_nan=False) + "\n"
    if written.encode() != Path(path).read_bytes():
        raise DamagedError(
            f"{path} is not as it was written: its text was changed; take the original again"
        )
    card = from_json(Card, manifest["card"], str(path))
    signature = from_json(Signature, manifest["signature"], str(path))
    if (
        canonical_digest(manifest["card"]) != manifest["sha256"]
        or card.sha256 != manifest["sha256"]
    ):
        raise DamagedError(f"{path} is damaged: its fingerprint is not that of its content")
    return SignedCard(card=card, signature=signature)


def _document(path: Path) -> Document:
    return Document(path=str(path), digest=digest_of(path))


def _task(said: Mapping[str, Any], findings: Any) -> str:
    return str(said.get("task") or type(findings).__name__)


def _guard_of(path: Path, findings: Any, source: Provenance) -> Mapping[str, Any]:
    """The manifest of a guard, if it guards the audited network."""
    manifest = about(path)
    own = [one["digest"] for one in manifest["networks"]]
    if own and source.guarded and own != list(source.guarded):
        name = next(iter(findings.predictors))
        raise NescioError(
            f"{path} guards another network than {name!r}, which the audit is about; give the "
            "guard that the audit wrote, or make one of that network with `nescio guard`"
        )
    return manifest


def _commands(
    command: tuple[str, ...] | None, guard: str | Path | None
) -> tuple[tuple[str, ...], ...]:
    """That of the audit, and of a guard that `nescio guard` made, which is noted beside it."""
    found = [] if command is None else [command]
    beside = None if guard is None else Path(f"{guard}.json")
    if beside is not None and beside.is_file():
        try:
            noted = json.loads(beside.read_text("utf-8")).get("command")
        except (ValueError, AttributeError):
            noted = None
        if isinstance(noted, list) and all(isinstance(word, str) for word in noted):
            found.append(tuple(noted))
    return tuple(found)
