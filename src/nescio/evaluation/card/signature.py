"""Signatures of cards: Ed25519 with a key pair (RFC 8032), or HMAC with a shared secret.

A key is a file. A PEM file holds an Ed25519 key, made by `openssl genpkey -algorithm ed25519`, and
needs the package `cryptography`. Any other file of 32 bytes or more is a secret for HMAC-SHA-256.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nescio.core import NescioError

Algorithm = Literal["ed25519", "hmac-sha256"]
DOMAIN = b"nescio safety card 1\n"  # before what is signed: a signature is of nothing else
SECRET = 32  # bytes that a secret needs
PEM = b"-----BEGIN "
NO_PACKAGE = "an Ed25519 key needs the package cryptography; install it: pip install cryptography"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """public_key: of Ed25519, in base64; of HMAC there is none."""

    algorithm: Algorithm
    signature: str
    public_key: str | None = None

    @property
    def fingerprint(self) -> str | None:
        """A short name of the public key: the first 16 digits of its SHA-256."""
        return None if self.public_key is None else _fingerprint(_decoded(self.public_key))


def sign(content: bytes, key: Path) -> Signature:
    """Sign the bytes of a card with the key in a file."""
    material = _read(key)
    if not material.startswith(PEM):
        return Signature(algorithm="hmac-sha256", signature=_mac(material, content))
    private = _private_key(material, key)
    public = base64.b64encode(private.public_key().public_bytes_raw()).decode()
    signed = base64.b64encode(private.sign(DOMAIN + content)).decode()
    return Signature(algorithm="ed25519", signature=signed, public_key=public)


def is_valid(content: bytes, signature: Signature, key: Path | None = None) -> bool:
    """Whether a signature is one of these bytes, by the given key or by the one that it names.

    key: a public or private key, or the secret. Without it, the signature is checked with its own
    public key: anyone could have made that pair.
    """
    if signature.algorithm == "hmac-sha256":
        if key is None:
            raise NescioError("a signature by a shared secret is checked with it: --key FILE")
        material = _read(key)
        if material.startswith(PEM):
            return False
        return hmac.compare_digest(_mac(material, content), signature.signature)
    if signature.public_key is None:
        return False
    public = _decoded(signature.public_key)
    if key is not None and not hmac.compare_digest(_public_bytes(key), public):
        return False
    return _verified(public, DOMAIN + content, _decoded(signature.signature))


def _mac(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, DOMAIN + content, hashlib.sha256).hexdigest()


def _read(key: Path) -> bytes:
    try:
        material = key.read_bytes()
    except OSError as error:
        raise NescioError(f"cannot read the key {key}: {error.strerror}") from None
    if not material.startswith(PEM) and len(material) < SECRET:
        raise NescioError(
            f"{key} has {len(material)} bytes; a key is a PEM file of Ed25519, or a secret of at "
            f"least {SECRET} bytes: head -c 32 /dev/urandom > secret.key"
        )
    return material


def _private_key(material: bytes, key: Path) -> Any:
    found = _loaded(material, key)
    if not hasattr(found, "sign"):
        raise NescioError(f"{key} is a public key; signing needs the private one")
    return found


def _public_bytes(key: Path) -> bytes:
    material = _read(key)
    if not material.startswith(PEM):
        return b""  # a secret is the key of no pair
    found = _loaded(material, key)
    public: bytes = (found.public_key() if hasattr(found, "sign") else found).public_bytes_raw()
    return public


def _loaded(material: bytes, key: Path) -> Any:
    """The Ed25519 key of a PEM file; what is wrong with another is said without its content."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise NescioError(NO_PACKAGE) from None
    kinds = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
    try:
        if b"PUBLIC KEY" in material.split(b"\n", 1)[0]:
            found: Any = serialization.load_pem_public_key(material)
        else:
            found = serialization.load_pem_private_key(material, password=None)
    except (ValueError, TypeError):  # TypeError: it is encrypted
        found = None
    if not isinstance(found, kinds):
        raise NescioError(
            f"{key} is not an Ed25519 key without a password; make one: openssl genpkey -algorithm "
            "ed25519 -out key.pem"
        )
    return found


def _verified(public: bytes, content: bytes, signature: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise NescioError(NO_PACKAGE) from None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _fingerprint(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]
