"""Signatures of cards: by a key pair and by a shared secret."""

import hashlib
import hmac
import sys
from dataclasses import replace

import pytest

from nescio import NescioError
from nescio.evaluation.card.signature import DOMAIN, is_valid, sign

CONTENT = b'{"network":"small"}'


@pytest.fixture
def keys(tmp_path):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as form

    private = ed25519.Ed25519PrivateKey.generate()
    pem, bare = form.Encoding.PEM, form.NoEncryption()
    paths = tmp_path / "key.pem", tmp_path / "public.pem"
    paths[0].write_bytes(private.private_bytes(pem, form.PrivateFormat.PKCS8, bare))
    public = private.public_key()
    paths[1].write_bytes(public.public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo))
    return paths


def test_a_key_pair_signs_and_checks(keys):
    private, public = keys
    made = sign(CONTENT, private)
    assert made.algorithm == "ed25519"
    assert len(made.fingerprint) == 16
    assert is_valid(CONTENT, made, public)
    assert is_valid(CONTENT, made, private)
    assert is_valid(CONTENT, made)  # for the key that it names
    assert not is_valid(CONTENT + b" ", made, public)


def test_the_signature_of_another_key_is_not_valid(keys, tmp_path):
    _, public = keys
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    other = tmp_path / "other.pem"
    bare = (form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    other.write_bytes(Ed25519PrivateKey.generate().private_bytes(*bare))
    made = sign(CONTENT, other)
    assert is_valid(CONTENT, made)  # anyone can make a pair
    assert not is_valid(CONTENT, made, public)
    assert not is_valid(CONTENT, replace(made, public_key=None), public)
    assert not is_valid(CONTENT, replace(made, signature="no base64!"))


def test_a_secret_signs_as_hmac_does(tmp_path):
    secret = tmp_path / "secret.key"
    secret.write_bytes(bytes(range(32)))
    made = sign(CONTENT, secret)
    wanted = hmac.new(bytes(range(32)), DOMAIN + CONTENT, hashlib.sha256).hexdigest()
    assert (made.algorithm, made.signature, made.fingerprint) == ("hmac-sha256", wanted, None)
    assert is_valid(CONTENT, made, secret)
    assert not is_valid(CONTENT + b" ", made, secret)
    with pytest.raises(NescioError, match="--key FILE"):
        is_valid(CONTENT, made)


def test_a_secret_does_not_pass_for_a_key_nor_a_key_for_a_secret(keys, tmp_path):
    secret = tmp_path / "secret.key"
    secret.write_bytes(bytes(40))
    assert not is_valid(CONTENT, sign(CONTENT, keys[0]), secret)
    assert not is_valid(CONTENT, sign(CONTENT, secret), keys[1])


def test_what_is_not_a_key_is_refused_without_showing_it(keys, tmp_path):
    short, damaged = tmp_path / "short.key", tmp_path / "damaged.pem"
    short.write_bytes(b"password")
    damaged.write_text(keys[0].read_text().replace("MC4", "XXX"))
    for path, words in (
        (short, "8 bytes"),
        (damaged, "openssl genpkey"),
        (keys[1], "is a public key"),
        (tmp_path / "none.pem", "cannot read the key"),
    ):
        with pytest.raises(NescioError, match=words) as caught:
            sign(CONTENT, path)
        assert "password" not in str(caught.value).replace("without a password", "")


def test_without_the_package_a_pem_key_says_what_to_install(keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(NescioError, match="pip install cryptography"):
        sign(CONTENT, keys[0])
