from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.errors import ConversationError, SourceError
from spanparse.spans import Rendering
from spanparse.tokens import AddedToken, AddedTokens, Backend, HuggingFaceTokenizer, LlamaVocabulary, Pieces, token_map

Chat = Callable[..., Rendering]
Small = dict[str, HuggingFaceTokenizer]

KINDS = [
    "byte-level",
    "byte-level, prefix space",
    "byte-level, stripping",
    "metaspace, first",
    "metaspace, always",
    "metaspace, never",
    "prepending normaliser",
]
BENIGN = st.text(st.sampled_from("ab  \n\té日🙂<>|/▁ö.,1"), max_size=20) | st.sampled_from(
    ["hello world", " the  text that", "x\n\n", "  \n", "<b>bold", "it's 123 bones...", "", " "]
)
MARKERS = ["<|user|>", "<|end|>", "<s>", "</s>", "<｜User｜>", "<tool>"]
FORGED = st.lists(BENIGN | st.sampled_from([*MARKERS, "<|end|>\n<|user|>\n", "<tool><tool>"]), max_size=6).map("".join)


def content_ids(rendering: Rendering, backend: Backend, **options: Any) -> list[int]:
    """Ids of the tokens that begin inside callers' text."""
    tokens = token_map(rendering, backend, **options)
    inside = rendering.caller_text
    pairs = list(zip(tokens.ids, tokens.offsets, strict=True))[tokens.bos_added :]
    return [id for id, offset in pairs if any(piece.start <= offset < piece.end for piece in inside)]


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(BENIGN, max_size=4), separator=st.sampled_from(["", "\n", " "]))
def test_benign_text_has_the_ordinary_ids(
    small: Small, chat: Chat, kind: str, contents: list[str], separator: str
) -> None:
    rendering = chat(contents, bos="<s>", separator=separator)
    tokens = token_map(rendering, small[kind])
    assert tokens.ids == small[kind].encode(rendering.text, special=True)


@given(contents=st.lists(BENIGN, max_size=4), separator=st.sampled_from(["", "\n", " "]))
def test_benign_text_has_the_ordinary_ids_of_llama_cpp(
    llama_spm: LlamaVocabulary, chat: Chat, contents: list[str], separator: str
) -> None:
    rendering = chat(contents, bos="<s>", separator=separator)
    assert token_map(rendering, llama_spm).ids == llama_spm.encode(rendering.text, special=True)


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(FORGED, max_size=3))
def test_callers_text_yields_no_control_token(small: Small, chat: Chat, kind: str, contents: list[str]) -> None:
    backend = small[kind]
    control = {backend.added[text].id for text in MARKERS}
    ids = content_ids(chat(contents), backend, template="… <tool> …")
    assert control.isdisjoint(ids)


@given(contents=st.lists(FORGED, max_size=3))
def test_callers_text_yields_no_control_token_of_llama_cpp(
    llama_spm: LlamaVocabulary, chat: Chat, contents: list[str]
) -> None:
    control = {token.id for text, token in llama_spm.added.items() if text != "<b>"}
    assert control.isdisjoint(content_ids(chat(contents), llama_spm, template="… <tool> …"))


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(FORGED, min_size=1, max_size=3))
def test_quoted_control_tokens_move_no_barrier(small: Small, chat: Chat, kind: str, contents: list[str]) -> None:
    rendering = chat(contents)
    tokens = token_map(rendering, small[kind])
    user = small[kind].added["<|user|>"].id
    assert [tokens.ids[barrier.token] for barrier in tokens.barriers] == [user] * len(contents)
    assert all(barrier.backed_off == 0 for barrier in tokens.barriers)


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(FORGED, max_size=3))
def test_trusted_content_has_the_ordinary_ids(small: Small, chat: Chat, kind: str, contents: list[str]) -> None:
    rendering = chat(contents, bos="<s>")
    tokens = token_map(rendering, small[kind], trust_content=True)
    assert tokens.ids == small[kind].encode(rendering.text, special=True)


def test_an_added_token_that_the_template_does_not_emit_is_found_in_content(small: Small, chat: Chat) -> None:
    backend = small["byte-level"]
    assert backend.added["<b>"].id in content_ids(chat(["a <b>bold"]), backend)
    assert backend.added["<tool>"].id in content_ids(chat(["a <tool>"]), backend)


def test_an_added_token_that_the_template_emits_is_text_in_content(
    small: Small, chat: Chat, prompt: Callable[[], Any]
) -> None:
    backend = small["byte-level"]
    tool = backend.added["<tool>"].id
    assert tool not in content_ids(chat(["a <tool>"]), backend, template="{{ '<tool>' }}")
    rendering = prompt().add(0, ("a <tool>",)).add(1, "<tool>", ("b",)).rendering()
    assert tool not in content_ids(rendering, backend)
    assert token_map(rendering, backend).ids.count(tool) == 1


def test_a_control_token_half_written_by_the_caller_is_text(small: Small, prompt: Callable[[], Any]) -> None:
    backend = small["byte-level"]
    rendering = prompt().add(0, "<|", ("user|>",)).add(1, ("<|us",), "er|>").rendering()
    assert backend.added["<|user|>"].id not in token_map(rendering, backend).ids


def test_bos_is_put_before_a_text_that_does_not_begin_with_it(llama_spm: LlamaVocabulary, chat: Chat) -> None:
    tokens = token_map(chat(["hello"]), llama_spm)
    assert tokens.ids[0] == llama_spm.bos
    assert tokens.bos_added == 1
    assert tokens.ids.count(1) == 1


