"""What a template writes around messages, learned from a few small conversations that it renders itself.

A marker's name says nothing about what it does; where it stands does. What is learned depends on the template and its
settings alone, never on the conversation that is parsed: so a text keeps its owner when the conversation goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from spanparse.marks.marked import Runs
from spanparse.ownership.chunks import MOST_WRITTEN, begins_with, chunks, common_end, is_blank, is_marker
from spanparse.ownership.segments import is_field
from spanparse.spans import LEADING_ROLES

# Which role's message comes next as a rule; "call" is an assistant's that calls a tool.
_NEXT: Final = {"system": "user", "developer": "user", "user": "assistant", "assistant": "user", "tool": "assistant"}


class Sample(NamedTuple):
    """The template's text between what two messages of a probe say: roles, or None at an end of the prompt.

    `tail` is written while the loop holds the first, `head` while it holds the second, `gap` outside of all loops.
    """

    before: str | None
    after: str | None
    tail: str
    gap: str
    head: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What a template's probes have taught.

    `leads` are the texts that always stand in front of what a role says, whatever comes before, `openers` what they
    begin with. `closers` end a turn: the next message has a lead of its own behind them. `heads` close the message
    before although the next one's iteration writes them, `ends` what is written behind a role's message when it is the
    last. `leading` are the roles whose messages begin with a text of their own at least somewhere. `beginning` opens
    each prompt and nothing else; None if no probe shows more than one message. `later` are the markers in front of
    messages that are not the first, `block` is what tools begin with that stand in front of such. `bare` stands between
    a system text and a question where there are no tools. `starts` are the openers, and what calls and results begin
    with.
    """

    leads: Mapping[str, str] = field(default_factory=dict)
    openers: frozenset[str] = frozenset()
    closers: frozenset[str] = frozenset()
    heads: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)
    leading: frozenset[str] = frozenset()
    beginning: str | None = None
    later: frozenset[str] = frozenset()
    block: str = ""
    bare: str = ""
    starts: frozenset[str] = frozenset()


def samples_of(text: str, runs: Runs, owners: Sequence[int | None], roles: Sequence[str]) -> list[Sample]:
    """The samples in a probe's prompt, whose `runs` have `owners`; what a third message reaches into is left out."""
    places = [None, *(place for place, run in enumerate(runs) if is_field(run)), None]
    found = []
    for first, last in pairwise(places):
        before = None if first is None else owners[first]
        after = None if last is None else owners[last]
        if before == after or (before is not None and before < 0) or (after is not None and after < 0):
            continue
        texts = ["", "", ""]
        stage = 0
        for place in range(0 if first is None else first + 1, len(runs) if last is None else last):
            owner = owners[place]
            start, end, origin, _ = runs[place]
            # Tools are part of what they stand in.
            of_tools = origin.path[:1] == ("tools",) and owner is None
            now = (stage or 1) if owner is None and (stage < 2 or of_tools) else 0 if owner == before else 2
            if now < stage or owner not in (before, after, None) or (owner is None and stage == 2 and not of_tools):
                break
            stage = now
            texts[stage] += "\0" * (end - start) if of_tools else text[start:end]
        else:
            if sum(map(len, texts)) > MOST_WRITTEN:
                continue
            role, other = (None if owner is None else roles[owner] for owner in (before, after))
            found.append(Sample(role, other, *texts))
    if "tool" in roles:
        # The name of what was called may stand in front of the result.
        own = next((run for run, owner in zip(runs, owners, strict=True) if owner == roles.index("tool")), None)
        if own is not None and own.origin.literal:
            found.append(Sample("call", "tool", "", "", text[own.start : own.end]))
    return found


