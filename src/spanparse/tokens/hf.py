"""Tokenisers in the form of Hugging Face's `tokenizers` library."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import tokenizers

from spanparse.errors import SourceError
from spanparse.files import read_file
from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.words import WordEnds, splits_locally

# Unicode's White_Space property: what `tokenizers` strips beside added tokens.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")

# Eight times the largest tokenizer.json in use: a device without end must not fill the memory.
_MAX_FILE_BYTES = 1 << 28

_UNICODE_FORMS = frozenset({"NFC", "NFKC"})
_LOCAL_NORMALIZERS = _UNICODE_FORMS | {"Prepend", "Replace"}
_AT_SPACES = {"String": " "}
_LOCAL_PRE_TOKENIZERS = frozenset({"ByteLevel", "Digits", "Metaspace", "Punctuation"})


class HuggingFaceTokenizer:
    """A backend over a `tokenizers.Tokenizer`.

    `bos` and `eos` are token texts. `add_bos` None means: as the tokeniser's post-processor does.
    Raises `SourceError` if `bos` or `eos` is not in the vocabulary.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        name: str = "tokenizer",
        bos: str | None = None,
        eos: str | None = None,
        add_bos: bool | None = None,
    ) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._lock = Lock()
        self._parts = [_state(tokenizer.normalizer), _state(tokenizer.pre_tokenizer), _state(tokenizer.decoder)]
        self._only_at_start = any(part.get("prepend_scheme") == "first" for part in _walk(self._parts[1]))
        self._literal = {id: token.content for id, token in tokenizer.get_added_tokens_decoder().items()}
        self.added = AddedTokens(self._added_tokens())
        self.pieces = Pieces(self._piece)
        begins_with = self._bos_of_post_processor()
        self.bos = self._id(bos) if bos is not None else begins_with
        self.eos = self._id(eos) if eos is not None else None
        self.add_bos = self.bos is not None and (begins_with is not None if add_bos is None else add_bos)

    @classmethod
    def from_file(cls, path: str | Path) -> HuggingFaceTokenizer:
        """Read a tokenizer.json, or the one in a folder; a tokenizer_config.json beside it names BOS and EOS.

        Raises `SourceError`.
        """
        file = Path(path)
        if file.is_dir():
            file = file / "tokenizer.json"
        try:
            tokenizer = tokenizers.Tokenizer.from_str(_text(file))
        except OSError as error:
            raise SourceError(str(path), f"cannot read {file.name}: {error.strerror}") from None
        except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
            raise SourceError(str(path), f"{file.name} is not a tokenizer: {error}") from None
        # A prompt is never cut or filled up, whatever the file was last used for.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        config = _config(file.with_name("tokenizer_config.json"), str(path))
        add_bos = config.get("add_bos_token")
        return cls(
            tokenizer,
            name=str(path),
            bos=_token_text(config.get("bos_token"), tokenizer),
            eos=_token_text(config.get("eos_token"), tokenizer),
            add_bos=add_bos if isinstance(add_bos, bool) else None,
        )

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        return self._encode(text, special).ids if prefix else self._encode_without_prefix(text, special)[0]

    def encode_all(self, texts: Sequence[str], starts: Sequence[int], control: frozenset[int]) -> None:
        """None: beside this tokeniser, what is done in Python does not show."""

    def align(self, text: str, *, prefix: bool = True) -> Sequence[int]:
        if not prefix:
            return self._encode_without_prefix(text, False)[1]
        return [start for start, _ in self._encode(text, False).offsets]

    def _encode(self, text: str, special: bool, tokenizer: tokenizers.Tokenizer | None = None) -> tokenizers.Encoding:
        tokenizer = tokenizer or self._tokenizer
        # Whether special tokens are found is a state of the tokenizer, not an argument: without the lock a thread that
        # trusts its content would let another's forge control tokens. Put back: the tokenizer may not be ours alone.
        with self._lock:
            before = tokenizer.encode_special_tokens
            tokenizer.encode_special_tokens = not special
            try:
                return tokenizer.encode(text, add_special_tokens=False)
            finally:
                tokenizer.encode_special_tokens = before

    def _encode_without_prefix(self, text: str, special: bool) -> tuple[list[int], list[int]]:
        """Ids and their starts. The dummy space is left out before the text, not behind added tokens in it."""
        encoding = self._encode(text, special, self._without_prefix)
        ids, starts = encoding.ids, [start for start, _ in encoding.offsets]
        if self._without_prefix is self._tokenizer or self._only_at_start:
            return ids, starts
        decoder = self._tokenizer.get_added_tokens_decoder()
        for index, id in enumerate(ids):
            token = decoder.get(id)
            if token is not None and (special or not token.special):
                end = encoding.offsets[index][1]
                while token.rstrip and end < len(text) and text[end] in _WHITE_SPACE:
                    end += 1
                rest = self._encode(text[end:], special)
                return ids[: index + 1] + rest.ids, starts[: index + 1] + [end + start for start, _ in rest.offsets]
        return ids, starts

    def _added_tokens(self) -> Iterator[AddedToken]:
        normalizer = self._tokenizer.normalizer
        for id, token in self._tokenizer.get_added_tokens_decoder().items():
            # Found or not according to what stands around them (`normalized` with a normaliser that puts `▁` before a
            # text finds `▁<name>` only): no text can be cut there. The tokeniser finds them itself.
            moved = token.normalized and normalizer and normalizer.normalize_str(token.content) != token.content
            if (token.single_word or moved) and not token.special:
                continue
            yield AddedToken(
                token.content,
                id,
                token.special,
                lstrip=_WHITE_SPACE if token.lstrip else "",
                rstrip=_WHITE_SPACE if token.rstrip else "",
                prefix_after=not self._only_at_start,
            )

    @cached_property
    def _without_prefix(self) -> tokenizers.Tokenizer:
        """The same tokeniser without the dummy space that it puts before a text; itself if it puts none."""
        if _without_prefix(self._parts[:2]) == self._parts[:2]:
            return self._tokenizer
        state = json.loads(self._tokenizer.to_str())
        state["normalizer"], state["pre_tokenizer"] = _without_prefix(self._parts[:2])
        return tokenizers.Tokenizer.from_str(json.dumps(state))

    @cached_property
    def word_ends(self) -> WordEnds | None:
        normalizer, pre_tokenizer, _ = self._parts
        if not (_merges_bytes(self._tokenizer.model, self._bytes_of_letters is not None) and _is_local(pre_tokenizer)):
            return None
        if any(part.get("type") not in _LOCAL_NORMALIZERS for part in _components(normalizer)):
            return None
        normalised = any(part.get("type") in _UNICODE_FORMS for part in _components(normalizer))
        return WordEnds(map(self.pieces.__getitem__, self._tokenizer.get_vocab().values()), normalised=normalised)

    @cached_property
    def _bytes_of_letters(self) -> dict[str, int] | None:
        return _byte_letters() if any(part.get("type") == "ByteLevel" for part in _walk(self._parts)) else None

    def _piece(self, id: int) -> bytes:
        if id in self._literal:
            return self._literal[id].encode()
        token = self._tokenizer.id_to_token(id)
        if token is None:
            raise KeyError(id)
        letters = self._bytes_of_letters
        if letters is not None:
            return b"".join(bytes([letters[c]]) if c in letters else c.encode() for c in token)
        byte = _BYTE_TOKEN.fullmatch(token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()

    def _id(self, token: str) -> int:
        id = self._tokenizer.token_to_id(token)
        if id is None:
            raise SourceError(self.name, f"token {token!r} is not in the vocabulary")
        return id

    def _bos_of_post_processor(self) -> int | None:
        plain = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a", add_special_tokens=True).ids
        return whole[0] if whole[:1] != plain[:1] and whole[0] in self._literal else None


def _state(part: Any) -> Any:
    """The JSON form of a component, by way of its pickled state: the whole tokenizer's would take a second."""
    return None if part is None else json.loads(part.__getstate__())


def _walk(state: Any) -> Iterator[dict[str, Any]]:
    """All components in a state, a sequence's before what it holds."""
    if isinstance(state, dict):
        yield state
    if isinstance(state, (dict, list)):
        for inner in state.values() if isinstance(state, dict) else state:
            yield from _walk(inner)


def _components(state: Any) -> Iterator[dict[str, Any]]:
    """The components in a state that are no sequences."""
    for part in _walk(state):
        if part.get("type") not in (None, "Sequence"):
            yield part


def _is_local(pre_tokenizer: Any) -> bool:
    """Whether text is split by rules that are known to split both sides of a word's end by themselves."""
    return all(
        part["pattern"] == _AT_SPACES or splits_locally(part["pattern"].get("Regex", "?"))
        if part["type"] == "Split"
        else part["type"] in _LOCAL_PRE_TOKENIZERS
        for part in _components(pre_tokenizer)
    )


def _merges_bytes(model: Any, byte_level: bool) -> bool:
    """Whether it is a BPE that spells any text, unknown characters as bytes, and always the same way."""
    return (
        isinstance(model, tokenizers.models.BPE)
        and not (model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix)
        and (byte_level or model.byte_fallback)
    )


def _without_prefix(state: Any) -> Any:
    if isinstance(state, list):
        kept = [_without_prefix(inner) for inner in state]
        return [new for old, new in zip(state, kept, strict=True) if old is None or new is not None]
    if not isinstance(state, dict):
        return state
    if state.get("type") == "Prepend":
        return None
    changed = {key: _without_prefix(value) for key, value in state.items()}
    if "prepend_scheme" in changed:
        changed["prepend_scheme"] = "never"
    if "add_prefix_space" in changed:
        changed["add_prefix_space"] = False
    return changed


def _byte_letters() -> dict[str, int]:
    """The byte that each letter of a byte-level vocabulary stands for (GPT-2's table): itself if printable."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _text(path: Path) -> str:
    """The text of a file; raises OSError, also for one that no tokenizer is as large as, and UnicodeDecodeError."""
    data = read_file(path, _MAX_FILE_BYTES)
    if data is None:
        raise OSError(errno.EFBIG, f"larger than {_MAX_FILE_BYTES >> 20} MiB")
    return data.decode("utf-8")


def _config(path: Path, source: str) -> dict[str, Any]:
    try:
        config = json.loads(_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SourceError(source, f"cannot read {path.name}: {error}") from None
    if not isinstance(config, dict):
        raise SourceError(source, f"{path.name} is not a JSON object")
    return config


def _token_text(token: Any, tokenizer: tokenizers.Tokenizer) -> str | None:
    """A token in tokenizer_config.json: its text, or an object with the text as `content`.

    None if the vocabulary does not have it, as happens in published models that never use it.
    """
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and tokenizer.token_to_id(token) is not None else None