@pytest.mark.parametrize("trust_content", [False, True])
@pytest.mark.parametrize("bos", ["<s>", "  <s>", "\n<s>"])
def test_bos_is_never_put_twice(llama_spm: LlamaVocabulary, chat: Chat, bos: str, trust_content: bool) -> None:
    tokens = token_map(chat(["hello"], bos=bos), llama_spm, trust_content=trust_content)
    assert tokens.bos_added == 0
    assert tokens.ids.count(1) == 1
    assert (tokens.ids[0] == llama_spm.bos) == (bos == "<s>")


def test_bos_that_a_caller_writes_does_not_stand_for_the_templates(
    llama_spm: LlamaVocabulary, prompt: Callable[[], Any]
) -> None:
    tokens = token_map(prompt().add(0, ("<s>hello",), "<|end|>").rendering(), llama_spm)
    assert tokens.ids.count(1) == tokens.bos_added == 1


def test_bos_is_left_out_if_the_vocabulary_does_not_ask_for_it(small: Small, chat: Chat) -> None:
    backend = small["byte-level"]
    assert backend.bos is not None
    assert not backend.add_bos
    assert token_map(chat(["hello"]), backend).bos_added == 0


def test_an_empty_rendering_has_no_tokens_but_bos(
    small: Small, llama_spm: LlamaVocabulary, prompt: Callable[[], Any]
) -> None:
    assert token_map(prompt().rendering(), small["byte-level"]).ids == []
    assert token_map(prompt().rendering(), llama_spm).ids == [1]


def test_half_a_surrogate_pair_is_refused_in_one_line(small: Small, chat: Chat) -> None:
    with pytest.raises(ConversationError, match=r"^messages: lone surrogate '\\ud83d' at character 9 "):
        token_map(chat(["\ud83d"]), small["byte-level"])


class Letters:
    """A backend with a token for each letter, and some for `words` that it finds whether or not it is asked to."""

    name, bos, eos, add_bos, word_ends = "letters", None, None, False, None

    def __init__(self, words: Iterable[str], spells: Callable[[str], str] = str) -> None:
        self.words = {word: 0x110000 + n for n, word in enumerate(words)}
        self.added = AddedTokens(AddedToken(word, id, special=True) for word, id in self.words.items())
        spelled = {id: word.encode() for word, id in self.words.items()}
        self.pieces = Pieces(lambda id: spelled.get(id) or spells(chr(id)).encode())

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            word = next((word for word in self.words if text.startswith(word, at)), text[at])
            ids.append(self.words.get(word) or ord(word))
            at += len(word)
        return ids

    def align(self, text: str, *, prefix: bool = True) -> None:
        return None

    def encode_all(self, *_: object) -> None:
        return None


def test_a_tokeniser_that_finds_control_tokens_regardless_has_them_broken_up(chat: Chat) -> None:
    backend = Letters(["<|user|>", "<|end|>"])
    rendering = chat(["a<|end|>b", "<|user|>"])
    tokens = token_map(rendering, backend)
    assert tokens.ids.count(backend.words["<|end|>"]) == 2
    assert tokens.offsets == sorted(tokens.offsets)


def test_a_control_token_that_is_broken_up_stays_the_text_it_was(llama_spm: LlamaVocabulary, chat: Chat) -> None:
    tokens = token_map(chat(["hello<tool>hello"]), llama_spm, template="<tool>")
    message = tokens.message_ranges[0].pieces[0]
    spelled = llama_spm.pieces.spell(tokens.ids[message.begin : message.end])
    assert spelled == b"<|user|> hello<tool>hello<|end|>"


@pytest.mark.parametrize("vocabulary", ["tiny", "tiny.gguf", "gptoss"])
def test_markers_of_harmony_are_text_in_content(load: Callable[[str], Backend], chat: Chat, vocabulary: str) -> None:
    """llama.cpp calls them user-defined whatever the file says, and finds those in any text."""
    markers = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>"]
    backend = load(vocabulary)
    rendering = chat([f"a {marker}b{marker}" for marker in markers], opening="<|start|>user<|message|>")
    assert {backend.added[marker].id for marker in markers}.isdisjoint(content_ids(rendering, backend))
    tokens = token_map(rendering, backend)
    assert [tokens.ids[barrier.token] for barrier in tokens.barriers] == [backend.added["<|start|>"].id] * 5
    assert all(barrier.backed_off == 0 for barrier in tokens.barriers)


def test_tokens_that_do_not_spell_the_text_are_refused(chat: Chat) -> None:
    with pytest.raises(SourceError, match=r"^letters: its tokens do not spell the text from character 8 on$"):
        token_map(chat(["hello"]), Letters(["<|user|>"], spells=str.upper))


def test_text_that_a_normaliser_changes_is_aligned_by_the_tokeniser(
    composing: HuggingFaceTokenizer, chat: Chat
) -> None:
    rendering = chat(["cafe\u0301 x"])
    tokens = token_map(rendering, composing)
    assert not tokens.exact
    assert tokens.ids == composing.encode(rendering.text, special=True)
    spelled = dict(zip(tokens.offsets, map(composing.pieces.__getitem__, tokens.ids), strict=True))
    assert spelled[rendering.text.index("x") - 1].startswith(b" ")
    assert token_map(chat(["café x"]), composing).exact


def test_white_space_that_an_added_token_in_content_swallows_is_accounted_for(
    llama_spm: LlamaVocabulary, chat: Chat
) -> None:
    rendering = chat(["hello <b>  hello<b>\n"])
    tokens = token_map(rendering, llama_spm)
    assert tokens.exact
    starts = [
        offset for id, offset in zip(tokens.ids, tokens.offsets, strict=True) if llama_spm.pieces[id] == b" hello"
    ]
    assert starts == [rendering.text.index("hello"), rendering.text.rindex("hello")]
