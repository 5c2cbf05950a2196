"""What the tiers of the store raise; the store itself turns it into status and log lines.

RunError
├── StateRefused  a stored state is damaged, of another model or gone
└── TierError     a tier cannot take or give anything now
    └── TierFull  … because there is no room for it
"""

from __future__ import annotations

from runtime.errors import RunError


class StateRefused(RunError):
    """The stored state `name` is not used; `reason` says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"stored state {name}: {reason}")
        self.name = name
        self.reason = reason


class TierError(RunError):
    """The tier called `tier` failed at what it was asked for."""

    def __init__(self, tier: str, reason: str) -> None:
        super().__init__(f"{tier}: {reason}")
        self.tier = tier
        self.reason = reason


class TierFull(TierError):
    """A state does not fit the tier's budget, or what its medium has left. What was there is untouched."""
