"""The checkpoint store: full states in RAM, on disk and in Redis, each tier within its budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

from runtime.closing import Closing
from runtime.llama import State
from runtime.prefix import Tokens
from runtime.report import Source
from runtime.store.errors import StateRefused, TierError, TierFull
from runtime.store.identity import Identity
from runtime.store.name import Medium, Name, prefix_keys
from runtime.store.ram import RamTier, Slot
from runtime.store.record import Logits, Record
from runtime.store.tier import Tier, TierStatus

_log = logging.getLogger(__name__)


_Work = Literal["reading", "writing"]


class Match(NamedTuple):
    """A usable state of the first `n_tokens` tokens of a prompt, in the tier `source`."""

    n_tokens: int
    source: Source
    name: Name


class Refusal(NamedTuple):
    """A state of the first `n_tokens` tokens that cannot be used here, and why."""

    n_tokens: int
    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored of a prompt: the longest prefix first, of one prefix the nearest tier first.

    `refusal` is the longest state of another model or context, if it is longer than all usable ones.
    """

    matches: tuple[Match, ...]
    refusal: Refusal | None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A full state after `n_tokens` tokens, and the logits after the last of them, None if they were not saved.

    `state` lies in memory that the store uses again: it is valid until the next call of one of its methods.
    """

    n_tokens: int
    source: Source
    state: State = field(repr=False)
    logits: Logits | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How each tier is doing, the nearest first."""

    tiers: tuple[TierStatus, ...]

    @property
    def degraded(self) -> tuple[Source, ...]:
        """The tiers that failed when they were last asked."""
        return tuple(status.tier for status in self.tiers if status.problem is not None)

    def to_json(self) -> dict[str, Any]:
        """The status as plain data."""
        return {"tiers": [status.to_json() for status in self.tiers], "degraded": list(self.degraded)}


