"""How a refused loop policy is reported (language reference, part 3, section 10.1)."""

from __future__ import annotations

from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import LoomError, Related, fail


def refuse(loop: Op, name: str, value: object, expected: str, related: tuple[Related, ...] = ()) -> LoomError:
    """STRUCTURE/014 at the loop that asked. ``value`` is the depth or factor, 0 when it is not known."""
    return fail(
        "STRUCTURE/014",
        f"{name} of this loop: {expected}",
        loop.loc,
        related=related,
        emitter="loop-policies",
        attr_name=name,
        actual_value=value,
        expected_constraint=expected,
    )


def require_carried_out(loop: Any, before: str) -> None:
    """Raise at a loop that still has a policy, which must be gone before something that would lose it."""
    policies = {"pipeline": loop.pipeline_depth, "unroll_factor": loop.unroll_factor, "unroll": loop.unroll_policy}
    for name, policy in policies.items():
        if policy is not None:
            raise refuse(loop, name, 0, f"the policy must be carried out before {before}")
