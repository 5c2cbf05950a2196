"""Requests with something wrong in them, and prompts out of pieces: a result that holds, or an error that names it."""

from __future__ import annotations

import copy
from functools import cache
from itertools import pairwise
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conversations import conversations, tools, words
from tests.fuzz.invariants import check_rendering
from tests.fuzz.profile import cases

from spanparse import (
    Analysis,
    ConversationError,
    Prediction,
    Reason,
    TemplateError,
    analyse,
    load_source,
    parse,
    predict,
)
from spanparse.conversation import Conversation, load_conversation
from spanparse.prediction import to_json
from spanparse.raw import find_spans
from spanparse.sources import bundled_names

JUNK: Final = [None, 0, -1.5, float("nan"), True, "", "x", [], [[]], ["a"], {}, {"a": None}, {"type": "text"}, 10**30]
NAMES: Final = st.sampled_from(bundled_names())


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A request's body in which some values are others, or gone."""
    body: dict[str, Any] = {"messages": copy.deepcopy(draw(conversations)), "tools": copy.deepcopy(draw(tools))}
    for _ in range(draw(st.integers(1, 2))):
        place: Any = body
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if draw(st.booleans()):
                place[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))
            else:
                del place[key]
            break
    return body


@cases(250)
@given(damaged(), NAMES)
def test_a_damaged_request_is_rendered_or_refused_by_the_name_of_what_is_wrong(body: dict[str, Any], name: str) -> None:
    before = repr(body)
    try:
        found = load_conversation(body)
    except ConversationError as raised:
        error = raised
    else:
        check_rendered(found, name)
        assert repr(body) == before
        return
    assert error.where.startswith(("messages", "tools"))
    assert error.reason
    assert "\n" not in str(error)


def check_rendered(conversation: Conversation, name: str) -> None:
    try:
        rendering = parse(load_source(name), conversation.messages, tools=conversation.tools)
    except TemplateError as raised:
        said = str(raised)
    else:
        check_rendering(rendering, conversation.messages)
        return
    assert said.startswith(f"{name}: ")
    assert "\n" not in said


@cases(120)
@given(conversations, tools, NAMES, st.booleans())
def test_a_prediction_adds_up(
    conversation: list[dict[str, Any]], tools: list[dict[str, Any]] | None, name: str, generation: bool
) -> None:
    try:
        found = predict(load_source(name), conversation, tools=tools, add_generation_prompt=generation)
    except TemplateError:
        return
    check_prediction(found, len(conversation))
    to_json(found)


def check_prediction(found: Prediction, count: int) -> None:
    assert found.unfinished is None
    for outcome in found.continuations:
        assert (outcome.reason is None) == (outcome.kept_chars is not None) == (outcome.lost_chars is not None)
        if outcome.kept_chars is None or outcome.lost_chars is None:
            continue
        assert outcome.kept_chars + outcome.lost_chars == found.prompt_chars
        assert (outcome.diverges is None) == (outcome.lost_chars == 0)
        assert outcome.diverges is None or outcome.diverges.message in (None, *range(count))
        for change in outcome.changes:
            assert 0 < change.chars <= outcome.lost_chars
        for remedy in outcome.remedies:
            assert remedy.lost_chars < outcome.lost_chars
    for hazard in found.hazards:
        assert hazard.kept_chars + hazard.lost_chars == found.prompt_chars
        assert hazard.lost_chars > 0


@cache
def analysis_of(name: str) -> Analysis:
    return analyse(load_source(name))


@st.composite
def prompts(draw: st.DrawFn) -> tuple[str, str]:
    """A template's name and a text out of its markers and other words, in no order."""
    name = draw(NAMES)
    markers = [text for role in analysis_of(name).roles for text in (role.start, role.end) if text]
    pieces = st.sampled_from(markers) | words | st.just("\n") if markers else words
    return name, "".join(draw(st.lists(pieces, max_size=12)))


@cases(250)
@given(prompts())
def test_whatever_a_raw_prompt_holds_is_tiled_and_never_called_exact(prompt: tuple[str, str]) -> None:
    name, text = prompt
    found = find_spans(text, analysis_of(name))
    assert found.text == text
    assert not found.exact
    assert found.reason == Reason("raw-text")
    assert all(not message.exact and message.reason == Reason("raw-text") for message in found.messages)
    pieces = [found.preamble, *(piece for message in found.messages for piece in message.pieces)]
    if found.generation_prompt is not None:
        pieces.append(found.generation_prompt)
    assert pieces[0].start == 0
    assert pieces[-1].end == len(text)
    assert all(a.end == b.start for a, b in pairwise(pieces))
