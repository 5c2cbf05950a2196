"""Which tiers a store has, as a user says it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

from runtime.store.disk import DiskTier
from runtime.store.identity import identify
from runtime.store.tier import Tier
from runtime.store.tiers import Store


@final
@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where states are kept beside the memory, and how many bytes of them.

    `ram_bytes`: in the process; it bounds the largest state. `disk`: a directory, `disk_bytes` in it. `redis`: the URL
    of a server, `redis_bytes` in it; that needs the [redis] extra. Memory is taken when there are states to hold.
    Raises ValueError for a budget below 1 byte and an empty name.
    """

    ram_bytes: int = 1 << 30
    disk: str | os.PathLike[str] | None = None
    disk_bytes: int = 10 << 30
    redis: str | None = None
    redis_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        for name in ("ram_bytes", "disk_bytes", "redis_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("disk", "redis"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} must not be empty")

    def open(self, model: str | os.PathLike[str], *, n_ctx: int, exact: bool) -> Store:
        """The store for a model and a context.

        Raises `TierError` for a directory that cannot be used and an URL that is none, and `MissingExtra`. A server
        that does not answer is no error.
        """
        tiers: list[Tier] = []
        if self.disk is not None:
            tiers.append(DiskTier(self.disk, bytes_limit=self.disk_bytes))
        if self.redis is not None:
            from runtime.store.remote import RedisTier

            tiers.append(RedisTier(self.redis, bytes_limit=self.redis_bytes))
        return Store(identify(model, n_ctx_seq=n_ctx, exact=exact), ram_bytes=self.ram_bytes, tiers=tiers)
