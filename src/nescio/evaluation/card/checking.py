"""Whether what was computed again is what a card says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nescio.core import NescioError, load
from nescio.evaluation.audit.named_files import FileDigest, digest_of
from nescio.evaluation.card.card import Card, SignedCard
from nescio.evaluation.card.claims import printed, unequal, whole
from nescio.evaluation.card.proved import certificates
from nescio.guards import about


@dataclass(frozen=True, kw_only=True)
class Check:
    """One kind of claim: right, wrong, not checked, or absent from the card; and why.

    name: which kind of claim.
    status: `"right"`, `"wrong"`, `"not checked"` or `"absent"`.
    words: why, in words.
    details: what differs, one line for each difference.
    """

    name: str
    status: Literal["right", "wrong", "not checked", "absent"]
    words: str
    details: tuple[str, ...] = ()


def check_signature(signed: SignedCard, key: str | Path | None) -> Check:
    """Whether the card is signed by the key; a card without a signature is not, if one is given.

    signed: the card with its signature.
    key: file of the key; None: the public key that the signature names.
    """
    found = signed.signature
    if found is None:
        if key is not None:
            words = "the card has none, but a key was given"
            return Check(name="signature", status="wrong", words=words)
        return Check(name="signature", status="absent", words="anyone may have made this card")
    if found.fingerprint is None and key is None:
        words = "by a shared secret, which checks it: --key FILE"
        return Check(name="signature", status="not checked", words=words)
    if not signed.is_signed_by(key):
        return Check(name="signature", status="wrong", words="it is not one of this key")
    if key is None:
        words = (
            f"holds for the key {found.fingerprint} that the card names; whose that is, --key FILE "
            "tells"
        )
        return Check(name="signature", status="right", words=words)
    return Check(name="signature", status="right", words="by the key that was given")


def check_files(card: Card, places: Mapping[str, Path]) -> Check:
    """Whether files have the digests of the card.

    card: the card.
    places: where each of its files is now, by name.
    """
    claimed = card_files(card)
    changed = [
        f"{name}: {_difference(claimed[name], path)}"
        for name, path in places.items()
        if not _same(claimed[name], path)
    ]
    words = f"{len(places) - len(changed)} of {len(places)} have the bytes of the card"
    status: Any = "wrong" if changed else "right"
    return Check(name="files", status=status, words=words, details=tuple(changed))


def card_files(card: Card) -> dict[str, FileDigest]:
    """All files of a `card` by name: those of the commands, audit.json and the guard."""
    own = [card.audit, *([] if card.guard is None else [card.guard])]
    return {**card.files, **{one.path: one.digest for one in own}}


def _same(claimed: FileDigest, path: Path) -> bool:
    return digest_of(path, module=claimed.kind == "module") == claimed


def _difference(claimed: FileDigest, path: Path) -> str:
    found = digest_of(path, module=claimed.kind == "module")
    if found.bytes != claimed.bytes:
        return f"{path} has {found.bytes:,} bytes, the card says {claimed.bytes:,}"
    return f"{path} has SHA-256 {found.sha256[:16]}..., the card says {claimed.sha256[:16]}..."


def check_again(card: Card, folder: Path, out: str) -> list[Check]:
    """All claims of a card against an audit that was made again.

    A text that names the folder of the audit names another one now.

    card: the card.
    folder: folder of the audit that was made again.
    out: name of the folder of the first audit.
    """
    path = folder / "audit.json"
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise NescioError(f"cannot read the audit that was made again: {error}") from None
    said = json.loads(text.replace(json.dumps(str(folder))[1:-1], json.dumps(out)[1:-1]))
    own = said.get("sections", {}).get("provenance", {})
    return [
        _software(card, own),
        _digests("weights", card.weights, own.get("weights", {})),
        _digests("data", card.data, own.get("data", {})),
        _numbers(card, said),
        _said("verdict", (card.status,), (said["status"],)),
        _said("certificates", card.certificates, certificates(load(path, kind="audit").findings)),
    ]


def _software(card: Card, own: Mapping[str, Any]) -> Check:
    """On what it ran, which is not a claim: another version or machine may round otherwise."""
    here = {**own.get("versions", {}), "machine": own.get("machine")}
    there = {**card.versions, "machine": card.machine}
    other = [f"{name}: {there[name]} on the card, {here.get(name)} here"
             for name in there if there[name] != here.get(name)]  # fmt: skip
    words = "the versions and the kind of machine are those of the card"
    if other:
        words = "not those of the card, so that the last digits may differ"
    return Check(name="software", status="right", words=words, details=tuple(other))


def _said(name: str, claimed: tuple[str, ...], found: tuple[str, ...]) -> Check:
    """Sentences, one by one."""
    wrong = [one for one in claimed if one not in found]
    words = f"{len(claimed) - len(wrong)} of {len(claimed)} found again"
    return Check(name=name, status="wrong" if wrong else "right", words=words, details=tuple(wrong))


def _digests(name: str, claimed: Mapping[str, Any], found: Mapping[str, Any]) -> Check:
    def plain(value: Any) -> Any:
        return value if isinstance(value, str) else list(value)

    wrong = [one for one in claimed if plain(claimed[one]) != found.get(one)]
    words = f"{len(claimed) - len(wrong)} of {len(claimed)} have the digest of the card"
    details = tuple(f"{one}: another digest" for one in wrong)
    return Check(name=name, status="wrong" if wrong else "right", words=words, details=details)


def _numbers(card: Card, said: Mapping[str, Any]) -> Check:
    """Every printed number, digit by digit; then all of the audit, bit by bit."""
    wrong = unequal(card.numbers, printed(said))
    count = len(card.numbers)
    missing = sum(1 for one in wrong if one.claimed is not None)
    words = f"{count - missing:,} of {count:,} are equal to the last printed digit"
    exact = whole(said) == card.whole
    more = f"all {card.whole.leaves:,} values of the audit to the last bit"
    words += f", {more}" if exact else f", not {more}"
    details = tuple(
        f"{one.name}: {one.claimed or '-'} claimed, {one.found or '-'} found" for one in wrong
    )
    return Check(name="numbers", status="wrong" if wrong else "right", words=words, details=details)


def check_guard(card: Card, made_again: Path) -> Check:
    """Whether a guard that was made again holds the same tensors and guarantees.

    card: the card.
    made_again: file of the guard that was made again.
    """
    found = about(made_again)
    wrong = []
    if found["contents"] != card.guard_contents:
        wrong.append("its tensors differ")
    if tuple(found["guarantees"]) != card.guarantees:
        wrong.append("its guarantees differ")
    words = "made again, tensor for tensor, with the same guarantees"
    if wrong:
        return Check(name="guard", status="wrong", words="made again", details=tuple(wrong))
    return Check(name="guard", status="right", words=words)
