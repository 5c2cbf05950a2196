"""Chats with images on an engine: encoded once, never taken for another, answered as from nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conformance.desk import SMALL, WRONG, Desk, Messages, assistant, image, open_desk, user
from tests.conformance.mtmd import audio_part, image_part, picture, sound

import runtime.attachment
from runtime.attachment import MediaReader
from runtime.completion import Completion
from runtime.engine import Engine
from runtime.errors import DecodeError, ModelError, RequestError
from runtime.media import Projector
from runtime.requests import Request
from runtime.session import Session
from runtime.store import StoreOptions
from runtime.tiny import ensure_model, ensure_projector
from spanparse.errors import ConversationError
from spanparse.media import Media, MediaPart, decode

PAIRS = [
    ("hybrid", "qwen3vl", "chatml"),
    ("hybrid", "qwen2vl", "chatml"),
    ("hybrid", "gemma3", "gemma3"),
    ("swa", "gemma3", "gemma3"),
    ("swa", "qwen3vl", "chatml"),
    ("recurrent", "gemma3", "gemma3"),
    ("dense", "qwen3vl", "chatml"),
    ("mrope", "qwen3vl", "chatml"),
    # Several runs of one image.
    ("hybrid", "internvl", "chatml"),
    ("dense", "internvl", "gemma3"),
]


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def opened(request: pytest.FixtureRequest, mrope_model: Path) -> Iterator[Desk]:
    kind, projector, template = request.param
    path = mrope_model if kind == "mrope" else ensure_model(kind)
    yield from open_desk(pytest.MonkeyPatch(), path, projector, template)


@pytest.fixture
def desk(opened: Desk) -> Desk:
    opened.engine.reset()
    opened.encoded.clear()
    return opened


@pytest.fixture
def hybrid() -> Iterator[Desk]:
    yield from open_desk(pytest.MonkeyPatch(), ensure_model("hybrid"), "qwen3vl", "chatml")


START: Messages = [
    user("Good morning, harbour office."),
    assistant("Good morning."),
    user("Any news?"),
    assistant("None."),
]


def about(seed: int, question: str = "What do you see?") -> Messages:
    """A chat with an image in its third turn."""
    return [*START, user("Look at this: ", image(seed), question)]


def media_end(completion: Completion) -> int:
    return completion.media[-1].end


def test_an_image_in_turn_three_is_encoded_once_while_the_chat_goes_on(desk: Desk) -> None:
    messages: Messages = []
    for turn in range(8):
        content = ["Look at this: ", image(1), "What is it?"] if turn == 2 else [f"Question {turn} about the harbour?"]
        messages.append(user(*content))
        completion = desk.ask(messages)
        messages.append(assistant(completion.output))
    assert {where for where, _ in desk.encoded} == {"messages[4].content[1]"}
    assert len(desk.encoded) == len(set(desk.encoded)) == len(completion.media)
    assert completion.report.evaluated < completion.report.prompt_tokens - media_end(completion)


def test_the_prompt_counts_the_tokens_of_media(desk: Desk) -> None:
    completion = desk.ask(about(1))
    assert completion.report.prompt_tokens == completion.report.evaluated == len(completion.token_ids)
    of_media = sum(chunk.end - chunk.begin for chunk in completion.media)
    assert of_media == sum(token < 0 for token in completion.token_ids) >= 16


def test_a_second_question_evaluates_only_what_follows_the_image(desk: Desk) -> None:
    first = desk.ask(about(1))
    # The conversation goes on before somebody asks otherwise.
    desk.ask([*about(1), assistant(first.output), user("And the weather?")])
    desk.encoded.clear()
    second = desk.ask(about(1, "How many ships are there?"))
    assert desk.encoded == []
    assert 0 < second.report.evaluated <= second.report.prompt_tokens - media_end(second)


def test_another_image_of_the_same_size_is_never_taken_for_it(desk: Desk) -> None:
    first = desk.ask(about(1))
    desk.encoded.clear()
    second = desk.ask(about(2))
    assert len(desk.encoded) == len(second.media)
    assert second.report.reused <= second.media[0].begin
    assert first.logits is not None
    assert second.logits is not None
    assert np.abs(first.logits - second.logits).max() > WRONG


def test_were_it_taken_for_it_the_comparison_would_show(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_alike(part: MediaPart) -> Media:
        return replace(decode(part), id="the same")

    monkeypatch.setattr(runtime.attachment, "decode", all_alike)
    # One that has not seen the images before.
    monkeypatch.setattr(desk.engine, "_media", MediaReader(desk.engine.projector, SMALL["n_ubatch"]))
    desk.ask(about(1))
    desk.encoded.clear()
    completion = desk.engine.generate(Request(about(2, "Is it another one?"), max_tokens=4), logits=True)
    assert desk.encoded == []
    error = desk.verifier.check(completion).logit_error
    assert error is not None
    assert error > WRONG


def test_an_image_behind_a_restored_state_is_encoded_at_its_place(desk: Desk) -> None:
    desk.ask(START[:3])
    desk.ask([user("Somebody else entirely.")])
    completion = desk.ask(about(1))
    restored = completion.report.restored
    assert restored is not None
    assert restored.source == ("live" if desk.engine.memory.kind == "dense" else "ram")
    assert 0 < completion.report.reused < completion.media[0].begin
    assert len(desk.encoded) == len(completion.media)


def test_two_conversations_share_an_image(desk: Desk) -> None:
    shared = [user("Our plan: ", image(3), "It has two quays.")]
    one, other = [*shared, assistant("I see."), user("Which is longer?")], [*shared, assistant("So?"), user("Why two?")]
    for _ in range(3):
        for messages in (one, other):
            messages += [assistant(desk.ask(messages).output), user("Go on.")]
    assert len(desk.encoded) == len(set(desk.encoded))


def test_two_images_keep_their_order_and_places(desk: Desk) -> None:
    pair = [user("First ", image(1), " and second ", image(2, 64, 64), " differ how?")]
    completion = desk.ask(pair)
    desk.ask([*pair, assistant(completion.output), user("And now?", image(1), "?")])
    # The one that is shown again stands after other text.
    assert len(desk.encoded) == len(completion.media) + sum(
        chunk.attachment.where == "messages[0].content[1]" for chunk in completion.media
    )


@pytest.mark.parametrize("where", ["before", "at the end of"])
def test_a_prompt_that_is_cancelled_around_an_image_goes_on_there(desk: Desk, where: str) -> None:
    probe = desk.ask(about(1))
    desk.engine.reset()
    desk.encoded.clear()
    begin, end = probe.media[0].begin, media_end(probe)
    after = begin if where == "before" else end
    assert desk.ask(about(1), cancel_after_tokens=after).finish == "cancelled"
    assert len(desk.encoded) == (0 if where == "before" else len(probe.media))
    completion = desk.ask(about(1))
    assert completion.report.reused == after
    assert len(desk.encoded) == len(probe.media)


def test_requests_with_images_are_answered_at_once(desk: Desk) -> None:
    def answer(seed: int) -> Completion:
        return desk.engine.generate(Request(about(seed, "Long text. " * seed), max_tokens=6), logits=True)

    with ThreadPoolExecutor(4) as threads:
        completions = list(threads.map(answer, range(4)))
    desk.engine.check_integrity()
    for completion in completions:
        desk.compare(completion)


@pytest.mark.parametrize("kind", ["dense", "mrope", "hybrid"])
def test_where_room_runs_out_images_go_as_a_whole(
    kind: str, mrope_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mrope_model if kind == "mrope" else ensure_model(kind)
    for desk in open_desk(monkeypatch, path, "qwen3vl", "chatml", n_ctx=256):
        for number in (1, 2, 3, 1, 2):
            desk.ask([user(f"Conversation {number}: ", image(number, 120, 100), " what is it?")])


def test_without_a_state_behind_it_an_image_is_encoded_again_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for desk in open_desk(monkeypatch, ensure_model("hybrid"), "qwen3vl", "chatml", policy="none"):
        desk.ask(about(1))
        report = desk.ask(about(1, "Something else?")).report
        media, text = report.excess
        assert (media.reason, media.tokens) == ("media", 13 * 6)
        assert media.detail.startswith("messages[4].content[1] encoded again")
        assert text.reason == "state-missing"
        assert media.tokens + text.tokens == report.evaluated - report.ideal


def test_a_recording_is_encoded_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for desk in open_desk(monkeypatch, ensure_model("hybrid"), "qwen3a", "chatml"):
        messages = [user("Listen: ", audio_part(sound(9)), " What is it?")]
        messages += [assistant(desk.ask(messages).output), user("Are you sure?")]
        desk.ask(messages)
        assert len(desk.encoded) == len(set(desk.encoded)) == 2


def test_a_session_keeps_what_was_shown(hybrid: Desk) -> None:
    session = Session(hybrid.engine, max_tokens=4)
    session.send(user("Look: ", image(1), "What is it?"))
    session.say("Are you sure?")
    other = session.copy()
    session.regenerate()
    other.say("And what colour?")
    assert len(hybrid.encoded) == 1


@pytest.mark.parametrize("kind", ["hybrid", "dense", "mrope", "swa", "recurrent"])
def test_a_prompt_with_an_image_comes_back_from_disk(
    kind: str, mrope_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = mrope_model if kind == "mrope" else ensure_model(kind)
    store = StoreOptions(50_000_000, tmp_path)
    for desk in open_desk(monkeypatch, path, "qwen3vl", "chatml", store=store):
        desk.ask(about(1))
    for desk in open_desk(monkeypatch, path, "qwen3vl", "chatml", store=store):
        report = desk.ask(about(1)).report
        assert report.restored is not None
        assert (report.restored.source, report.evaluated) == ("disk", 0)
        assert desk.encoded == []
        desk.ask(about(2))
        assert len(desk.encoded) == 1


def test_what_another_projector_saw_is_not_taken_from_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = StoreOptions(50_000_000, tmp_path)
    for projector in ("qwen2vl", "qwen3vl"):
        for desk in open_desk(monkeypatch, ensure_model("hybrid"), projector, "chatml", store=store):
            desk.ask(about(1))
            assert len(desk.encoded) == 1


def usable(desk: Desk) -> None:
    desk.encoded.clear()
    desk.ask(about(1))
    assert len(desk.encoded) == 1


def test_media_that_cannot_be_read_are_named_and_leave_the_engine_usable(hybrid: Desk) -> None:
    broken = image_part(picture(64, 64)[:-200])
    with pytest.raises(ConversationError, match=r"^messages\[1\]\.content\[1\]: "):
        hybrid.ask([user("Hello"), user("Look: ", broken, "?")])
    usable(hybrid)


def test_media_of_a_kind_that_the_projector_does_not_take_are_named(hybrid: Desk) -> None:
    with pytest.raises(RequestError, match=r"^messages\[0\]\.content\[1\]: .*takes no audio"):
        hybrid.ask([user("Listen: ", audio_part(sound(1)), "?")])
    usable(hybrid)


def test_files_of_this_machine_are_not_read(hybrid: Desk, tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(picture(64, 64))
    with pytest.raises(ConversationError, match=r"^messages\[0\]\.content\[0\]: files of this machine are not read"):
        hybrid.ask([user({"type": "image", "image": str(tmp_path / "image.png")}, "?")])


def test_the_image_that_is_too_much_for_the_context_is_named(hybrid: Desk) -> None:
    images = [image(seed, 320, 240) for seed in range(5)]
    with pytest.raises(RequestError, match=r"^messages\[0\]\.content\[3\]: the prompt has 15\d\d tokens.* holds 1024$"):
        hybrid.ask([user(*images, "What are they?")])
    usable(hybrid)


def test_an_image_that_must_be_computed_at_once_and_cannot_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for desk in open_desk(monkeypatch, ensure_model("swa"), "gemma3", "gemma3", n_ubatch=8):
        with pytest.raises(RequestError, match=r"^messages\[4\]\.content\[1\]: its 16 tokens must fit in n_ubatch"):
            desk.ask(about(1))
        desk.ask(START[:3])


def test_without_a_projector_media_are_named() -> None:
    with Engine(ensure_model("dense"), **SMALL) as engine:
        with pytest.raises(RequestError, match=r"^messages\[4\]\.content\[1\]: .*no projector"):
            engine.generate(Request(about(1)))
        assert engine.generate(Request(START[:3], max_tokens=1)).report.evaluated > 0


def test_a_projector_of_another_width_is_refused() -> None:
    with pytest.raises(ModelError, match="mismatch"):
        Engine(ensure_model("dense"), projector=ensure_projector("gemma3", width=64), **SMALL)


@pytest.mark.parametrize("done", [False, True], ids=["at once", "after all of it"])
def test_an_image_that_fails_to_be_evaluated_ends_its_request_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    desk.ask(START[:3])
    evaluate = Projector.evaluate

    def failing(self: Projector, *arguments: Any) -> tuple[int, int]:
        # What libmtmd has handed over in batches stays in the memory.
        return (-3, evaluate(self, *arguments)[1]) if done else (-3, 0)

    with monkeypatch.context() as patch:
        patch.setattr(Projector, "evaluate", failing)
        with pytest.raises(DecodeError, match=r"messages\[4\]\.content\[1\]"):
            desk.engine.generate(Request(about(1), max_tokens=4))
    desk.engine.check_integrity()
    completion = desk.ask(about(1))
    assert completion.report.reused > 0
