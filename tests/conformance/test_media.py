"""Media in a token map are what libmtmd makes of them, and a state saved right after them is good."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.mtmd import (
    MARKER,
    Pieces,
    audio_part,
    expected_pieces,
    image_part,
    picture,
    pieces,
    sound,
    text_part,
    tokenized,
)

from runtime.errors import DecodeError, ModelError, RequestError
from runtime.llama import Context, ContextOptions, Model, Stretch
from runtime.media import Projector, lib
from runtime.prefix import as_tokens
from runtime.tiny import ensure_model, ensure_projector
from spanparse import load_source, parse
from spanparse.media import insertions, read_media
from spanparse.media.estimate import grid
from spanparse.tokens import LlamaVocabulary, TokenMap, token_map

OPTIONS = ContextOptions(n_ctx=2048, n_batch=512, n_ubatch=256, n_threads=1, exact=True)
# The text model decides over positions, the projector over tokens: every pair works.
PAIRS = [
    ("hybrid", "qwen3vl", "chatml"),
    ("hybrid", "qwen2vl", "chatml"),
    ("hybrid", "gemma3", "gemma3"),
    ("swa", "gemma3", "gemma3"),
    ("recurrent", "gemma3", "gemma3"),
    ("dense", "qwen3vl", "chatml"),
    ("mrope", "qwen3vl", "chatml"),
    # Several runs of one image.
    ("hybrid", "internvl", "chatml"),
    ("dense", "internvl", "gemma3"),
]
SIZES = [
    *((64, 64), (200, 100), (37, 300), (8, 8), (1, 1), (320, 240), (33, 47), (100, 1), (1, 199), (16, 16)),
    *((24, 24), (640, 480), (255, 257), (40, 8)),
]


@dataclass
class Runtime:
    """A tiny model with a projector, and the template of a family that shows such media."""

    model: Model
    projector: Projector
    backend: LlamaVocabulary
    template: str

    def map(self, content: list[dict[str, Any]], *, trust_content: bool = False) -> TokenMap:
        """Our way: the media in their own parts, in a prompt whose every other text is the template's or a part's."""
        template = load_source(self.template)
        messages = [{"role": "user", "content": content}]
        rendering = parse(template, messages)
        filled = insertions(rendering, read_media(messages), self.projector.expand, self.backend)
        return token_map(rendering, self.backend, template=template.text, trust_content=trust_content, media=filled)

    def marked(self, content: list[dict[str, Any]]) -> tuple[str, list[bytes]]:
        """llama.cpp's way: a text with markers in place of media, rendered as any text, and the files."""
        texts = [part if part["type"] == "text" else text_part(MARKER) for part in content]
        text = parse(load_source(self.template), [{"role": "user", "content": texts}]).text
        return text, [part[part["type"]] for part in content if part["type"] != "text"]

    def reference(self, content: list[dict[str, Any]]) -> Pieces:
        return expected_pieces(self.projector, *self.marked(content))


@contextmanager
def opened(model_path: Path, projector_kind: str, template: str) -> Iterator[Runtime]:
    with (
        Model(model_path) as model,
        Projector(ensure_projector(projector_kind), model, n_threads=1) as projector,
    ):
        yield Runtime(model, projector, LlamaVocabulary(model.pointer), template)


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def runtime(request: pytest.FixtureRequest, mrope_model: Path) -> Iterator[Runtime]:
    kind, projector_kind, template = request.param
    with opened(mrope_model if kind == "mrope" else ensure_model(kind), projector_kind, template) as made:
        yield made


@pytest.fixture(scope="module")
def listener() -> Iterator[Runtime]:
    with opened(ensure_model("hybrid"), "qwen3a", "chatml") as made:
        yield made


@pytest.fixture(scope="module", params=["hybrid", "mrope"])
def flat(request: pytest.FixtureRequest, mrope_model: Path) -> Iterator[Evaluation]:
    """Models to which an image is an area: its positions are fewer than its tokens."""
    path = mrope_model if request.param == "mrope" else ensure_model(request.param)
    with opened(path, "qwen3vl", "chatml") as made, Context(made.model, OPTIONS) as context:
        yield Evaluation(made, context)


@pytest.mark.parametrize("size", SIZES)
def test_an_image_takes_what_libmtmd_gives_it(runtime: Runtime, size: tuple[int, int]) -> None:
    content = [text_part("Look at this: "), image_part(picture(*size)), text_part(" What is it?")]
    assert pieces(runtime.map(content)) == runtime.reference(content)


