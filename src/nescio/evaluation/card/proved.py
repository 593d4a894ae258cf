"""What an audit proved, as sentences: exact limits and bounds, not measurements."""

from collections.abc import Iterator
from typing import Any


def certificates(findings: Any) -> tuple[str, ...]:
    """Those of the far field, and of every section that has some."""
    return (*_far_field(findings), *_of_sections(findings))


def _far_field(findings: Any) -> Iterator[str]:
    """Limits of confidence along rays, computed on the linear regions of the networks."""
    for name, one in findings.predictors.items():
        far = getattr(one, "far_field", None)
        for kind, rays in ((far and far.rays) or {}).items():
            if getattr(rays, "certain", None) is None:
                continue
            yield (
                f"{name}: infinitely far away along {rays.count:,} rays ({kind}), all probability "
                f"goes to one class on {100 * rays.certain:.1f} % of them, and the mean limit of "
                f"the confidence is {rays.mean_limit_confidence:.4f}; exact for these rays, "
                "computed on the linear regions of the network in float64 with bounds on rounding."
            )


def _of_sections(findings: Any) -> Iterator[str]:
    for value in findings.sections.values():
        yield from getattr(value, "certificates", ())
