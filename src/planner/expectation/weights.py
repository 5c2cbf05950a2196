"""How probable each kind of divergence is: expected numbers for each request.

`FITTED` and `LEARNED` come from 355 sessions of coding agents, every second one of a public trace (docs/simulate.md):
how often a prompt returns to the ends of tools and system text or to the last message of the user, and how far before
its end it parts otherwise. They were found by the search of `bench/fit_prior.py`, which goes on from them:
`python bench/fit_prior.py TRACE --half odd`. `FITTED_BRANCHES` too; sub-agents work long there. `EVENTS` are set by
hand from what users report of chat templates, which rewrite what those sessions leave alone. `BRANCHES` go with them:
for conversations whose messages are known, tried on the scenarios of `bench/reuse.py` with other seeds, and such that
three conversations that take turns all keep their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Weights:
    """Divergences to come, as expected numbers for each request.

    A checkpoint far back serves many requests to come and one at the end only the next, so the weights of places that
    stay are higher than what a single request makes of them.

    tools_end, system_end: prompts that part exactly there; after_system: a block later.
    tools, system: spread evenly over the tools block, over the rest of the system text.
    system_tail: one, two, … blocks before the end of the system text.
    first_user: spread over the first 8, 32 and 128 blocks (of 64 tokens) after it.
    last_user_start: where the last message of the user begins; a tenth more a block before and after it.
    generation_prompt: just before the few tokens at the prompt's end that history does not have.
    tail: one, two, three and four blocks before the prompt's end, otherwise.
    distance: spread over distances of 4 … 8, 8 … 16, … blocks from the prompt's end.
    even: for each token after the system text.
    """

    tools_end: float
    system_end: float
    after_system: float
    tools: float
    system: float
    system_tail: tuple[float, ...]
    first_user: tuple[float, float, float]
    last_user_start: float
    generation_prompt: float
    tail: tuple[float, ...]
    distance: tuple[float, ...]
    even: float


@final
@dataclass(frozen=True, slots=True)
class Events:
    """Shares of what happens to a conversation whose messages are known, when its next prompt does not extend it.

    resend: the same prompt again. prompt_end: the answer comes back otherwise, from its first token on; answer: the
    generation prompt does. rewrite: reasoning after the last user message is dropped. last_user_start: that message is
    edited. system_end: a new conversation begins. system_text: its system text differs late. wanted, media_end: offsets
    that a client declared, ends of media. edit: a message is edited, the later the likelier. spread: anything else.
    """

    resend: float = 0.10
    prompt_end: float = 0.05
    answer: float = 0.15
    rewrite: float = 0.25
    last_user_start: float = 0.08
    system_end: float = 0.12
    system_text: float = 0.08
    wanted: float = 0.15
    media_end: float = 0.10
    edit: float = 0.15
    spread: float = 0.10


EVENTS = Events()

FITTED = Weights(
    tools_end=0.004,
    system_end=0.06,
    after_system=0.02,
    tools=0.02,
    system=0.012,
    system_tail=(0.004, 0.016, 0.018, 0.036, 0.012, 0.006, 0.004, 0.0026, 0.004, 0.004),
    first_user=(0.002, 0.002, 0.002),
    last_user_start=0.12,
    generation_prompt=1.0,
    tail=(0.04, 0.006, 0.002, 0.0007),
    distance=(0.0009, 0.00045, 0.0003, 0.0006, 0.0005, 0.0009, 0.0006, 0.0015, 0.0015, 0.003, 0.00075),
    even=6e-8,
)


@final
@dataclass(frozen=True, slots=True)
class Learned:
    """What each divergence that was seen adds to the expectation of another at the same offset.

    session: in the same session, for each of the first `most`. tools: all those seen with the same tools, and
    tools_doubt how many must be seen to be believed by half. everywhere, everywhere_doubt: the same for offsets inside
    the tools block, whatever the tools. distance: the last two were about as far from the end. anew: that all prompts
    are new conversations, anew_weight: what the last prompt counts for the share of those that are.
    """

    session: float
    most: int
    tools: float
    tools_doubt: float
    everywhere: float
    everywhere_doubt: float
    distance: float
    anew: float
    anew_weight: float


LEARNED = Learned(
    session=0.12,
    most=4,
    tools=0.2,
    tools_doubt=2.0,
    everywhere=0.02,
    everywhere_doubt=5.0,
    distance=0.5,
    anew=1.0,
    anew_weight=0.25,
)


@final
@dataclass(frozen=True, slots=True)
class Branches:
    """Returns to another conversation: `end`, how many to its last state if the last request left it; `fading`, what is
    left of them and of all other returns after each request that goes elsewhere."""

    end: float
    fading: float


BRANCHES = Branches(end=2.0, fading=0.7)
FITTED_BRANCHES = Branches(end=1.0, fading=0.9)