@pytest.mark.parametrize(
    "places", ["i", "it", "ti", "ii", "tiit", "itit", "tititi", "iii"], ids=lambda places: f"{places} (i: image)"
)
def test_order_and_text_between_images_are_libmtmds(runtime: Runtime, places: str) -> None:
    sizes = itertools.cycle([(64, 64), (40, 90), (64, 64)])
    content = [
        image_part(picture(*next(sizes), seed=n)) if place == "i" else text_part(f"text {n}\n")
        for n, place in enumerate(places)
    ]
    assert pieces(runtime.map(content)) == runtime.reference(content)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(1, 150), st.integers(1, 150)).filter(lambda size: max(size) <= 150 * min(size)),
            st.text("ab .\n!é日<>|"),
        ),
        max_size=6,
    )
)
def test_any_mix_of_texts_and_images_is_cut_as_libmtmd_cuts_it(
    runtime: Runtime, mixed: list[tuple[int, int] | str]
) -> None:
    content = [
        *(text_part(one) if isinstance(one, str) else image_part(picture(*one)) for one in mixed),
        image_part(picture(16, 16)),
    ]
    assert pieces(runtime.map(content)) == runtime.reference(content)


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1, 3.3, 7.9, 8.01, 20])
def test_a_recording_takes_what_libmtmd_gives_it(listener: Runtime, seconds: float) -> None:
    audio = audio_part(sound(seconds))
    content = [text_part("Listen: "), audio, text_part("and"), audio]
    found = pieces(listener.map(content))
    assert found == listener.reference(content)
    # Beyond eight seconds the projector makes several chunks of one recording.
    assert sum(piece[0] == "media" for piece in found) == 2 * math.ceil(seconds / 8)


def test_a_recording_at_another_rate_counts_as_libmtmd_resamples_it(listener: Runtime) -> None:
    content = [audio_part(sound(1.7, rate)) for rate in (8000, 22050, 44100, 48000)]
    assert pieces(listener.map(content)) == listener.reference(content)


def test_content_that_quotes_marker_and_placeholders_forges_no_media(runtime: Runtime) -> None:
    quoted = "<__media__> <|vision_start|><|image_pad|><|vision_end|> <start_of_image> <image>"
    content = [text_part(quoted), image_part(picture(64, 64)), text_part(quoted)]
    tokens = runtime.map(content)
    assert len(tokens.media) == 1
    control = runtime.backend.added.control_ids
    placeholders = {runtime.backend.added[text].id for text in ("<|image_pad|>", "<start_of_image>")} & control
    begin = tokens.media[0].begin
    # The one before the image is what the runtime puts there.
    assert not placeholders.intersection([*tokens.ids[: begin - 1], *tokens.ids[begin + 16 + 1 :]])


def test_trusted_content_has_the_ids_of_an_ordinary_encoding(runtime: Runtime) -> None:
    content = [text_part("<|im_end|>\n<|im_start|>"), image_part(picture(64, 64)), text_part("<|im_end|>")]
    assert pieces(runtime.map(content, trust_content=True)) == runtime.reference(content)


@pytest.mark.parametrize("size", [*SIZES, (1500, 700), (3000, 2000), (64, 4000)])
def test_the_rule_for_images_of_dynamic_size_is_libmtmds(size: tuple[int, int]) -> None:
    # In these projectors a token is 16 pixels wide; limits are those of Qwen's.
    with Model(ensure_model("hybrid")) as model, Projector(ensure_projector("qwen3vl"), model) as projector:
        media = read_media([{"role": "user", "content": [image_part(picture(*size, form="BMP"))]}])[0, 0]
        _, image, _ = projector.expand(media, "image").chunks
    across, down = grid(*size, 16, 8, 4096)
    assert (len(image.ids), image.n_pos) == (across * down, max(across, down))


@dataclass
class Saved:
    """A state after so many tokens and positions."""

    token: int
    position: int
    data: Any


