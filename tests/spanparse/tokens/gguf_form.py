"""The Hugging Face form of a byte-level BPE vocabulary, made from a GGUF file's own metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN_2 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The letters of cased scripts, as the tokeniser of DeepSeek LLM lists them.
_CASED = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}"
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}"
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}"
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}"
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}"
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}"
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}"
    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}"
    r"\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}"
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}"
)
_EAST_ASIAN = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"
_SPLITS: Final = {
    "gpt-2": [_GPT_2],
    "mpt": [_GPT_2],
    "starcoder": [r"\p{N}", _GPT_2],
    "refact": [r"\p{N}", _GPT_2],
    "command-r": [r"\p{N}", _GPT_2],
    "llama-bpe": [_QWEN_2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")],
    "qwen2": [_QWEN_2],
    "qwen35": [_QWEN_2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "deepseek-llm": [
        r"[\r\n]",
        rf"\s?[{_CASED}]+",
        r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
        r"\s+$",
        _EAST_ASIAN,
        r"\p{N}+",
    ],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", _GPT_2, "[0-9][0-9][0-9]"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}"],
}
"""By llama.cpp's name (`tokenizer.ggml.pre`): what the published tokenisers split text by, one after the other."""


def metadata(path: Path) -> dict[str, Any]:
    """All metadata of a GGUF file of version 2 or 3, arrays as lists."""
    data = path.read_bytes()
    at = 24

    def read(kind: int) -> Any:
        nonlocal at
        if kind == _STRING:
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8 + length
            return data[at - length : at].decode("utf-8", "surrogateescape")
        if kind == _ARRAY:
            inner, length = struct.unpack_from("<IQ", data, at)
            at += 12
            return [read(inner) for _ in range(length)]
        (value,) = struct.unpack_from(f"<{_SCALARS[kind]}", data, at)
        at += struct.calcsize(_SCALARS[kind])
        return value

    fields = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        name = read(_STRING)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        fields[name] = read(kind)
    return fields


def hugging_face_form(path: Path) -> Tokenizer | None:
    """The tokeniser; None if the file holds no BPE vocabulary, or one whose split is not listed here."""
    fields = metadata(path)
    splits = _SPLITS.get(fields.get("tokenizer.ggml.pre", ""))
    if fields["tokenizer.ggml.model"] != "gpt2" or splits is None:
        return None
    texts, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    added = {id: type for id, type in enumerate(types) if type in (_UNKNOWN, _CONTROL, _USER_DEFINED)}
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    ignore_merges = fields["tokenizer.ggml.pre"] == "llama-bpe"
    vocabulary = {text: id for id, text in enumerate(texts) if id not in added}
    # An added token keeps the id that the model has for its text.
    vocabulary |= {texts[id]: id for id in added}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = _pre_tokenizer(splits)
    tokenizer.decoder = decoders.ByteLevel()
    for id, type in added.items():
        token = AddedToken(texts[id], special=type != _USER_DEFINED, normalized=False)
        (tokenizer.add_tokens if type == _USER_DEFINED else tokenizer.add_special_tokens)([token])
    return tokenizer


def _pre_tokenizer(splits: list[str]) -> PreTokenizer:
    def parts() -> Iterator[PreTokenizer]:
        yield from (Split(Regex(split), behavior="isolated") for split in splits)
        yield ByteLevel(add_prefix_space=False, use_regex=False)

    return Sequence(list(parts()))
