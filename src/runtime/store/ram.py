"""The states that the process itself holds, and the buffers that they are in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from runtime.llama import State
from runtime.report import Source
from runtime.store.errors import TierFull
from runtime.store.name import Name
from runtime.store.record import Logits, Record

# A buffer serves a state that fills at least this part of it. Memory that was used before is faster than new memory.
_LEAST_FILLED = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A buffer of the tier with room for `rest` bytes of logits beside it, on loan or holding a record's state."""

    buffer: State
    rest: int

    @property
    def bytes(self) -> int:
        """What the slot counts in the budget."""
        return self.buffer.nbytes + self.rest


@final
class RamTier:
    """States in the order of their last use, in buffers that are used again.

    All slots, those on loan included, and all buffers lying ready are at most `bytes_limit` bytes at any time.
    `evicted` is called with a state that has to give way, before it does; it must not use the tier.
    """

    source: Source = "ram"

    def __init__(self, bytes_limit: int, evicted: Callable[[Record], None]) -> None:
        self.bytes_limit = bytes_limit
        self._evicted = evicted
        self._held: OrderedDict[Name, tuple[Record, Slot]] = OrderedDict()
        self._spare: list[State] = []
        self._lent: list[Slot] = []

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Record]:
        """All records, the least recently used first; the tier may change meanwhile."""
        return iter([record for record, _ in self._held.values()])

    def __contains__(self, name: Name) -> bool:
        return name in self._held

    def __getitem__(self, name: Name) -> Record:
        """The record called `name`, which is the most recently used one then. Raises KeyError if there is none."""
        self._held.move_to_end(name)
        return self._held[name][0]

    @property
    def bytes(self) -> int:
        """Bytes of all slots and spare buffers."""
        slots = [*(slot for _, slot in self._held.values()), *self._lent]
        return sum(slot.bytes for slot in slots) + sum(buffer.nbytes for buffer in self._spare)

    def lend(self, size: int, rest: int) -> Slot:
        """A buffer of at least `size` bytes, whose content is arbitrary, and room for `rest` bytes of logits.

        It is on loan until `keep` or `give_back`. The least recently used states give way to it. Raises `TierFull` if
        that were not enough; then nothing has changed.
        """
        lent = sum(slot.bytes for slot in self._lent)
        if size + rest + lent > self.bytes_limit:
            raise TierFull("ram", f"no room for {size + rest} bytes in a budget of {self.bytes_limit}")
        while True:
            buffer = self._fitting(size)
            if self.bytes + rest + (size if buffer is None else 0) <= self.bytes_limit:
                break
            self._make_way(buffer)
        if buffer is None:
            buffer = np.empty(size, dtype=np.uint8)
        else:
            self._discard(buffer)
        self._lent.append(Slot(buffer, rest))
        return self._lent[-1]

    def keep(self, slot: Slot, name: Name, written: int, logits: Logits | None) -> Record:
        """Make a record of the first `written` bytes of a slot on loan. One of that name gives way to it."""
        self._lent.remove(slot)
        if name in self._held:
            self._spare.append(self._held.pop(name)[1].buffer)
        record = Record(name, slot.buffer[:written], logits)
        self._held[name] = record, slot
        return record

    def give_back(self, slot: Slot) -> None:
        """End a loan of which nothing came."""
        self._lent.remove(slot)
        self._spare.append(slot.buffer)

    def clear(self) -> None:
        """Give up everything and free the memory."""
        self._held.clear()
        self._spare.clear()
        self._lent.clear()

    def check_integrity(self, loans: int = 0) -> None:
        """Raise AssertionError unless the books are right, `loans` are open, and the budget is kept."""
        assert self.bytes <= self.bytes_limit, "too many bytes"
        assert len(self._lent) == loans, "a buffer is on loan, or was given back by nobody"
        buffers = [slot.buffer for _, slot in self._held.values()] + self._spare
        assert len({id(buffer) for buffer in buffers}) == len(buffers), "a buffer serves twice"
        for name, (record, slot) in self._held.items():
            assert record.name == name, "wrong name"
            assert np.shares_memory(record.state, slot.buffer) or not record.state.size, "a state outside its buffer"

    def _fitting(self, size: int) -> State | None:
        fitting = [buffer for buffer in self._spare if size <= buffer.nbytes and size >= _LEAST_FILLED * buffer.nbytes]
        return min(fitting, key=lambda buffer: buffer.nbytes, default=None)

    def _make_way(self, wanted: State | None) -> None:
        """Give up one thing: a spare buffer, else a state, and last of all the spare buffer that is wanted."""
        other = next((buffer for buffer in self._spare if buffer is not wanted), None)
        if other is not None:
            self._discard(other)
        elif self._held:
            name, (record, slot) = next(iter(self._held.items()))
            self._evicted(record)
            del self._held[name]
            self._spare.append(slot.buffer)
        else:
            assert wanted is not None, "nothing is left to give up"
            self._discard(wanted)

    def _discard(self, buffer: State) -> None:
        # By identity: arrays compare by element.
        self._spare = [other for other in self._spare if other is not buffer]
