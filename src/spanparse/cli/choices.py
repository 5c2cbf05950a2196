"""Options whose value is one of a few names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from spanparse.errors import SpanparseError

if TYPE_CHECKING:
    from planner import PolicyName

_Name = TypeVar("_Name", bound=str)


def chosen(name: str, names: Sequence[_Name], option: str, what: str) -> _Name:
    """The one of `names` that was given; raises `SpanparseError` listing them all."""
    for known in names:
        if known == name:
            return known
    raise SpanparseError(f"{option}: no {what} {name} ({', '.join(names)})")


def known_policy(name: str) -> PolicyName:
    """The placement policy of that name."""
    from planner import POLICIES

    return chosen(name, POLICIES, "--policy", "policy")
