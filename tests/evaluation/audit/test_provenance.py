"""What was audited, by digests: of contents, not of files; one bit changes them."""

import hashlib

import torch

from nescio import models, nets
from nescio.core import Bundle
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.provenance import provenance_section, sha256
from nescio.evaluation.audit.sections import Material


def material(net, x, y):
    held = Held((x, y), (x, y), torch.arange(len(x)), True)
    predictors = {"one": models.plain(net), "dropout": models.mc_dropout(net, passes=3)}
    first = predictors["one"]
    seen = None
    return Material(predictor=first, predictors=predictors, net=net, x=x, y=y, held=held, seen=seen)


def test_the_digest_is_sha256_of_type_shape_and_bytes():
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    wanted = hashlib.sha256(b"torch.float32(2, 3)" + x.numpy().tobytes()).hexdigest()
    assert sha256([x]) == wanted
    assert sha256([x.T.contiguous().T]) == wanted
    assert sha256([x, None]) == wanted
    assert sha256([x.flatten()]) != wanted
    assert sha256([Bundle({"b": x, "a": x})]) == sha256(["a", x, "b", x])
    assert sha256([torch.zeros(0, 3)]) != sha256([torch.zeros(0, 4)])


def test_one_bit_of_the_weights_or_the_data_changes_its_digest():
    torch.manual_seed(0)
    net, x, y = nets.mlp(3, 2, dropout=0.1), torch.randn(20, 3), torch.arange(20) % 2
    before = provenance_section(material(net, x, y))
    assert before == provenance_section(material(net, x.clone(), y.clone()))
    assert before.weights["one"] == before.weights["dropout"]  # one network, however often it runs
    with torch.no_grad():
        first = next(net.parameters())
        first.view(-1)[0] = torch.nextafter(first.view(-1)[0], torch.tensor(torch.inf))
    after = provenance_section(material(net, x, y))
    assert after.weights != before.weights
    assert after.guarded != before.guarded
    assert after.data == before.data
    other = provenance_section(material(net, x, 1 - y))
    assert other.data["test data"] != after.data["test data"]
