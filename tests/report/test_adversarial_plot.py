"""Pictures of adversarial examples and patches; the section of the audit and its page."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, attacks
from nescio.evaluation import adversarial_examples, patch_success
from nescio.report import audit_page
from nescio.report.plots.adversarial_plot import adversarial_images, patch_images


@pytest.fixture(scope="module")
def situation():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    x = torch.rand(80, 3, 8, 8)
    return net, x, net(x).argmax(1)


def texts(figure):
    return [axis.get_title() for axis in figure.axes]


def test_an_example_is_a_column(situation):
    net, x, y = situation
    found = adversarial_examples(net, (x, y), count=3, radius=0.2, steps=10)
    figure = adversarial_images(found, names=["cat", "dog", "fish"])
    assert len(figure.axes) == 9
    titles = texts(figure)
    names = ["cat", "dog", "fish"]
    for k, one in enumerate(found):
        assert titles[k] == f"{names[one.label]}, {100 * one.confidence:.1f} %"
        assert titles[6 + k] == f"{names[one.wrong]}, {100 * one.wrong_confidence:.1f} %"
        assert re.fullmatch(r"20 % of the range, x 2", titles[3 + k])
        shown = torch.from_numpy(figure.axes[6 + k].images[0].get_array().data)
        low, high = (float(end) for end in (min(o.x.min() for o in found),
                                            max(o.x.max() for o in found)))  # fmt: skip
        wanted = ((one.changed - low) / (high - low)).clamp(0, 1).movedim(0, -1)
        torch.testing.assert_close(shown, wanted)


def test_the_title_says_confident_where_all_are(situation):
    net, x, y = situation
    one = adversarial_examples(net, (x, y), count=1, radius=0.2, steps=10)[0]
    sure, unsure = (replace(one, wrong_confidence=value) for value in (0.9, 0.3))
    assert "confidently wrong" in adversarial_images([sure]).get_suptitle()
    assert "confidently" not in adversarial_images([sure, unsure]).get_suptitle()
    assert "140 % of the range" in texts(adversarial_images([replace(one, size=1.4)]))[1]


def test_no_image_no_picture():
    with pytest.raises(NescioError, match="image"):
        adversarial_images([])


def test_a_patch_and_its_views(situation):
    net, x, y = situation
    patch = attacks.patch(net, x, y, size=0.5, steps=20, mask="circle")
    success = patch_success(patch, net, (x, y))
    figure = patch_images(patch, net, x[:4], success=success, seed=3)
    titles = texts(figure)
    assert titles[0] == "the patch, to print"
    after = net(patch(x[:4], seed=3)).argmax(1)
    assert [int(text.split(",")[0]) for text in titles[1:]] == [*y[:4].tolist(), *after.tolist()]
    assert f"{100 * success.share.value:.0f} % of images misled" in figure.get_suptitle()


def test_the_audit_says_how_stable(situation, tmp_path):
    net, x, y = situation
    options = {"rays": 0, "attack_steps": 0, "progress": False}
    plain = nescio.audit(net, (x, y), skip=["stability"], **options)
    found = nescio.audit(net, (x, y), budget="thorough", **options)
    assert "stability" not in plain.findings.sections
    assert "How stable" not in str(plain)
    text = " ".join(str(found).split())
    assert "How stable the answers are" in text
    assert "is enough to flip half of its correct answers" in text
    assert "smallest change: 50 of 50 correct answers were flipped" in text
    assert found.to_json()["sections"]["stability"]["changes"]["norm"] == "linf"
    page = audit_page(found.findings)
    assert "hanges that make correct answers" in page
    assert 'href="data:image/png;base64,' in page
    assert "img-src data:" in page
    assert found.save(tmp_path).exists()


def test_stability_of_what_has_none():
    torch.manual_seed(0)
    x, t = torch.rand(40, 2), torch.rand(40, 1)
    numbers = nescio.audit(nn.Linear(2, 1), (x, t), also=["stability"], progress=False)
    assert "stability" not in numbers.findings.sections
    tokens = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 2))
    z = torch.randint(0, 5, (60, 3), generator=torch.Generator().manual_seed(0))
    found = nescio.audit(tokens, (z, tokens(z).argmax(1)), also=["stability"], progress=False)
    assert "the inputs are tokens" in found.findings.not_run["stability"]
