"""Full states that outlive a conversation's turn: in RAM, on disk and in Redis, each within a budget of bytes.

`RedisTier` needs the [redis] extra and is imported from `runtime.store.remote`.
"""

from __future__ import annotations

from runtime.store.disk import DiskTier
from runtime.store.errors import StateRefused, TierError, TierFull
from runtime.store.identity import FORMAT_VERSION, Identity, identify
from runtime.store.name import Medium, Name
from runtime.store.options import StoreOptions
from runtime.store.tier import Tier, TierStatus
from runtime.store.tiers import Entry, Found, Match, Refusal, Store, StoreStatus

__all__ = [
    "FORMAT_VERSION",
    "DiskTier",
    "Entry",
    "Found",
    "Identity",
    "Match",
    "Medium",
    "Name",
    "Refusal",
    "StateRefused",
    "Store",
    "StoreOptions",
    "StoreStatus",
    "Tier",
    "TierError",
    "TierFull",
    "TierStatus",
    "identify",
]