@final
class Store(Closing):
    """Full states of one model and context, kept in RAM and written to `tiers`, the nearest first.

    A state is saved to RAM. It reaches the other tiers with `flush`, or when it gives way in RAM. What is loaded from
    a tier stays in RAM. `ram_bytes` bounds all memory of the store, and so the largest state it takes.

    A tier that fails costs what it holds, never a request: that is logged, told by `status`, and it is asked again.
    Not for use by several threads at once.
    """

    def __init__(self, identity: Identity, *, ram_bytes: int, tiers: Sequence[Tier] = ()) -> None:
        self.identity = identity
        self._digest = identity.digest
        self._tiers = {tier.source: tier for tier in tiers}
        self._ram = RamTier(ram_bytes, self._evict)
        self._unwritten: dict[Name, set[Source]] = {}
        self._problems: dict[tuple[Source, _Work], str] = {}
        self.loans = 0

    @property
    def ram_bytes(self) -> int:
        """What the RAM tier may hold: no state is larger."""
        return self._ram.bytes_limit

    def name(self, tokens: Sequence[int] | Tokens, media: Sequence[Medium] = ()) -> Name:
        """What the state after all of `tokens` is called. Raises ValueError where none can be."""
        key = prefix_keys(tokens, [len(tokens)], media).get(len(tokens))
        if key is None:
            raise ValueError(f"no state can be stored after {len(tokens)} tokens")
        return Name(self._digest, len(tokens), key)

    def find(
        self, tokens: Sequence[int] | Tokens, media: Sequence[Medium] = (), *, at_most: int | None = None
    ) -> Found:
        """What is stored of the prompt `tokens` with `media`, up to `at_most` tokens. Loads no state."""
        listed = [(record.name, self._ram.source) for record in self._ram]
        for tier in self._tiers.values():
            listed += [(name, tier.source) for name in self._names(tier)]
        longest = len(tokens) if at_most is None else at_most
        keys = prefix_keys(tokens, {name.n_tokens for name, _ in listed if name.n_tokens <= longest}, media)
        known = [(name, source) for name, source in listed if keys.get(name.n_tokens) == name.key]
        # Sorting keeps the order of the tiers.
        known.sort(key=lambda found: found[0].n_tokens, reverse=True)
        matches = tuple(Match(name.n_tokens, source, name) for name, source in known if name.identity == self._digest)
        other = next((found for found in known if found[0].identity != self._digest), None)
        if other is None or (matches and other[0].n_tokens <= matches[0].n_tokens):
            return Found(matches, None)
        return Found(matches, self._refusal(*other))

    def size(self, match: Match) -> int:
        """Bytes to be read to load it. Raises `StateRefused` and `TierError`."""
        if match.name in self._ram:
            return self._ram[match.name].size
        with self._watched(match.source, "reading"):
            return self._tiers[match.source].head(match.name).size

    def has(self, tokens: Sequence[int] | Tokens, media: Sequence[Medium] = (), *, logits: bool = False) -> bool:
        """Whether the state after all of `tokens` is in some tier; if that is RAM, with its `logits` if so asked."""
        name = self.name(tokens, media)
        if name in self._ram:
            return not logits or self._ram[name].logits is not None
        return any(name in self._names(tier) for tier in self._tiers.values())

    def load(self, match: Match) -> Entry:
        """The state that `find` found. Others may give way to it. Raises `StateRefused` and `TierError`."""
        if match.name in self._ram:
            record = self._ram[match.name]
            return Entry(match.n_tokens, self._ram.source, record.state, record.logits)
        lent: list[Slot] = []

        def take(size: int, rest: int) -> State:
            lent.append(self._ram.lend(size, rest))
            return lent[0].buffer

        try:
            with self._watched(match.source, "reading"):
                if match.source not in self._tiers:
                    raise StateRefused(str(match.name), "it has given way to another")
                record = self._tiers[match.source].load(match.name, take)
        except BaseException:
            for slot in lent:
                self._ram.give_back(slot)
            raise
        record = self._ram.keep(lent[0], match.name, record.state.size, record.logits)
        return Entry(match.n_tokens, match.source, record.state, record.logits)

    def longest(
        self, tokens: Sequence[int] | Tokens, media: Sequence[Medium] = (), *, at_most: int | None = None
    ) -> Entry | None:
        """The state of the longest prefix that can be had; what proves unusable is passed over."""
        for match in self.find(tokens, media, at_most=at_most).matches:
            with suppress(StateRefused, TierError):
                return self.load(match)
        return None

    def save(
        self,
        tokens: Sequence[int] | Tokens,
        size: int,
        write: Callable[[State], int],
        *,
        logits: Logits | None = None,
        media: Sequence[Medium] = (),
    ) -> bool:
        """Keep the full state after all of `tokens`, which `write` puts into a buffer of `size` bytes; it returns how
        many it wrote. `logits` follow the last token and are copied.

        Others give way before `write` is called. False if the same state is in RAM already. Raises `TierFull` if
        `size` is more than the RAM tier may hold, ValueError for no tokens and for a state inside media, and what
        `write` raises.
        """
        name = self.name(tokens, media)
        if name in self._ram and (logits is None or self._ram[name].logits is not None):
            return False
        slot = self._ram.lend(size, 0 if logits is None else logits.nbytes)
        try:
            written = write(slot.buffer[:size])
        except BaseException:
            self._ram.give_back(slot)
            raise
        self._ram.keep(slot, name, written, None if logits is None else logits.copy())
        self._unwritten[name] = set(self._tiers)
        return True

    def borrow(self, size: int) -> Slot:
        """Memory of the RAM tier for something else, until `give_back`; states give way to it. Raises `TierFull`."""
        slot = self._ram.lend(size, 0)
        self.loans += 1
        return slot

    def give_back(self, slot: Slot) -> None:
        """End a loan."""
        self._ram.give_back(slot)
        self.loans -= 1

    def flush(self) -> None:
        """Write what is only in RAM to the other tiers: what they take survives the process from then on."""
        for _ in self.flushing():
            pass

    def flushing(self) -> Iterator[None]:
        """`flush` in steps of one state, for who has better to do; each is tried once."""
        for record in self._ram:
            if record.name in self._unwritten:
                self._write(record)
                yield

    def status(self) -> StoreStatus:
        """How each tier is doing. A tier in another process or machine is asked."""
        ram = TierStatus(self._ram.source, len(self._ram), self._ram.bytes, self._ram.bytes_limit, None)
        return StoreStatus((ram, *(tier.status() for tier in self._tiers.values())))

    def check_integrity(self) -> None:
        """Raise AssertionError unless the books are right and every tier keeps its budget."""
        self._ram.check_integrity(self.loans)
        assert all(name in self._ram for name in self._unwritten), "a state to be written is gone"
        for status in self.status().tiers:
            assert status.bytes is None or status.bytes <= status.bytes_limit, f"too many bytes in {status.tier}"

    def close(self) -> None:
        """Flush, and free everything. Closing twice is fine."""
        self.flush()
        self._unwritten.clear()
        self._ram.clear()
        self.loans = 0
        for tier in self._tiers.values():
            tier.close()

    def _names(self, tier: Tier) -> Iterable[Name]:
        with suppress(TierError), self._watched(tier.source, "reading"):
            return tier.names()
        return ()

    def _refusal(self, name: Name, source: Source) -> Refusal | None:
        with suppress(TierError), self._watched(source, "reading"):
            try:
                reason = self.identity.difference(self._tiers[source].head(name).identity)
            except StateRefused as refused:
                reason = refused.reason
            return Refusal(name.n_tokens, source, reason or "it lies about its identity")
        return None

    def _evict(self, record: Record) -> None:
        self._write(record)
        if self._unwritten.pop(record.name, None):
            _log.info("a state gave way and no tier took it", extra={"state": str(record.name)})

    def _write(self, record: Record) -> None:
        waiting = self._unwritten.get(record.name, set())
        for source in sorted(waiting):
            try:
                with self._watched(source, "writing"):
                    self._tiers[source].put(record, self.identity)
            except TierFull as error:
                about = {"tier": source, "state": str(record.name), "reason": error.reason}
                _log.info("a state is not written: %s", error, extra=about)
            except TierError:
                continue
            waiting.discard(source)
        if not waiting:
            self._unwritten.pop(record.name, None)

    @contextmanager
    def _watched(self, source: Source, work: _Work) -> Iterator[None]:
        """Log when a tier begins to fail at its work and when it succeeds again: a full disk can still be read."""
        about = {"tier": source, "work": work}
        try:
            yield
        except TierError as error:
            if error.tier == source and self._problems.get((source, work)) != error.reason:
                self._problems[source, work] = error.reason
                _log.warning(
                    "%s fails at %s states: %s", source, work, error.reason, extra={**about, "reason": error.reason}
                )
            raise
        if self._problems.pop((source, work), None) is not None:
            _log.warning("%s is %s states again", source, work, extra=about)
