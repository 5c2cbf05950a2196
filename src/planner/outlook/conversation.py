"""A conversation as its last prompt left it, and the places where its next prompt may part from that."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import log2
from typing import Literal, final

from planner.offsets import Candidate
from planner.outlook.habits import ANCHORED, SHIFTS, Habit, Habits, Lineage

Standing = Literal["new", "varied", "fresh", "second", "regular", "left"]
"""What kind of conversation it is. new: its first prompt shares next to nothing with others; varied: it parts from them
inside the system text; fresh: after it. second, regular: it went on once, more often. left: another prompt parted from
it before its end."""

_STARTS = ("user_start", "assistant_start", "tool_start", "system_start", "developer_start", "system_end")

_EVENLY = 12
"""Offsets that stand for all that follows the system text."""

_NEAREST = 16
"""Tokens from the end where the first of the doubling distances begins."""

_MOST_MESSAGES = 64
"""Messages, the last, that are told apart."""

_NEAR_END = 4


@final
class Conversation:
    """`prompt`: the number of its last prompt. `last`: the request that met it last; `shares` at which it does next."""

    __slots__ = (
        "anchors",
        "last",
        "last_habit",
        "length",
        "lineage",
        "masses",
        "messages",
        "offsets",
        "prompt",
        "standing",
        "starts",
        "sums",
        "system_end",
        "worth",
    )  # fmt: skip

    def __init__(
        self,
        prompt: int,
        length: int,
        candidates: Sequence[Candidate],
        standing: Standing,
        lineage: Lineage,
        last_habit: Habit | None,
    ) -> None:
        self.prompt, self.length, self.standing, self.lineage = prompt, length, standing, lineage
        self.last = prompt
        self.last_habit = last_habit
        self.worth = 0.0
        inside = [c for c in candidates if 0 < c.offset <= length]
        starts = sorted((c.offset, c.kind) for c in inside if c.kind in _STARTS)
        self.starts = starts
        self.system_end = max((c.offset for c in inside if c.kind == "system_end"), default=0)
        answer = max((c.offset for c in inside if c.kind == "generation_prompt"), default=max(1, length - _NEAR_END))
        user = max((offset for offset, kind in starts if kind in ("user_start", "system_end")), default=0)
        rewrite = min((c.offset for c in inside if c.offset > user), default=answer)
        self.messages = sorted({*(offset for offset, _ in starts if offset >= self.system_end), answer})
        late = self.messages[: -_MOST_MESSAGES - 1 : -1]
        ranks = [1 / rank for rank in range(1, len(late) + 1)]
        depths = [late[depth] for depth in lineage.depths if depth < len(late)]
        following: list[int] = []
        if lineage.parted is not None:
            parted, kind = lineage.parted
            following = [offset for offset, k in starts if offset > parted and k == kind][:3]
        self.anchors: dict[Habit, list[tuple[int, float]]] = {
            "end": [(length, 1.0)],
            "answer": [(answer, 1.0)],
            "user": [(user, 1.0)],
            "rewrite": [(rewrite, 1.0)],
            "message": [(offset, rank / sum(ranks)) for offset, rank in zip(late, ranks, strict=True)],
            "depth": [(offset, 1 / len(depths)) for offset in depths],
            "next": list(zip(following, (0.6, 0.3, 0.1), strict=False)),
        }
        self.offsets: list[int] = []
        self.masses: list[float] = []
        self.sums: list[float] = [0.0]

    @property
    def answer(self) -> int:
        """Where its generation prompt begins."""
        return self.anchors["answer"][0][0]

    def possible(self) -> list[Habit]:
        """The habits that it can show."""
        return [*(habit for habit in ANCHORED if self.anchors[habit]), "anywhere", "distance"]

    def expect(self, habits: Habits) -> None:
        """Work out where the next prompt parts: `offsets`, how probably each, and the `sums` of that."""
        shares = habits.shares(self.last_habit, self.possible(), self.lineage)
        found: dict[int, float] = {}
        for habit in ANCHORED:
            sign = -1 if habit == "end" else 1
            for shift, probability in habits.shifts(habit):
                for offset, share in self.anchors[habit]:
                    at = offset + sign * shift
                    if 0 < at <= self.length:
                        found[at] = found.get(at, 0.0) + shares[habit] * share * probability
        far = [self.length - (_NEAREST << n) * 3 // 2 for n in range(self.length.bit_length())]
        far = [offset for offset in far if offset > self.system_end]
        span = self.length - self.system_end
        even = [self.system_end + span * part // _EVENLY for part in range(1, _EVENLY + 1)]
        for offsets, share in ((even, shares["anywhere"]), (far, shares["distance"])):
            for offset in offsets:
                if offset > 0:
                    found[offset] = found.get(offset, 0.0) + share / len(offsets)
        self.offsets = sorted(found)
        self.masses = [found[offset] for offset in self.offsets]
        self.sums = [0.0, *accumulate(self.masses)]

    def between(self, begin: int, end: int) -> float:
        """Probability that the next prompt, if one comes, parts at `begin` … `end` - 1."""
        return self.sums[bisect_left(self.offsets, end)] - self.sums[bisect_left(self.offsets, begin)]

    def explanations(self, habits: Habits, parted: int) -> list[tuple[Habit, int | None, float]]:
        """By which habit, and how far off its place, a prompt parts after `parted` tokens, and how probable that is."""
        shares = habits.shares(self.last_habit, self.possible(), self.lineage)
        found: list[tuple[Habit, int | None, float]] = []
        for habit in ANCHORED:
            for offset, share in self.anchors[habit]:
                shift = offset - parted if habit == "end" else parted - offset
                if 0 <= shift < SHIFTS:
                    found.append((habit, shift, shares[habit] * share * habits.shift(habit, shift)))
        if parted >= self.system_end:
            found.append(("anywhere", None, shares["anywhere"] / max(1, self.length - self.system_end)))
        octaves = max(1.0, log2(max(2.0, self.length / _NEAREST)))
        distance = max(_NEAREST, self.length - parted)
        found.append(("distance", None, shares["distance"] / octaves / distance))
        return found

    def depth_of(self, offset: int) -> int:
        """How many messages begin after an offset."""
        return len(self.messages) - bisect_right(self.messages, offset)

    def message_at(self, offset: int) -> str | None:
        """What kind of message an offset lies in."""
        index = bisect_right(self.starts, (offset, "~")) - 1
        return self.starts[index][1] if index >= 0 else None