def learn(probes: Iterable[Sequence[Sample]], generation: str, bare: str) -> Profile:
    """The profile of a template, given each probe's samples, the generation prompt that it adds to one, and `bare`."""
    samples = [sample for probe in probes for sample in probe]
    heads = _heads(samples)
    leads = {role: _lead(samples, role, heads) for role in {s.after for s in samples if s.after is not None}}
    known = {role: lead for role, lead in leads.items() if lead is not None}
    closers = {s.tail.strip() for s in samples if _closes(s, samples)} | {head.strip() for head in heads}
    tails = [{s.tail.strip() for s in samples if s.before == role and s.after} for role in ("user", "assistant")]
    closers |= tails[0] & tails[1]  # what introduces a message does not stand behind both
    ends = {**_closed_late(samples, known), **_ends(samples)}
    closers |= {_first_markers(end) for end in ends.values()}
    closers -= {""}
    prompt = _opener(_behind(generation, heads))
    openers = {_opener(lead) for lead in known.values()} | {prompt}
    openers |= {_opener(rest) for s in samples if s.after and (rest := _introduction(s, closers))}
    openers |= {opener for s in samples for opener in _beside_roles(s.tail + s.gap + s.head)}
    openers -= {"", *closers}
    leading = {s.after for s in samples if s.after and _leads(s, prompt)}
    begun = [s for s in samples if s.before and (s.after == "call" or (s.before, s.after) == ("call", "tool"))]
    starts = frozenset(openers | {_opener(s.head) for s in begun} - {"", *closers})
    first = [s for s in samples if s.before is None and s.after is not None]
    behind = [s.gap + s.head for s in samples if s.before is not None and s.after is not None]
    later = frozenset(chunk for text in behind for chunk in chunks(text) if is_marker(chunk))
    beginning = (
        _beginning(first, known, later | openers) if first and any(not is_blank(text) for text in behind) else None
    )
    return Profile(
        known,
        frozenset(openers),
        frozenset(closers),
        heads,
        ends,
        frozenset(leading),
        beginning,
        later,
        _block(samples),
        bare,
        starts,
    )


def _heads(samples: Sequence[Sample]) -> frozenset[str]:
    """What all messages but the first of a role begin with in front of its lead, if nothing else ends those before."""
    found = set()
    for role in {s.after for s in samples if s.after is not None}:
        later = [s.head for s in _apart(samples, role) if s.before is not None and is_blank(s.tail + s.gap)]
        first = [s.gap + s.head for s in samples if s.after == role and s.before is None]
        lead = common_end([*later, *first])
        rests = {head[: len(head) - len(lead)] for head in later}
        rest = next(iter(rests), "")
        if len(later) < 2 or not first or len(rests) > 1 or is_blank(rest) or is_blank(lead):
            continue
        # A first message has that in front of it where a default turn is closed so.
        if not any(text[: len(text) - len(lead)].strip() == rest.strip() for text in first):
            found.add(rest)
    return frozenset(found | _ends_of_all(samples))


def _ends_of_all(samples: Sequence[Sample]) -> set[str]:
    """What each prompt ends with, whoever spoke last, if all messages but the first begin with it."""
    ends = {(s.tail + s.gap).strip() for s in samples if s.before and s.after is None}
    later = [s for s in samples if s.before and s.after and is_blank(s.tail + s.gap)]
    end = min(ends, default="")
    closes = len({s.after for s in later}) > 1 and all(
        begins_with(s.head.lstrip(), end) and s.head.strip() != end for s in later
    )
    return {end} if len(ends) == 1 and closes else set()


def _ends(samples: Sequence[Sample]) -> dict[str, str]:
    """What stands behind the last message of a role, written outside of loops, but for what introduces an answer.

    That stands behind a question as well, which some templates write without being asked.
    """
    last = {s.before: s.tail + s.gap for s in samples if s.before and s.after is None}
    found = {s.before: s.gap for s in samples if s.before and s.after is None and s.before != "user"}
    ends = {role: gap[: len(gap) - len(common_end([gap, last.get("user", "")]))] for role, gap in found.items()}
    return {role: end.rstrip() for role, end in ends.items() if not is_blank(end)}


def _closed_late(samples: Sequence[Sample], leads: Mapping[str, str]) -> dict[str, str]:
    """What stands in front of the lead of each message behind one role's, and of none behind another's."""
    found: dict[str, set[str]] = {}
    apart: set[str] = set()
    for before, after, _, gap, head in samples:
        lead = leads.get(after or "", "")
        if before is None or after is None or gap or is_blank(lead) or not head.endswith(lead):
            continue
        rest = head[: len(head) - len(lead)].rstrip()
        found.setdefault(before, set()).add(rest)
        if not rest:
            apart.add(after)
    closed = {s.before for s in samples if s.after in apart}
    return {role: rest for role, rests in found.items() if role in closed and len(rests) == 1 and (rest := min(rests))}