class Evaluation:
    """Evaluates a token map chunk by chunk, texts by `decode` and media by the projector."""

    def __init__(self, runtime: Runtime, context: Context) -> None:
        self.runtime = runtime
        self.context = context
        self.position = 0

    def run(
        self, content: list[dict[str, Any]], after_media: Callable[[int, int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Logits after the prompt. `after_media` is called with the tokens and positions so far after each image."""
        tokens = self.runtime.map(content)
        messages = [{"role": "user", "content": content}]
        media = read_media(messages)
        at = position = 0
        for run in tokens.media:
            position = self.text(tokens.ids[at : run.begin], position)
            assert position == run.position
            with self.runtime.projector.prepare(media[0, run.part], "image") as prepared:
                ids = tuple(tokens.ids[run.begin : run.begin + run.n_tokens])
                number = [chunk.ids for chunk in prepared.chunks].index(ids)
                position = prepared.evaluate(self.context, number, position)
            at = run.begin + run.n_tokens
            assert position == run.position + run.n_pos
            if after_media is not None:
                after_media(at, position)
        self.position = self.text(tokens.ids[at:], position)
        return self.context.logits()

    def reference(self, content: list[dict[str, Any]]) -> npt.NDArray[np.float32]:
        """Logits after the prompt as libmtmd's own helper evaluates it."""
        position = ctypes.c_int32()
        with tokenized(self.runtime.projector, *self.runtime.marked(content)) as chunks:
            code = lib.mtmd_helper_eval_chunks(
                self.runtime.projector.pointer,
                *(self.context.pointer, chunks, 0, 0, self.context.n_batch, True, ctypes.byref(position)),
            )
        assert code == 0
        return self.context.logits()

    def text(self, ids: list[int], position: int) -> int:
        if ids:
            self.context.decode(Stretch(as_tokens(ids), position, logits=True))
        return position + len(ids)


def test_a_recording_evaluated_from_its_map_gives_what_libmtmd_gives(listener: Runtime) -> None:
    content = [text_part("Listen: "), audio_part(sound(9)), text_part(" What is it?")]
    with Context(listener.model, OPTIONS) as context:
        evaluation = Evaluation(listener, context)
        ours = evaluation.run(content)
        context.clear()
        assert np.abs(ours - evaluation.reference(content)).max() < 1e-4


@pytest.fixture(scope="module")
def evaluation(runtime: Runtime) -> Iterator[Evaluation]:
    with Context(runtime.model, OPTIONS) as context:
        yield Evaluation(runtime, context)


def two_images(first: int, second: int) -> list[dict[str, Any]]:
    images = [image_part(picture(64, 64, seed)) for seed in (first, second)]
    return [text_part("one "), images[0], text_part(" two "), images[1], text_part(" three")]


def test_a_prompt_evaluated_from_its_map_gives_what_libmtmd_gives(evaluation: Evaluation) -> None:
    content = two_images(1, 2)
    evaluation.context.clear()
    ours = evaluation.run(content)
    evaluation.context.clear()
    assert np.abs(ours - evaluation.reference(content)).max() < 1e-4


def test_a_state_saved_right_after_an_image_continues_as_a_cold_run_does(evaluation: Evaluation) -> None:
    context = evaluation.context

    def saved_after_second_image(content: list[dict[str, Any]]) -> tuple[Saved, npt.NDArray[np.float32]]:
        states: list[Saved] = []
        context.clear()
        logits = evaluation.run(content, lambda at, position: states.append(Saved(at, position, context.save_state())))
        return states[-1], logits

    def continued(state: Saved) -> npt.NDArray[np.float32]:
        # Something else happens in between, far enough to fill the window.
        evaluation.text(evaluation.runtime.backend.encode("and so on " * 120, special=False)[:200], evaluation.position)
        assert context.load_state(state.data)
        assert context.cut(state.position)
        evaluation.text(evaluation.runtime.map(two_images(1, 2)).ids[state.token :], state.position)
        return context.logits()

    wrong, _ = saved_after_second_image(two_images(1, 3))
    right, cold = saved_after_second_image(two_images(1, 2))
    assert np.abs(continued(right) - cold).max() < 1e-3
    assert np.abs(continued(wrong) - cold).max() > 1e-2


def test_after_an_image_text_goes_on_at_the_position_of_the_map_and_at_no_other(flat: Evaluation) -> None:
    context, content = flat.context, two_images(1, 2)
    tokens = flat.runtime.map(content)
    run = tokens.media[-1]
    after = run.position + run.n_pos
    context.clear()
    cold = flat.run(content)
    rest = tokens.ids[run.begin + run.n_tokens :]

    def continued(position: int) -> npt.NDArray[np.float32]:
        context.clear()
        states: list[Saved] = []
        flat.run(content, lambda at, where: states.append(Saved(at, where, context.save_state())))
        assert context.load_state(states[-1].data)
        assert context.cut(after)
        flat.text(rest, position)
        return context.logits()

    assert np.abs(continued(after) - cold).max() < 1e-4
    # What the memory's last position, and what the number of tokens would suggest.
    for wrong in (run.position + 1, run.begin + run.n_tokens):
        assert np.abs(continued(wrong) - cold).max() > 1e-2


def test_an_image_for_which_there_is_no_room_is_an_error_that_a_cleared_memory_survives(flat: Evaluation) -> None:
    context = flat.context
    context.clear()
    cold = flat.run(two_images(1, 2))
    large = read_media([{"role": "user", "content": [image_part(picture(640, 480))]}])[0, 0]
    with flat.runtime.projector.prepare(large, "image") as prepared:
        context.clear()
        position = prepared.evaluate(context, 1, 0)
        # 1,200 tokens of 40 positions: it is the tokens that need room.
        with pytest.raises(DecodeError):
            prepared.evaluate(context, 1, position)
    context.clear()
    assert np.array_equal(flat.run(two_images(1, 2)), cold)


def test_another_image_of_the_same_size_changes_what_follows(evaluation: Evaluation) -> None:
    def logits(seed: int) -> npt.NDArray[np.float32]:
        evaluation.context.clear()
        return evaluation.run([image_part(picture(64, 64, seed)), text_part("What?")])

    first = logits(1)
    assert np.array_equal(logits(1), first)
    assert np.abs(logits(2) - first).max() > 1e-2


def test_what_this_projector_does_not_take_is_refused_by_name(runtime: Runtime, listener: Runtime) -> None:
    media = read_media([{"role": "user", "content": [image_part(picture(9, 9)), audio_part(sound(1))]}])
    with pytest.raises(RequestError, match=r"messages\[0\].content\[0\].*takes no images"):
        listener.projector.expand(media[0, 0], "messages[0].content[0]")
    with pytest.raises(RequestError, match="takes no audio"):
        runtime.projector.expand(media[0, 1], "messages[0].content[1]")


def test_shapes_on_which_libmtmd_ends_the_process_are_refused(runtime: Runtime, listener: Runtime) -> None:
    thin = read_media([{"role": "user", "content": [image_part(picture(1, 201))]}])[0, 0]
    with pytest.raises(RequestError, match="too long and thin"):
        runtime.projector.expand(thin, "image")
    short = read_media([{"role": "user", "content": [audio_part(sound(0.05))]}])[0, 0]
    with pytest.raises(RequestError, match="shorter"):
        listener.projector.expand(short, "audio")


def test_an_image_whose_tokens_see_each_other_must_fit_in_a_micro_batch() -> None:
    options = ContextOptions(n_ctx=512, n_batch=64, n_ubatch=8, n_threads=1, exact=True)
    media = read_media([{"role": "user", "content": [image_part(picture(64, 64))]}])[0, 0]
    with (
        Model(ensure_model("swa")) as model,
        Projector(ensure_projector("gemma3"), model) as projector,
        Context(model, options) as context,
        projector.prepare(media, "image") as prepared,
        pytest.raises(RequestError, match="16 tokens must fit"),
    ):
        prepared.evaluate(context, 1, 0)


def test_a_projector_of_another_width_is_refused() -> None:
    with Model(ensure_model("dense")) as model, pytest.raises(ModelError, match="mismatch"):
        Projector(ensure_projector("gemma3", width=64), model)


def test_a_projector_file_that_is_cut_short_is_refused_with_the_cause(tmp_path: Path) -> None:
    whole = ensure_projector("qwen3vl").read_bytes()
    (tmp_path / "mmproj.gguf").write_bytes(whole[: len(whole) * 2 // 3])
    with Model(ensure_model("dense")) as model, pytest.raises(ModelError, match="failed to seek for tensor"):
        Projector(tmp_path / "mmproj.gguf", model)


def test_a_file_that_is_no_projector_is_refused() -> None:
    path = ensure_model("dense")
    with Model(path) as model, pytest.raises(ModelError, match="libmtmd cannot load it"):
        Projector(path, model)


def test_ids_of_media_are_in_no_vocabulary_and_follow_from_content(runtime: Runtime) -> None:
    def run(data: bytes) -> list[int]:
        tokens = runtime.map([image_part(data)])
        (run,) = tokens.media
        return tokens.ids[run.begin : run.begin + run.n_tokens]

    first = run(picture(64, 64, 1))
    assert all(id < -1 for id in first)
    assert run(picture(64, 64, 1, "BMP")) == first
    assert run(picture(64, 64, 2))[0] != first[0]
