"""Traces that know prompts by the blocks of tokens they share, and no text.

One JSON object a line, plain or gzipped: `id`, `bs` (tokens a block), `tool_tokens` and `system_tokens` (how the
prompts begin: tools, then system text), `cols` (names of the columns) and `reqs`, a row for each request, in order. Of
the columns these are read: `in` (tokens of the prompt), `blocks` (whole blocks in it), `best_prev` (which earlier
request shares most, -1 for none), `lcp_best` (blocks shared with it) and `depth` (0: the main agent); and if they are
there `out` (tokens of the answer) and `stop` (`end_turn`: the user is next), which tell where messages of users begin.

Every prompt is a path in the tree of its session's prefixes: a request has `lcp_best` blocks in common with
request `best_prev` and owns those after them. So what any two share follows exactly.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, final

from planner.offsets import Candidate
from planner.simulation.errors import TraceError
from planner.simulation.session import Prompt, Session

_GZIP: Final = b"\x1f\x8b"

_COLUMNS: Final = ("in", "blocks", "best_prev", "lcp_best", "depth")

_LONGEST = 2**31 - 1
"""Positions are 32-bit integers in llama.cpp."""

_NEARLY = 3
"""Blocks at an earlier prompt's end that may be lacking when its answer is taken for part of a later prompt."""

Run = list[tuple[int, int]]
"""Runs of blocks: the request that owns them, and the block where they end."""


@final
class _Row(NamedTuple):
    """A request, in blocks but for `tokens` and `answer`. `turn_ends`: the message after its answer is a user's."""

    tokens: int
    blocks: int
    best: int
    shared: int
    depth: int
    answer: int
    turn_ends: bool


def read_blocks(data: bytes, name: str) -> Iterator[Session]:
    """The sessions of a trace, one after another. Raises TraceError naming `name`, line and field."""
    packed = data.startswith(_GZIP)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) if packed else io.BytesIO(data) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield read_session(line, f"{name}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(name, f"cannot be unpacked ({error})") from error


def read_session(line: str | bytes, where: str) -> Session:
    """The session in one line of a trace; `where` names the line in errors."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(where, f"not valid JSON ({error})") from error
    if not isinstance(data, dict):
        raise TraceError(where, "not a JSON object")
    block = _natural(data, "bs", where, least=1)
    tools = _natural(data, "tool_tokens", where)
    system = tools + _natural(data, "system_tokens", where)
    return _session(str(data.get("id", where)), block, tools, system, _rows(data, where))


def _rows(data: dict[str, Any], where: str) -> list[_Row]:
    columns, requests = data.get("cols"), data.get("reqs")
    if not isinstance(columns, list) or not isinstance(requests, list):
        raise TraceError(where, "cols and reqs must be lists")
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise TraceError(where, f"cols: no column {missing[0]}")
    picks = [columns.index(name) for name in _COLUMNS]
    rows: list[_Row] = []
    for number, request in enumerate(requests):
        if not isinstance(request, list) or len(request) != len(columns):
            raise TraceError(where, f"reqs[{number}]: not a row of {len(columns)} columns")
        values = [request[pick] for pick in picks]
        if any(not isinstance(value, int) for value in values):
            raise TraceError(where, f"reqs[{number}]: not all of {', '.join(_COLUMNS)} are integers")
        answer = request[columns.index("out")] if "out" in columns else 0
        turn_ends = isinstance(answer, int) and "stop" in columns and request[columns.index("stop")] == "end_turn"
        tokens, blocks, best, shared, depth = values
        row = _Row(tokens, blocks, best, shared, depth, answer if turn_ends else 0, turn_ends)
        if row.tokens > _LONGEST:
            raise TraceError(where, f"reqs[{number}]: {row.tokens} tokens are more than {_LONGEST}")
        if not (row.tokens >= 1 and -1 <= row.best < number and 0 <= row.shared <= row.blocks):
            raise TraceError(where, f"reqs[{number}]: contradicts itself or the rows before it")
        rows.append(row)
    return rows


def _natural(data: dict[str, Any], name: str, where: str, least: int = 0) -> int:
    value = data.get(name)
    if not isinstance(value, int) or value < least:
        raise TraceError(where, f"{name}: {value!r} is not an integer of at least {least}")
    return value


def _session(name: str, block: int, tools: int, system: int, rows: list[_Row]) -> Session:
    runs = _paths(rows)

    def common(i: int, j: int) -> int:
        shared = _shared(runs[i], runs[j])
        if shared == rows[j].blocks and rows[i].tokens >= rows[j].tokens:
            return rows[j].tokens
        return min(rows[i].tokens, shared * block)

    ends = (Candidate(tools // block * block, "tools_end"), Candidate(system // block * block, "system_end"))
    prompts = tuple(
        Prompt(
            row.tokens,
            tuple(c for c in (*ends, *starts) if 0 < c.offset <= row.tokens),
            row.depth == 0,
            f"{tools} tokens",
        )
        for row, starts in zip(rows, _user_starts(rows, system, block), strict=True)
    )

    def nearest(i: int) -> int | None:
        return rows[i].best if rows[i].best >= 0 else None

    # Prompts repeated as they are count as no evaluation in this kind of trace: the tip serves them.
    return Session(name, prompts, common, nearest, block, least=0)


def _user_starts(rows: list[_Row], system: int, block: int) -> list[list[Candidate]]:
    """Where messages of users begin in each prompt, rounded down to a block: after the answers that end a turn."""
    found: list[list[Candidate]] = []
    for row in rows:
        starts: list[Candidate] = []
        if row.best >= 0:
            before = rows[row.best]
            starts = [start for start in found[row.best] if start.offset <= row.shared * block]
            start = (before.tokens + before.answer) // block * block
            if before.turn_ends and row.shared >= before.blocks - _NEARLY and system < start < row.tokens:
                starts.append(Candidate(start, "user_start"))
        found.append(starts)
    return found


def _paths(rows: list[_Row]) -> list[Run]:
    paths: list[Run] = []
    for number, row in enumerate(rows):
        path: Run = []
        if row.best >= 0 and row.shared > 0:
            for owner, end in paths[row.best]:
                path.append((owner, min(end, row.shared)))
                if end >= row.shared:
                    break
        if row.blocks > row.shared:
            path.append((number, row.blocks))
        paths.append(path)
    return paths


def _shared(left: Run, right: Run) -> int:
    """Blocks that two prompts have in common."""
    shared = 0
    for (owner, end), (other, other_end) in zip(left, right, strict=False):
        if owner != other:
            break
        shared = min(end, other_end)
        if end != other_end:
            break
    return shared
