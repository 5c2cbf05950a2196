from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from planner import Candidate
from planner.simulation import Session, read_blocks
from planner.simulation.blocks import read_session
from planner.simulation.errors import TraceError

ROWS = ((2000, -1, 0, 0), (3000, 0, 31, 0), (1500, 0, 10, 1), (3500, 1, 20, 0))


@pytest.fixture
def session(session_line: Any) -> Session:
    return read_session(session_line(ROWS), "here")


def test_a_prompt_that_extends_another_shares_all_of_it(session: Session) -> None:
    assert session.common(1, 0) == 2000


def test_other_prompts_share_whole_blocks(session: Session) -> None:
    assert (session.common(2, 0), session.common(2, 1), session.common(3, 1)) == (640, 640, 1280)


def test_what_two_prompts_share_follows_through_the_ones_between_them(session: Session) -> None:
    assert session.common(3, 0) == 1280
    assert session.common(3, 2) == 640


def test_sub_agents_are_told_from_the_main_one(session: Session) -> None:
    assert [prompt.main for prompt in session.prompts] == [True, True, False, True]


def test_the_ends_of_tools_and_system_text_are_candidates_at_the_start_of_their_block(session_line: Any) -> None:
    session = read_session(session_line(ROWS, tool_tokens=700, system_tokens=300), "here")
    assert session.prompts[0].candidates == (Candidate(640, "tools_end"), Candidate(960, "system_end"))


def test_plain_and_compressed_traces_read_alike(session_line: Any) -> None:
    text = (session_line(ROWS) + "\n\n" + session_line(ROWS)).encode()
    lengths = [[len(s.prompts) for s in read_blocks(data, "trace")] for data in (text, gzip.compress(text))]
    assert lengths == [[4, 4], [4, 4]]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"bs": 0}, "bs: 0 is not"),
        ({"tool_tokens": "9"}, "tool_tokens: '9' is not"),
        ({"cols": ["in"]}, "cols: no column blocks"),
        ({"cols": None}, "cols and reqs must be lists"),
        ({"reqs": [[1]]}, r"reqs\[0\]: not a row of 7 columns"),
        ({"reqs": [[0.0, 100, 1, 1, 0, 0, 0]]}, r"reqs\[0\]: contradicts"),
        ({"reqs": [[0.0, 100, 1, 1, -1, 2, 0]]}, r"reqs\[0\]: contradicts"),
        ({"reqs": [[0.0, "x", 1, 1, -1, 0, 0]]}, r"reqs\[0\]: not all of in, blocks"),
    ],
)
def test_a_malformed_session_is_named(session_line: Any, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TraceError, match=f"^trace:1: {complaint}"):
        read_session(session_line(ROWS, **changes), "trace:1")


@pytest.mark.parametrize("text", [b"[", b"3", b'"x"', b"\xff"])
def test_a_line_that_is_no_session_is_named(text: bytes) -> None:
    with pytest.raises(TraceError, match="trace:1: "):
        list(read_blocks(text, "trace"))


def test_a_damaged_compressed_trace_is_named(session_line: Any) -> None:
    packed = gzip.compress(session_line(ROWS).encode())
    for data in (packed[:-20], packed[:10] + b"xx" + packed[12:]):
        with pytest.raises(TraceError, match="cut: cannot be unpacked"):
            list(read_blocks(data, "cut"))


def test_the_public_trace_has_the_bounds_that_its_reference_program_prints(trace: Path) -> None:
    line = tree = later = 0
    for session in read_blocks(trace.read_bytes(), "trace"):
        before = None
        for i, prompt in enumerate(session.prompts):
            nearest = session.nearest(i)
            tree += prompt.length - (session.common(i, nearest) if nearest is not None else 0)
            if prompt.main:
                line += prompt.length - (session.common(i, before) if before is not None else 0)
                later += before is not None
                before = i
    assert (line, tree, later) == (220_187_302, 220_939_179, 47_948)


def test_messages_of_users_begin_after_answers_that_end_a_turn(session_line: Any) -> None:
    columns = ["in", "out", "blocks", "best_prev", "lcp_best", "depth", "stop"]
    requests = [
        [2000, 100, 31, -1, 0, 0, "end_turn"],
        [2400, 100, 37, 0, 31, 0, "tool_use"],
        [2900, 100, 45, 1, 37, 0, "end_turn"],
        [3300, 100, 51, 2, 45, 0, "end_turn"],
        [2300, 100, 35, 2, 33, 0, "end_turn"],
    ]
    session = read_session(session_line((), cols=columns, reqs=requests), "here")
    starts = [[c.offset for c in prompt.candidates if c.kind == "user_start"] for prompt in session.prompts]
    first, second = 2100 // 64 * 64, 3000 // 64 * 64
    assert starts == [[], [first], [first], [first, second], [first]]
