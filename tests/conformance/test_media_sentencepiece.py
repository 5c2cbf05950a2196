"""Media in prompts of a SentencePiece vocabulary, whose dummy space begins every stretch of text between media anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.mtmd import MARKER, expected_pieces, image_part, picture, pieces, text_part

from runtime.llama import Model
from runtime.media import Projector
from runtime.tiny import ensure_projector
from runtime.tiny.architecture import CONTEXT_LENGTH, EPSILON, Tensor, architecture
from runtime.tiny.file import _values
from spanparse import TemplateSource, parse
from spanparse.media import insertions, read_media
from spanparse.tokens import LlamaVocabulary, token_map

WIDTH = 64
# Text before and after media, with and without special tokens and white space there.
TEMPLATES = {
    "turns": "{% for m in messages %}<s>[{{ m.role }}] BODY</s>{% endfor %}",
    "bare": "{% for m in messages %}{{ m.role }}: BODY\n{% endfor %}",
    "tight": "{% for m in messages %}BODY{% endfor %}",
}
BODY = (
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<start_of_image>{% endif %}"
    "{% endfor %}"
)
FILES = [picture(20, 20, seed) for seed in range(2)]

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def vocabulary() -> list[tuple[str, float, int]]:
    """Text, score and type of each token: bytes, letters and a few words with and without the dummy space."""
    words = ["▁", *"abcdefghijklmnopqrstuvwxyz .,:[]", "▁a", "▁th", "▁the", "he", "the", "▁▁", "us", "er", "▁s", "se"]
    return [
        ("<unk>", 0.0, UNKNOWN),
        ("<s>", 0.0, CONTROL),
        ("</s>", 0.0, CONTROL),
        *((f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)),
        *((text, -float(rank), NORMAL) for rank, text in enumerate(reversed(dict.fromkeys(words)))),
        ("<start_of_image>", 0.0, CONTROL),
        ("<end_of_image>", 0.0, CONTROL),
    ]


@pytest.fixture(scope="module", params=[True, False], ids=["dummy space", "no dummy space"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The tiny dense model with that vocabulary."""
    arch, tokens = architecture("dense", WIDTH), vocabulary()
    path = tmp_path_factory.mktemp("models") / "spm.gguf"
    writer = gguf.GGUFWriter(path, arch.name)
    writer.add_block_count(arch.n_layers)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(WIDTH)
    writer.add_layer_norm_rms_eps(EPSILON)
    for key, value in arch.metadata.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{arch.name}.{key}", value)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(request.param)
    writer.add_add_bos_token(True)
    for tensor in arch.tensors:
        if tensor.name in ("token_embd.weight", "output.weight"):
            tensor = Tensor(tensor.name, (len(tokens), WIDTH), std=0.05)
        writer.add_tensor(tensor.name, _values(tensor, 0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with Model(path) as made:
        yield made


@pytest.fixture(scope="module")
def projector(model: Model) -> Iterator[Projector]:
    with Projector(ensure_projector("gemma3", width=WIDTH), model, n_threads=1) as made:
        yield made


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TEMPLATES)),
    st.lists(st.integers(0, 1) | st.text("the us. é日", max_size=8), min_size=1, max_size=6),
    st.booleans(),
)
def test_text_between_media_has_the_tokens_that_libmtmd_gives_it(
    model: Model, projector: Projector, name: str, content: list[int | str], trust_content: bool
) -> None:
    template = TemplateSource("test", TEMPLATES[name].replace("BODY", BODY), "", None, {}, None)
    backend = LlamaVocabulary(model.pointer)

    def messages(image: Any) -> list[dict[str, Any]]:
        parts = [text_part(part) if isinstance(part, str) else image(FILES[part]) for part in content]
        return [{"role": "user", "content": parts}]

    rendering = parse(template, messages(image_part))
    filled = insertions(rendering, read_media(messages(image_part)), projector.expand, backend)
    tokens = token_map(rendering, backend, template=template.text, trust_content=trust_content, media=filled)
    marked = parse(template, messages(lambda data: text_part(MARKER))).text
    expected = expected_pieces(projector, marked, [FILES[part] for part in content if isinstance(part, int)])
    if marked.startswith("<s>"):
        # libmtmd begins with two, a token map never does.
        assert expected[0][0] == expected[0][1] == backend.bos
        expected[0] = expected[0][1:]
    assert pieces(tokens) == expected
