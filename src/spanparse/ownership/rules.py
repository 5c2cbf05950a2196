"""The rules that say whose the template's own text is, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from spanparse.ownership import borders, shared
from spanparse.ownership.chunks import MOST_WRITTEN
from spanparse.ownership.moves import Doubt, Found, Move, Stretch
from spanparse.ownership.segments import PREAMBLE, Segment


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, what it says in one sentence, a template that shows it, and what it moves in a stretch."""

    id: str
    sentence: str
    example: str
    find: Callable[[Stretch], Found]

    def __str__(self) -> str:
        """As the guide has it."""
        example = self.example.replace("\n", "\\n")
        return f"- **{self.id}**: {self.sentence}\n  `{example}`\n"


RULES: Final = (
    Rule(
        "foreign-role",
        "A role that stands inside another message's words is nobody's for sure: what is written around it may "
        "be either's.",
        "{% for m in messages %}{{ m.content }}{% if not loop.last %}<|{{ loop.nextitem.role }}|>{% endif %}{% "
        "endfor %}",
        shared.foreign_roles,
    ),
    Rule(
        "beginning",
        "What the prompt opens with is the preamble's: the caller's `bos_token`, or markers with which all "
        "prompts of the template open and no message does.",
        "<s>{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
        borders.beginnings,
    ),
    Rule(
        "lent-name",
        "A name or an id belongs to the message inside whose text it stands, with the words around one that an "
        "earlier message has shown.",
        "{% for m in messages %}{% if m.role == 'assistant' %}[{{ messages[0].name }}] {% endif %}{{ m.content "
        "}}</s>{% endfor %}",
        shared.lent_names,
    ),
    Rule(
        "joint",
        "White space between two texts that is written while the loop holds a message behind both belongs to "
        "the second.",
        "{% for m in messages %}{% if loop.index0 == 2 %}{{ messages[0].content }}\n\n{{ messages[1].content }}</s>"
        "{{ m.content }}{% endif %}{% endfor %}",
        shared.joints,
    ),
    Rule(
        "shared-header",
        "The header of a turn belongs to the first message rendered in it, and so do tools in the header or "
        "behind that message's text.",
        "{% for m in messages[1:] %}[INST] {% if loop.first %}{{ messages[0].content }}\n\n{% endif %}{{ "
        "m.content }} [/INST]{% endfor %}",
        shared.shared_headers,
    ),
    Rule(
        "first-header",
        "The first message begins with what stands in front of each message of its role; a turn in front of "
        "that, such as a default system text, is the preamble's.",
        "{% for m in messages %}{% if loop.first %}<|system|>Be kind.<|end|>{% endif %}<|{{ m.role }}|>{{ "
        "m.content }}<|end|>{% endfor %}",
        borders.first_headers,
    ),
    Rule(
        "closing-head",
        "What closes a message is that message's though the next one's iteration writes it: it stands in front "
        "of no first message, ends the prompt too, or ends other turns.",
        "{% for m in messages %}{% if not loop.first %}<END>{% endif %}<|begin|>{{ m.role }}\n{{ m.content "
        "}}{% endfor %}",
        borders.closing_heads,
    ),
    Rule(
        "shared-middle",
        "Between two messages of a shared turn, what closes something by its form is the first one's; whose "
        "another marker is, is not clear.",
        "{% for m in messages[1:] %}[INST] {% if loop.first %}<<SYS>>{{ messages[0].content }}<</SYS>>{% endif "
        "%}{{ m.content }} [/INST]{% endfor %}",
        shared.shared_middles,
    ),
    Rule(
        "outside",
        "Text outside of loops belongs to the message that it follows, if the next one has a lead of its own; "
        "from the last marker on that opens turns, to the next one. Tools in it that stand in front of later "
        "messages are the next one's.",
        "<|system|>{{ messages[0].content }}<|end|>\n{% for m in messages[1:] %}<|{{ m.role }}|>{{ m.content "
        "}}<|end|>\n{% endfor %}",
        borders.outside,
    ),
    Rule(
        "shared-end",
        "What closes a turn belongs to the last message rendered in it.",
        "{% for m in messages %}{% if loop.index0 == 1 %}<|tool|>[{{ m.content }}, {{ messages[2].content "
        "}}]<|end|>{% elif loop.index0 != 2 %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}",
        shared.shared_ends,
    ),
    Rule(
        "introduction",
        "A message without a lead of its own is introduced by what stands behind the end of the turn before, "
        "if that ends other turns as well.",
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|sep|><|assistant|>{% else "
        "%}{{ m.content }}<|sep|>{% endif %}{% endfor %}",
        borders.introductions,
    ),
    Rule(
        "opening",
        "A message without a lead of its own is introduced by a marker with which messages of other roles begin.",
        "{% for m in messages %}{% if m.role == 'user' %}<|turn|>user\n{{ m.content }}<|turn|>model\n{% else "
        "%}{{ m.content }}{% endif %}{% endfor %}",
        borders.openings,
    ),
    Rule(
        "render",
        "Words outside of loops are the message's in front as far as they stand there without the message behind them.",
        "Q: {{ messages[0].content }}. {% if messages | length > 1 %}A: {{ messages[1].content }}{% endif %}",
        borders.renders,
    ),
    Rule(
        "name",
        "Where renders leave two answers, what names the next message's role introduces it, and what closes "
        "something by its form or name ends the message before.",
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}{{ m.content "
        "}}</s>{% endif %}{% endfor %}",
        borders.names,
    ),
    Rule(
        "unclear",
        "What no rule decides stays with the message that it was written for, or follows, and neither message "
        "is exact.",
        "{% for m in messages %}{% if m.role == 'user' %}<x1>{{ m.content }}<x2>{% else %}{{ m.content "
        "}}<x3>{% endif %}{% endfor %}",
        borders.doubts,
    ),
)
"""All of them. What text says itself comes first: a field's is its message's, and so is what a template writes while a
loop holds that; what `add_generation_prompt` adds is the generation prompt."""


def settled(stretch: Stretch) -> tuple[Stretch, set[int]]:
    """The stretch with an owner for each segment, and the messages whose border with a neighbour no rule decides."""
    written = sum(s.end - s.start for s in stretch.segments if s.origin.literal)
    # No template writes so much between two messages, and rules would take a time that no limit holds.
    is_long = written > MOST_WRITTEN
    unclear = {s.owner for s in stretch.segments if is_long and s.owner is not None and s.owner >= 0}
    for rule in () if is_long else RULES:
        found = [*rule.find(stretch)]
        unclear.update(index for doubt in found if isinstance(doubt, Doubt) for index in doubt.messages)
        moves = [move for move in found if isinstance(move, Move)]
        if moves:
            stretch = stretch.applied(moves, rule.id)
    segments: list[Segment] = []
    for segment in stretch.segments:
        # A text of nobody's without characters goes with what it follows.
        known = segment.owner is not None
        segments.append(segment if known else replace(segment, owner=segments[-1].owner if segments else PREAMBLE))
    return replace(stretch, segments=segments), unclear


def guide() -> str:
    """The rules as a list in Markdown, which docs/developing.md holds."""
    return "".join(map(str, RULES))