def _lead(samples: Sequence[Sample], role: str, heads: Iterable[str]) -> str | None:
    """The text in front of each message of `role`; None if that was seen in one place only."""
    own = _apart(samples, role)
    if len({s.before for s in own}) < 2:
        return None
    return common_end([_behind(s.gap + s.head, heads) for s in own]).rpartition("\0")[2]


def _apart(samples: Sequence[Sample], role: str) -> list[Sample]:
    """The samples of what stands in front of `role`, without those where a system text may stand in the same turn."""
    own = [s for s in samples if s.after == role]
    apart = [s for s in own if s.before not in LEADING_ROLES]
    return apart if len({s.before for s in apart}) > 1 else own


def _behind(head: str, heads: Iterable[str]) -> str:
    closing = next((text for text in heads if begins_with(head, text)), "")
    return head[len(closing) :]


def _closes(sample: Sample, samples: Sequence[Sample]) -> bool:
    """Whether the tail of a sample ends a turn: whatever comes next as a rule begins with a text of its own."""
    if sample.before is None or sample.after is None or is_blank(sample.tail):
        return False
    following = [s for s in samples if s.before == sample.before and s.after == _NEXT.get(sample.before)]
    return bool(following) and all(not is_blank(s.gap + s.head) for s in following)


def _introduction(sample: Sample, closers: Iterable[str]) -> str:
    """What the tail of a sample has behind the end of its turn, where the next message has no lead of its own."""
    if not is_blank(sample.gap + sample.head):
        return ""
    closing = max((text for text in closers if begins_with(sample.tail.lstrip(), text)), key=len, default="")
    return sample.tail.lstrip()[len(closing) :].strip() if closing else ""


def _opener(lead: str) -> str:
    """What a lead begins with: a marker, or all of it if it begins with anything else."""
    lead = lead.strip()
    first = chunks(lead)[0] if lead else ""
    return first if is_marker(first) else lead if len(lead) > 2 else ""


def _beside_roles(text: str) -> list[str]:
    """The markers in `text` with the word for a role right behind them."""
    return [marker for marker, word in pairwise(chunks(text)) if word in _NEXT and is_marker(marker)]


def _first_markers(text: str) -> str:
    text = text.strip()
    return text if text and all(is_marker(chunk) or chunk.isspace() for chunk in chunks(text)) else ""


def _block(samples: Sequence[Sample]) -> str:
    """What tools in front of a later user's message begin with."""
    for s in samples:
        text = s.gap + s.head
        if (s.before, s.after) == ("assistant", "user") and "\0" in text:
            markers = [chunk for chunk in chunks(text[: text.index("\0")]) if is_marker(chunk)]
            return markers[-1] if markers else ""
    return ""


def _leads(sample: Sample, prompt: str) -> bool:
    """Whether a message begins with a text of its own: an assistant with what the generation prompt begins with."""
    if sample.before is None or is_blank(sample.head):
        return False
    return sample.after != "assistant" or bool(prompt and begins_with(sample.head.lstrip(), prompt))


def _beginning(first: Sequence[Sample], leads: Mapping[str, str], openers: Iterable[str]) -> str:
    """The markers that all prompts open with, white space between them included, if none of `openers` is among them.

    Where they are all that stands in front of a message, but have words behind them in front of another one, the last
    is a header.
    """
    texts = [(s.gap + s.head).lstrip() for s in first]
    found: list[str] = []
    for together in zip(*map(chunks, texts), strict=False):
        chunk = together[0]
        if len(set(together)) > 1 or chunk in openers or not (is_marker(chunk) or chunk.isspace()):
            break
        found.append(chunk)
    while found and found[-1].isspace():
        found.pop()
    rests = [text[len("".join(found)) :] for text in texts]
    with_words = any(
        not is_blank(rest) and not is_marker(rest.strip()) and rest != leads.get(s.after or "")
        for s, rest in zip(first, rests, strict=True)
    )
    if found and with_words and any(map(is_blank, rests)):
        found.pop()
    return "".join(found).rstrip()
