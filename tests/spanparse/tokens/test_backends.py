"""Both backends on the same vocabulary: llama.cpp's reading of a GGUF file, and the Hugging Face form of that file.

The templates are the published ones and the bundled ones; the tests take a tenth of the published, all of them with
`SPANPARSE_TEMPLATES_EVERY=1`. The vocabularies are those of `SPANPARSE_TOKENIZERS` (all `ggml-vocab-*.gguf` in it that
hold byte-level BPE), and the tiny models'.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.audit.corpus import Template, bundled, published, sample
from tests.audit.subject import source_of
from tests.spanparse.tokens.gguf_form import hugging_face_form

from spanparse import Rendering, SpanparseError, TemplateSource, parse
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary, token_map

EVERY: Final = int(os.environ.get("SPANPARSE_TEMPLATES_EVERY", "10"))
SHARED: Final = Path(__file__).parents[4] / "shared" / "tokenizers"
FOLDER: Final = Path(os.environ.get("SPANPARSE_TOKENIZERS", SHARED))
FILES: Final = sorted(FOLDER.glob("ggml-vocab-*.gguf"))

# What tokenisers trip over: runs of white space, contractions, digits, scripts without spaces, joined emoji, combining
# marks, a byte order mark; and what only looks like markup.
TEXT: Final = (
    "It's   a test:\n\n\tdon't  merge 1234567 things, naïve café!?  \n\n\n    indented()\r\n日本語のテキスト。한국어 "
    "Ελληνικά עברית हिन्दी 👩‍👩‍👧 e\u0301\ufeff \u200b<b>bold</b> <|not_a_token|> [INST ] {'a': [1.5, -2]}  "
)
PLAIN: Final = [
    {"role": "system", "content": "Be brief. " + TEXT},
    {"role": "user", "content": TEXT},
    {"role": "assistant", "content": "Yes." + TEXT},
    {"role": "user", "content": "And then?"},
]
CALL: Final = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "read", "arguments": {"path": "a b/ü.txt", "lines": 120}},
}
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
]
WITH_TOOLS: Final = [
    {"role": "user", "content": "Read it."},
    {"role": "assistant", "content": "", "reasoning_content": "I should. " + TEXT, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "name": "read", "content": TEXT},
]


class Pair(NamedTuple):
    """One vocabulary read by both."""

    theirs: LlamaVocabulary
    ours: HuggingFaceTokenizer

    @property
    def read_differently(self) -> frozenset[str]:
        """Texts that are a special token to one and not to the other."""
        theirs, ours = ({text for text, token in backend.added.items() if token.special} for backend in self)
        return frozenset(theirs ^ ours)


@cache
def renderings() -> tuple[tuple[TemplateSource, Rendering], ...]:
    """What the templates make of both conversations, where they accept them."""
    return tuple(_renderings([*sample(published(), EVERY), *bundled()]))


@cache
def shorter() -> tuple[tuple[TemplateSource, Rendering], ...]:
    """The same without their last message; not as many, since some templates refuse that."""
    return tuple(_renderings([*sample(published(), EVERY), *bundled()], dropped=1))


def _renderings(templates: list[Template], dropped: int = 0) -> Iterator[tuple[TemplateSource, Rendering]]:
    for template in templates:
        source = source_of(template)
        for messages, tools in ((PLAIN, None), (WITH_TOOLS, TOOLS)):
            try:
                yield source, parse(source, messages[: len(messages) - dropped], tools=tools, verify=False)
            except SpanparseError:
                continue


@pytest.fixture(scope="module", params=FILES or [None], ids=lambda path: path and path.stem)
def pair(request: pytest.FixtureRequest) -> Pair:
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    if request.param is None:
        pytest.skip(f"no vocabularies in {FOLDER}")
    form = hugging_face_form(request.param)
    if form is None:
        pytest.skip(f"{request.param.name} is no byte-level BPE whose split is known")
    theirs = LlamaVocabulary(request.param)
    bos = None if theirs.bos is None else theirs.pieces[theirs.bos].decode()
    return Pair(theirs, HuggingFaceTokenizer(form, name=request.param.stem, bos=bos, add_bos=theirs.add_bos))


def differing(one: Backend, other: Backend, but: frozenset[str] = frozenset(), **options: Any) -> list[str]:
    """The templates whose prompts the two map differently; prompts that hold a text of `but` are left out."""
    found = []
    for template, rendering in renderings():
        if any(text in rendering.text for text in but):
            continue
        here, there = (token_map(rendering, backend, template=template.text, **options) for backend in (one, other))
        if (here.ids, here.offsets, here.barriers) != (there.ids, there.offsets, there.barriers):
            found.append(template.source)
    return found


def moved(backend: Backend) -> tuple[int, list[str]]:
    """How many barriers are kept when conversations go on, and the templates where the tokens before one are not."""
    longer: dict[str, list[str]] = {}
    ids = {}
    for template, rendering in renderings():
        longer.setdefault(template.source, []).append(rendering.text)
        ids[rendering.text] = token_map(rendering, backend, template=template.text).ids
    kept, lost = 0, []
    for template, rendering in shorter():
        before = token_map(rendering, backend, template=template.text)
        for barrier in before.barriers:
            for text in longer.get(template.source, ()):
                if text.startswith(rendering.text[: barrier.offset]):
                    kept += 1
                    if ids[text][: barrier.token] != before.ids[: barrier.token]:
                        lost.append(template.source)
    return kept, lost


@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path and path.stem)
def test_tokens_before_a_barrier_stay_when_the_conversation_goes_on(path: Path | None) -> None:
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    if path is None:
        pytest.skip(f"no vocabularies in {FOLDER}")
    kept, lost = moved(LlamaVocabulary(path))
    assert kept > 100
    assert lost == []


def test_tokens_of_the_tiny_vocabulary_before_a_barrier_stay_when_the_conversation_goes_on(
    tiny: HuggingFaceTokenizer,
) -> None:
    kept, lost = moved(tiny)
    assert kept > 20
    assert lost == []


@pytest.mark.parametrize("trust_content", [False, True])
def test_both_backends_map_published_templates_alike(pair: Pair, trust_content: bool) -> None:
    assert differing(*pair, pair.read_differently, trust_content=trust_content) == []


def test_llama_cpp_takes_texts_for_special_tokens_that_the_file_does_not_call_special(pair: Pair) -> None:
    """It does so by name: what ends a turn or marks a hole in some model or other, as `</s>` in Qwen's vocabulary."""
    for text in pair.read_differently:
        assert pair.theirs.encode(text, special=True) != pair.theirs.encode(text, special=False)
        assert pair.ours.encode(text, special=True) == pair.ours.encode(text, special=False)


def test_both_backends_map_published_templates_alike_on_the_tiny_vocabulary(
    tiny: HuggingFaceTokenizer, tiny_gguf: LlamaVocabulary
) -> None:
    assert differing(tiny, tiny_gguf) == []
    assert len(renderings()) > 20
