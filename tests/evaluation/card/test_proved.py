"""What an audit proved, as sentences of a card."""

from types import SimpleNamespace

from nescio.evaluation.card.proved import certificates
from nescio.evaluation.stability import LipschitzFindings, Stability


def stability(proved):
    lipschitz = LipschitzFindings(
        norm="linf", members=1, local=(2.0,), product=9.0, sampled=1.0, proved=proved
    )
    return Stability(norm="linf", images=False, lipschitz=lipschitz)


def test_sections_and_rays_give_what_they_proved():
    rays = SimpleNamespace(count=200, certain=0.985, mean_limit_confidence=0.99871)
    far = SimpleNamespace(rays={"random directions": rays})
    found = SimpleNamespace(
        predictors={
            "net": SimpleNamespace(far_field=far),
            "other": SimpleNamespace(far_field=None),
        },
        sections={"stability": stability((0.0199, 0.5)), "slices": object()},
    )
    limit, radius = certificates(found)
    assert "98.5 % of them" in limit
    assert "below 0.019 of their range" in radius  # rounded down, so that it is still proved
    assert "any of 2 test samples" in radius


def test_nothing_is_claimed_where_nothing_is_proved():
    assert stability(None).certificates == ()
    assert Stability(norm="l2", images=False).certificates == ()
