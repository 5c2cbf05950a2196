"""The vocabulary that all tiny models share: byte-level BPE with the control tokens of every bundled template.

Ids, in this order: the 256 bytes by value, one token for each line of `merges.txt` in rank order, the control tokens,
the user-defined tokens. `merges.txt` was trained once by `bench/train_tiny_vocabulary.py`; it stays as it is, because
golden token counts depend on it.

The same vocabulary is read by llama.cpp (from the model file) and by Hugging Face `tokenizers` (`hf_tokenizer`), and
both give the same ids for any text. Control tokens are matched in text only where special tokens are parsed
(`parse_special=True`, or `encode_special_tokens=False` there); user-defined tokens are matched always.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

N_BYTES = 256
N_MERGES = 3700

# llama.cpp's name of the pre-tokenizer below (`tokenizer.ggml.pre`).
PRE_TOKENIZER = "qwen2"

# Letters and digits that came with Unicode 16. llama.cpp's tables are Unicode 15.1 and take them for symbols.
_UNICODE_16 = (
    r"\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D40}-\x{10D85}\x{10EC2}-\x{10EC4}"
    r"\x{11380}-\x{113D3}\x{116D0}-\x{116E3}\x{11BC0}-\x{11BE0}\x{11BF0}-\x{11BF9}\x{13460}-\x{143FA}"
    r"\x{16100}-\x{16139}\x{16D40}-\x{16D79}\x{18CFF}\x{1CCF0}-\x{1CCF9}\x{1E5D0}-\x{1E5FA}"
)
_LETTER = rf"[\p{{L}}&&[^{_UNICODE_16}]]"
_DIGIT = rf"[\p{{N}}&&[^{_UNICODE_16}]]"

# Qwen 2's published split: contractions, words with the character before them, single digits, punctuation runs, spaces.
# Contractions are spelled as llama.cpp spells them; ignoring case would also match the long s, which it does not.
_SPLIT = (
    rf"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n{_LETTER}{_DIGIT}]?{_LETTER}+|{_DIGIT}"
    rf"| ?[^\s{_LETTER}{_DIGIT}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# GGUF's token types (`tokenizer.ggml.token_type`).
NORMAL = 1
CONTROL = 3
USER_DEFINED = 4

END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"

CONTROL_TOKENS: tuple[str, ...] = (
    # ChatML, with the media markers of Qwen's vision and audio models
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
    *("<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"),
    # Harmony (gpt-oss); its other five are user-defined, see below
    *("<|return|>", "<|call|>"),
    # Llama 3
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eot_id|>", "<|eom_id|>", "<|python_tag|>"),
    # Gemma 3
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
    # Gemma 4, without <|tool_response>: where llama.cpp sees it, it turns Mistral's </s> into plain text. It stands
    # right after another control token, so as plain text it moves no token border that matters
    *("<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>"),
    *("<tool_response|>", "<|channel>", "<channel|>", "<|think|>"),
    *("<|image|>", "<|audio|>", "<|video|>", '<|"|>'),
    # Mistral
    *("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    *("[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[IMG]"),
    # DeepSeek
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    *("<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
)

USER_DEFINED_TOKENS: tuple[str, ...] = (
    # Whatever type a file gives these, llama.cpp makes them user-defined
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>"),
    # Qwen's markers, as its own vocabulary has them
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
)


class Entry(NamedTuple):
    """One vocabulary entry: its text (normal tokens in GPT-2's printable byte alphabet) and GGUF token type."""

    text: str
    type: int


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte, indexed by the byte's value.

    Bytes that Latin-1 prints stand for themselves; the others take the code points from 256 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(N_BYTES)]


@cache
def merges() -> tuple[tuple[str, str], ...]:
    """The merges in rank order, each a pair of texts in the byte alphabet."""
    lines = files(__package__).joinpath("merges.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" ") for line in lines]
    return tuple((left, right) for left, right in pairs)


@cache
def entries() -> tuple[Entry, ...]:
    """Every entry; its index is the token's id."""
    normal = [*byte_alphabet(), *(left + right for left, right in merges())]
    return (
        *(Entry(text, NORMAL) for text in normal),
        *(Entry(text, CONTROL) for text in CONTROL_TOKENS),
        *(Entry(text, USER_DEFINED) for text in USER_DEFINED_TOKENS),
    )


@cache
def unspoken() -> tuple[int, ...]:
    """Ids of entries that no text would show as they are: control and user-defined tokens, parts of characters, and
    characters that a terminal does not print."""
    byte_of = {stand_in: byte for byte, stand_in in enumerate(byte_alphabet())}

    def is_printable(entry: Entry) -> bool:
        if entry.type != NORMAL:
            return False
        try:
            text = bytes(byte_of[stand_in] for stand_in in entry.text).decode("utf-8")
        except UnicodeDecodeError:
            return False
        return all(character.isprintable() or character in "\n\t" for character in text)

    return tuple(index for index, entry in enumerate(entries()) if not is_printable(entry))


def token_id(text: str) -> int:
    """The id of the entry whose text is `text`. Raises KeyError when there is none."""
    return _ids()[text]


@cache
def _ids() -> dict[str, int]:
    return {entry.text: index for index, entry in enumerate(entries())}


def pre_tokenizer() -> PreTokenizer:
    """What cuts text into the words that merges stay inside, and maps them to the byte alphabet."""
    split = Split(Regex(_SPLIT), behavior="isolated")
    return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])


def hf_tokenizer() -> Tokenizer:
    """A new Hugging Face tokenizer with the vocabulary's ids, made from `merges.txt` alone.

    It adds no beginning-of-sequence token. Set its `encode_special_tokens` to tokenise control tokens as plain text, as
    llama.cpp does with `parse_special=False`.
    """
    normal = {entry.text: index for index, entry in enumerate(entries()) if entry.type == NORMAL}
    tokenizer = Tokenizer(BPE(vocab=normal, merges=list(merges())))
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL_TOKENS])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in USER_DEFINED_TOKENS])
    return tokenizer
