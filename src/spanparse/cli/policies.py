"""The placement policies by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spanparse.errors import SpanparseError

if TYPE_CHECKING:
    from planner import PolicyName


def known_policy(name: str) -> PolicyName:
    """The policy of that name; raises `SpanparseError` listing all of them."""
    from planner import POLICIES

    for policy in POLICIES:
        if policy == name:
            return policy
    raise SpanparseError(f"--policy: no policy {name} ({', '.join(POLICIES)})")
