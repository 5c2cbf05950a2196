"""Small tokenisers of every kind, the real ones where they are at hand, and prompts put together by hand."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from spanparse.deferred import Deferred
from spanparse.spans import Barrier, BarrierKind, MessageSpan, Piece, Preamble, Rendering, Spans
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary

# The first example may load a vocabulary, and nothing here is about time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = Path(__file__).parents[3]
REAL = Path(os.environ.get("SPANPARSE_TOKENIZERS", REPOSITORY.parent / "shared" / "tokenizers"))

# Text the small tokenisers are trained on: enough for a few merges, also across words and lines.
CORPUS = [
    "hello world, this is the text that the tokeniser learns from.\n\n",
    "Hello again!  The quick brown fox; the lazy dog's 123 bones...\n\tindented = {'a': [1, 2]}\n",
    "ab.\n\nab\n\n\nhello\nhello x\n\n    ab\n\nhello.\n\n",  # merges across line breaks
    "Größe über alles: naïve café, 日本語のテキスト, 👩‍👩‍👧 emoji.\n",
] * 10

SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<|end|>"]
# `<｜User｜>` as in DeepSeek V3; `<tool>` a template may emit; `<b>` none does.
UNFLAGGED = ["<｜User｜>", "<tool>", "<b>"]


def _byte_level(normalizer: normalizers.Normalizer | None = None, add_prefix_space: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _sentence_piece(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None, normalizer: normalizers.Normalizer | None
) -> Tokenizer:
    """BPE with byte fallback. The byte tokens are put into the trained vocabulary, where they are ordinary tokens."""
    trained = Tokenizer(models.BPE())
    if pre_tokenizer is not None:
        trained.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        trained.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=400, limit_alphabet=60, show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    state = json.loads(trained.to_str())
    vocabulary: dict[str, int] = state["model"]["vocab"]
    for token in ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]:
        vocabulary.setdefault(token, len(vocabulary))
    state["model"] |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    return Tokenizer.from_str(json.dumps(state))


def _with_added(tokenizer: Tokenizer, **flags: bool) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, **flags) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in UNFLAGGED])
    # Runs of white space are added tokens too, where nothing swallows them.
    tokenizer.add_tokens([AddedToken("  \n", normalized=False)] if not flags else [])
    return tokenizer


_SPACES = normalizers.Replace(" ", "▁")
SMALL: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": lambda: _with_added(_byte_level()),
    "byte-level, prefix space": lambda: _with_added(_byte_level(add_prefix_space=True)),
    "byte-level, stripping": lambda: _with_added(_byte_level(), lstrip=True, rstrip=True),
    "metaspace, first": lambda: _with_added(_sentence_piece(pre_tokenizers.Metaspace(prepend_scheme="first"), None)),
    "metaspace, always": lambda: _with_added(_sentence_piece(pre_tokenizers.Metaspace(prepend_scheme="always"), None)),
    "metaspace, never": lambda: _with_added(_sentence_piece(pre_tokenizers.Metaspace(prepend_scheme="never"), None)),
    "prepending normaliser": lambda: _with_added(
        _sentence_piece(None, normalizers.Sequence([normalizers.Prepend("▁"), _SPACES]))
    ),
}


@pytest.fixture(scope="session")
def small() -> dict[str, HuggingFaceTokenizer]:
    """Trained tokenisers by kind, which all know `SPECIAL` and `UNFLAGGED`."""
    return {name: HuggingFaceTokenizer(make(), name=name, bos="<s>", eos="</s>") for name, make in SMALL.items()}


@pytest.fixture(scope="session")
def composing() -> HuggingFaceTokenizer:
    """A tokeniser whose normaliser changes text: it composes accents."""
    return HuggingFaceTokenizer(_with_added(_byte_level(normalizers.NFC())), name="composing")


@pytest.fixture(scope="session")
def llama_spm(tmp_path_factory: pytest.TempPathFactory) -> LlamaVocabulary:
    """A SentencePiece vocabulary of llama.cpp's: adds BOS and dummy spaces, swallows white space after its tokens.

    It has merges that lead to `</s>`. The name is what makes llama.cpp swallow white space.
    """
    return LlamaVocabulary(_write_spm(tmp_path_factory.mktemp("spm") / "spm.gguf", "phi-3"))


def _write_spm(path: Path, name: str) -> Path:
    gguf: Any = pytest.importorskip("gguf", reason="writing a GGUF vocabulary needs the [runtime] extra")
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    control, user_defined, normal, byte = 3, 4, 1, 6
    tokens = {"<unk>": control, "<s>": control, "</s>": control, **{f"<0x{n:02X}>": byte for n in range(256)}}
    words = ["he", "ll", "hell", "hello", "▁hello", "▁", "▁▁", "wo", "rld", "▁wo", "▁world", "</", "s>"]
    tokens |= dict.fromkeys([*words, *"abcdefghijklmnopqrstuvwxyzHW.,!?<>|/_:\n"], normal)
    tokens |= dict.fromkeys(["<|user|>", "<|end|>", "<|endoftext|>"], control)
    tokens |= dict.fromkeys(["<tool>", "<b>"], user_defined)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(tokens))
    writer.add_token_scores([-float(n) if kind == normal else 0.0 for n, kind in enumerate(tokens.values())])
    writer.add_token_types(list(tokens.values()))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def real_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks a real Hugging Face tokeniser (`qwen3`, `gptoss`) into a folder."""

    def unpack(name: str) -> Path:
        source = REAL / name
        if not source.is_dir():
            pytest.skip(f"the {name} tokenizer is not in {REAL}")
        folder = tmp_path_factory.mktemp(name)
        (folder / "tokenizer.json").write_bytes(gzip.decompress((source / "tokenizer.json.gz").read_bytes()))
        (folder / "tokenizer_config.json").write_bytes((source / "tokenizer_config.json").read_bytes())
        return folder

    return unpack


