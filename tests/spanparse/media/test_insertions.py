"""What goes in place of placeholders, asked of the runtime or estimated."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.tiny import vocabulary
from spanparse import MediaUnavailable, load_source, parse
from spanparse.media import Media, insertions, read_media
from spanparse.media.estimate import OTHER, RULES, grid
from spanparse.sources import TemplateSource
from spanparse.tokens import HuggingFaceTokenizer, token_map
from spanparse.tokens.media import Expansion, Insertion, media_chunk, text_chunk

User = Callable[..., list[dict[str, Any]]]
BACKEND = HuggingFaceTokenizer(vocabulary.hf_tokenizer())


def estimated(template: str, messages: list[dict[str, Any]]) -> list[Insertion]:
    return insertions(parse(load_source(template), messages), read_media(messages), None, BACKEND)


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image", "image": data}


@pytest.mark.parametrize(
    ("template", "size", "n_tokens", "n_pos"),
    [
        ("chatml", (320, 192), 60, 10),
        ("chatml", (16, 16), 9, 3),
        ("gemma3", (320, 192), 256, 256),
        ("gemma4", (960, 480), 200, 200),
        ("mistral-v7", (280, 280), 100, 100),
    ],
)
def test_an_image_without_a_projector_is_estimated_by_a_named_rule(
    picture: Callable[..., bytes], user: User, template: str, size: tuple[int, int], n_tokens: int, n_pos: int
) -> None:
    (found,) = estimated(template, user("a", image(picture(*size))))
    (run,) = [chunk for chunk in found.expansion.chunks if chunk.is_media]
    assert (len(run.ids), run.n_pos) == (n_tokens, n_pos)
    assert not found.expansion.exact
    assert found.expansion.rule


@pytest.mark.parametrize(("seconds", "n_tokens"), [(0.1, 13), (1, 13), (1.2, 26)])
def test_a_recording_without_a_projector_is_estimated(
    sound: Callable[..., bytes], user: User, seconds: float, n_tokens: int
) -> None:
    (found,) = estimated("chatml", user({"type": "audio", "audio": sound(round(8000 * seconds))}))
    assert [len(chunk.ids) for chunk in found.expansion.chunks] == [1, n_tokens, 1]


def test_an_estimate_has_the_texts_that_the_runtime_puts_around(picture: Callable[..., bytes], user: User) -> None:
    (found,) = estimated("gemma3", user(image(picture())))
    before, _, after = found.expansion.chunks
    assert (before.ids, after.ids) == (
        (vocabulary.token_id("<start_of_image>"),),
        (vocabulary.token_id("<end_of_image>"),),
    )


@settings(deadline=None)
@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 50), st.integers(1, 40), st.integers(200, 5000))
def test_a_grid_is_within_its_limits_but_for_rounding(
    width: int, height: int, side: int, least: int, most: int
) -> None:
    across, down = grid(width, height, side, least, most)
    assert min(across, down) >= 1
    assert across * down >= least or min(across, down) == 1
    # A side of less than one square is one square all the same.
    assert across * down <= most or 1 in (across, down)


def test_the_runtime_is_asked_by_the_name_of_the_part(picture: Callable[..., bytes], user: User) -> None:
    asked = []

    def expand(media: Media, where: str) -> Expansion:
        asked.append((media.id, where))
        return Expansion(media.id, (text_chunk([1]), media_chunk(media.id, 1, 5, 3)), exact=True)

    messages = user("a", image(picture(seed=1)), image(picture(seed=2)))
    media = read_media(messages)
    rendering = parse(load_source("chatml"), messages)
    found = insertions(rendering, media, expand, BACKEND)
    assert asked == [(media[0, place].id, f"messages[0].content[{place}]") for place in (1, 2)]
    tokens = token_map(rendering, BACKEND, media=found)
    assert [(run.part, run.index, run.n_tokens, run.n_pos, run.exact) for run in tokens.media] == [
        (1, 0, 5, 3, True),
        (2, 1, 5, 3, True),
    ]


@pytest.mark.parametrize(("shown", "reason"), [("", "shows nothing of it"), ("[a picture]", "no known placeholder")])
def test_media_that_a_template_does_not_show_are_named(
    picture: Callable[..., bytes], user: User, shown: str, reason: str
) -> None:
    text = "{% for part in messages[0].content %}{{ part.text or '" + shown + "' }}{% endfor %}"
    messages = user("a", image(picture()))
    rendering = parse(TemplateSource("test", text, "", None, {}, None), messages)
    with pytest.raises(MediaUnavailable, match=rf"messages\[0\].content\[1\]: the template .*{reason}"):
        insertions(rendering, read_media(messages), None, BACKEND)


def test_the_documentation_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "media.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (.+) \| ([\w-]+: .+) \|$", page, re.MULTILINE))
    documented = {placeholder.strip("`").replace("\\", ""): rule for placeholder, rule in rows.items()}
    assert documented == {**{text: rule.name for text, rule in RULES.items()}, "any other": OTHER.name}


def test_video_is_refused_with_a_way_out(user: User) -> None:
    with pytest.raises(MediaUnavailable, match=r"messages\[0\].content\[0\]: video is not supported; send frames"):
        read_media(user({"type": "video", "video": b"\0\0\0\x18ftypmp42"}))
