"""Kinds of networks that a user brings to an audit: each gets a report, or a reason and advice."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError

FEW = {"rays": 5, "attack_steps": 2, "progress": False}
LONG = 256  # tokens


class Pooled(nn.Module):
    """Two classes of long inputs: the mean of the embeddings of the tokens, which are 0 to 9."""

    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(10, 2), nn.Linear(2, 2)
        with torch.no_grad():
            marks = torch.where(torch.arange(10) < 5, 1.0, -1.0)
            self.embedding.weight.copy_(torch.stack([marks, -marks], 1))
            self.last.weight.copy_(20 * torch.eye(2))
            self.last.bias.zero_()

    def forward(self, input_ids):
        return self.last(self.embedding(input_ids).mean(1))


class Wrapped(Pooled):
    """The same, whose logits are in an object."""

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(logits=super().forward(input_ids))


@pytest.fixture
def sentences():
    ids = torch.randint(10, (400, LONG), generator=torch.Generator().manual_seed(0))
    return ids, ((ids < 5).double().mean(1) < 0.5).long()


@pytest.fixture
def numbers():
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    return x, x.sum(1)


@pytest.mark.parametrize("kind", ["tokens", "object with logits"])
def test_classifiers_of_long_token_inputs_are_audited(sentences, kind, tmp_path):
    ids, y = sentences
    if kind == "tokens":
        audit = nescio.audit(Pooled(), sentences, **FEW)
    else:
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": y}
        audit = nescio.audit(Wrapped(), batch, **FEW)
    assert audit.results.value(subject="network", data="test", metric="accuracy") > 0.9
    assert {"noise", "attack", "far field"} <= set(audit.findings.not_run)
    assert "Not run" in str(audit)
    assert "tokens or several tensors" in audit.save(tmp_path).read_text()


def test_a_network_of_one_logit_is_audited(numbers):
    x, total = numbers
    net = nn.Linear(3, 1)
    with torch.no_grad():
        net.weight.fill_(5.0)
        net.bias.zero_()
    audit = nescio.audit(net, (x, (total > 0).long()), **FEW)
    assert audit.results.value(subject="network", data="test", metric="accuracy") == 1
    assert not {"noise", "attack", "far field"} & set(audit.findings.not_run)
    assert "network: right on" in str(audit)


@pytest.mark.parametrize(("head", "outputs"), [("fixed_variance", 1), ("gaussian", 2)])
def test_a_regression_network_is_audited(numbers, head, outputs):
    found = nescio.audit(nn.Linear(3, outputs), numbers, head=head, **FEW)
    assert found.findings.predictors["network"].head == head
    assert "90 % intervals hold" in " ".join(str(found).split())


def test_two_outputs_for_one_number_need_a_head(numbers):
    with pytest.raises(NescioError, match=r"how to read the network.*head="):
        nescio.audit(nn.Linear(3, 2), numbers, **FEW)