@pytest.fixture(scope="session")
def real_gguf() -> Callable[[str], LlamaVocabulary]:
    """Loads a real llama.cpp vocabulary (`qwen35`, `deepseek-llm`, `phi-3`, `gpt-2`)."""
    loaded: dict[str, LlamaVocabulary] = {}

    def load(name: str) -> LlamaVocabulary:
        pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
        path = REAL / f"ggml-vocab-{name}.gguf"
        if not path.exists():
            pytest.skip(f"the {name} vocabulary is not in {REAL}")
        return loaded.setdefault(name, loaded.get(name) or LlamaVocabulary(path))

    return load


@pytest.fixture(scope="session")
def tiny() -> HuggingFaceTokenizer:
    """The tiny models' vocabulary, read by `tokenizers`."""
    tiny = pytest.importorskip("runtime.tiny", reason="the tiny models' vocabulary needs the [runtime] extra")
    return HuggingFaceTokenizer(tiny.vocabulary.hf_tokenizer(), name="tiny")


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> LlamaVocabulary:
    """The same, read by llama.cpp from a model file."""
    tiny = pytest.importorskip("runtime.tiny", reason="writing a tiny model needs the [runtime] extra")
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    path = tmp_path_factory.mktemp("tiny") / "dense.gguf"
    tiny.write_model("dense", path)
    return LlamaVocabulary(path)


@pytest.fixture(scope="session")
def load(
    real_folder: Callable[[str], Path], real_gguf: Callable[[str], LlamaVocabulary], request: pytest.FixtureRequest
) -> Callable[[str], Backend]:
    """Loads a real vocabulary, or the tiny models' (`tiny`), by its name; with `.gguf` the one that llama.cpp reads."""
    loaded: dict[str, Backend] = {}

    def load(name: str) -> Backend:
        stem, dot, _ = name.partition(".gguf")
        if stem == "tiny":
            tiny: Backend = request.getfixturevalue("tiny_gguf" if dot else "tiny")
            return tiny
        if name not in loaded:
            loaded[name] = real_gguf(stem) if dot else HuggingFaceTokenizer.from_file(real_folder(stem))
        return loaded[name]

    return load


class Prompt:
    """Puts a rendering together from text whose owner and origin are known."""

    def __init__(self) -> None:
        self.text = ""
        self._owners: list[tuple[int | str, Piece]] = []
        self._caller: list[Piece] = []

    def add(self, owner: int | str, *parts: str | tuple[str]) -> Prompt:
        """Append text of message `owner`, "preamble" or "generation": literals as strings, callers' as 1-tuples."""
        start = len(self.text)
        for part in parts:
            text = part if isinstance(part, str) else part[0]
            if not isinstance(part, str) and text:
                self._caller.append(Piece(len(self.text), len(self.text) + len(text)))
            self.text += text
        self._owners.append((owner, Piece(start, len(self.text))))
        return self

    def rendering(self) -> Rendering:
        """The rendering so far, with a barrier wherever the owner changes."""
        pieces: dict[int | str, list[Piece]] = {}
        barriers = []
        for owner, piece in self._owners:
            pieces.setdefault(owner, []).append(piece)
            if piece.start > 0:
                message = owner if isinstance(owner, int) else None
                kind: BarrierKind = "user_start" if isinstance(owner, int) else "generation_prompt"
                barriers.append(Barrier(piece.start, kind, message, stable=True))
        preamble = pieces.pop("preamble", [Piece(0, 0)])[0]
        generation_prompt = pieces.pop("generation", [None])[0]
        messages = [MessageSpan(i, "user", tuple(p), ()) for i, p in pieces.items() if isinstance(i, int)]
        spans = Spans(Preamble(*preamble), tuple(messages), tuple(barriers), None, tuple(self._caller))
        return Rendering(self.text, "auto", None, generation_prompt, Deferred.done(spans))


@pytest.fixture(scope="session")
def prompt() -> Callable[[], Prompt]:
    return Prompt


@pytest.fixture(scope="session")
def chat() -> Callable[..., Rendering]:
    """A rendering of user messages in a format of `<|user|>` and `<|end|>`, which all small tokenisers know."""

    def render(
        contents: Iterable[str],
        *,
        bos: str = "",
        separator: str = "\n",
        opening: str = "<|user|>",
        closing: str = "<|end|>",
    ) -> Rendering:
        built = Prompt()
        if bos:
            built.add("preamble", bos)
        for index, content in enumerate(contents):
            built.add(index, opening + separator, (content,), closing + separator)
        return built.add("generation", opening + separator).rendering()

    return render
