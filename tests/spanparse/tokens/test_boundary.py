from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse import load_source, parse
from spanparse.spans import Rendering
from spanparse.tokens import AddedToken, Backend, HuggingFaceTokenizer, LlamaVocabulary, TokenMap, token_map
from spanparse.tokens.boundary import Boundaries

Prompt = Callable[[], Any]
Small = dict[str, HuggingFaceTokenizer]
KINDS = ["byte-level", "byte-level, stripping", "metaspace, first", "metaspace, always", "prepending normaliser"]
TEXT = st.text(st.sampled_from("ab \n.é日<|>"), max_size=12) | st.sampled_from(
    ["<|end|>", "<|user|>x", ".\n\n", "hello"]
)


def chatml_like(prompt: Prompt, contents: list[str]) -> Any:
    built = prompt()
    for index, content in enumerate(contents):
        built.add(index, "<|user|>\n", (content,), "<|end|>\n")
    return built


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(TEXT, min_size=1, max_size=3), more=TEXT, literal=st.booleans())
def test_tokens_before_a_barrier_stay_whatever_the_template_puts_after_its_next_control_token(
    small: Small, prompt: Prompt, kind: str, contents: list[str], more: str, literal: bool
) -> None:
    template = f"<|user|>\n<|end|>{more}"
    built = chatml_like(prompt, contents)
    offset = len(built.text)
    built.add(len(contents), "<|user|>", more if literal else (more,))
    one = token_map(built.rendering(), small[kind], template=template)
    built = chatml_like(prompt, contents).add(len(contents), "<|end|>")
    other = token_map(built.rendering(), small[kind], template=template)
    (barrier,) = (barrier for barrier in one.barriers if barrier.offset == offset)
    assert barrier.token <= len(other.ids)
    assert one.ids[: barrier.token] == other.ids[: barrier.token]


@pytest.mark.parametrize("kind", KINDS)
@given(contents=st.lists(TEXT, min_size=1, max_size=3), more=TEXT, literal=st.booleans())
def test_tokens_before_a_barrier_that_is_safe_against_any_text_stay_whatever_follows(
    small: Small, prompt: Prompt, kind: str, contents: list[str], more: str, literal: bool
) -> None:
    template = f"<|user|>\n<|end|>{more}"
    built = chatml_like(prompt, contents)
    offset = len(built.text)
    built.add(len(contents), "<|user|>")
    tokens = token_map(built.rendering(), small[kind], template=template, any_text=True)
    (barrier,) = (barrier for barrier in tokens.barriers if barrier.offset == offset)
    built = chatml_like(prompt, contents).add(len(contents), more if literal else (more,))
    other = token_map(built.rendering(), small[kind], template=template)
    assert barrier.token > 0
    assert tokens.ids[: barrier.token] == other.ids[: barrier.token]


def test_a_barrier_where_a_control_token_begins_is_exact(small: Small, prompt: Prompt) -> None:
    backend = small["byte-level"]
    rendering = chatml_like(prompt, ["hello", "world"]).rendering()
    (barrier,) = token_map(rendering, backend).barriers
    assert barrier.backed_off == 0
    assert backend.pieces.spell(token_map(rendering, backend).ids[: barrier.token]).decode() == rendering.text[:22]


def test_a_barrier_where_a_control_token_ends_is_exact_against_any_text(small: Small, prompt: Prompt) -> None:
    rendering = prompt().add(0, "<|user|>", ("hello",), "<|end|>").add(1, ("world",)).rendering()
    (barrier,) = token_map(rendering, small["byte-level"], any_text=True).barriers
    assert barrier.backed_off == 0
    assert (
        barrier.token
        == token_map(rendering, small["byte-level"]).ids.index(small["byte-level"].added["<|end|>"].id) + 1
    )


def test_a_barrier_after_plain_text_backs_off_to_the_end_of_the_last_word(small: Small, prompt: Prompt) -> None:
    rendering = prompt().add(0, "<|user|>", ("hello world",), "\n").add(1, "and", ("world",)).rendering()
    (barrier,) = token_map(rendering, small["byte-level"]).barriers
    kept = token_map(rendering, small["byte-level"]).ids[: barrier.token]
    assert small["byte-level"].pieces.spell(kept) == b"<|user|>hello world"
    assert barrier.backed_off == 1


def test_a_barrier_backs_off_to_the_control_token_before_where_words_are_not_known_to_end(prompt: Prompt) -> None:
    rendering = prompt().add(0, "<a>", ("hello world",), "\n").add(1, "and").rendering()
    (barrier,) = token_map(rendering, _ByteBackend("<a>")).barriers
    assert (barrier.token, barrier.backed_off) == (1, len("hello world\n"))


def test_a_prompt_without_control_tokens_has_barriers_near_its_turns(
    small: Small, llama_spm: LlamaVocabulary, prompt: Prompt
) -> None:
    rendering = prompt().add(0, "User: ", ("hello the world.",), "\n\n").add(1, "User: ").rendering()
    # The merges of this one were learned on whole lines: some of its tokens reach over any end of a word.
    spanning = small["prepending normaliser"]
    assert token_map(rendering, spanning).barriers[0].token == 0
    for backend in {*small.values(), llama_spm} - {spanning}:
        (barrier,) = token_map(rendering, backend).barriers
        kept = backend.pieces.spell(token_map(rendering, backend).ids[: barrier.token]).decode()
        # `.` and the line breaks after it may be one token.
        assert kept.removeprefix("<s>").lstrip() in ("User: hello the", "User: hello the world.")


def test_a_barrier_counts_on_no_control_token_where_the_vocabulary_lacks_some_of_the_template(
    small: Small, prompt: Prompt
) -> None:
    rendering = prompt().add(0, "<|user|>", ("hello",), ">").add("generation", "<|end|>").rendering()
    backend = small["byte-level"]
    fitting = token_map(rendering, backend, template="<|user|><|end|>")
    assert fitting.barriers[0].backed_off == 0
    for template in ("<|user|><|end|><|observation|>", "{{ '<|' + role + '|>' }}"):
        tokens = token_map(rendering, backend, template=template)
        assert tokens.barriers[0].token == 1
        assert token_map(rendering, backend, template=template, previous=fitting) == tokens


def test_a_control_token_that_opens_turns_of_several_roles_is_counted_on(small: Small, prompt: Prompt) -> None:
    rendering = prompt().add(0, "<|user|>", ("hello",), ">").add("generation", "<|user|>").rendering()
    tokens = token_map(rendering, small["byte-level"], template="<|user|><|observation|>")
    assert tokens.barriers[0].backed_off == 0


def test_a_prompt_of_one_word_has_barriers_only_after_bos(llama_spm: LlamaVocabulary, prompt: Prompt) -> None:
    rendering = prompt().add(0, ("hello",)).add(1, ("hello",)).rendering()
    assert token_map(rendering, llama_spm).barriers[0].token == 1


@given(texts=st.lists(st.text("ab ", max_size=6), min_size=1, max_size=6))
def test_a_barrier_does_not_depend_on_the_ones_that_were_asked_for_before(
    small: Small, prompt: Prompt, texts: list[str]
) -> None:
    built, offsets = prompt(), []
    for index, text in enumerate(texts):
        built.add(index, "x", (text,))
        offsets.append(len(built.text))
    encoding = token_map(built.rendering(), small["byte-level"]).foundation.encoding
    for asked in (offsets, offsets[::-1]):
        boundaries = Boundaries(encoding)
        assert [boundaries.safe(offset) for offset in asked] == [Boundaries(encoding).safe(offset) for offset in asked]


WORDS = st.lists(
    st.sampled_from(
        ["hello", "ab", ".", "\n", " ", "  ", "\n\n", "é", "日", "▁", "1", "12", "<|end|>", "<tool>", "<b>", "'s"]
    ),
    max_size=8,
).map("".join)
WITHOUT_CONTROL_TOKENS = [
    "tiny",
    "tiny.gguf",
    "qwen3",
    "gptoss",
    "qwen35.gguf",
    "deepseek-llm.gguf",
    "phi-3.gguf",
    "gpt-2.gguf",
]


@pytest.mark.parametrize("vocabulary", WITHOUT_CONTROL_TOKENS)
@given(before=WORDS, after=WORDS, other=WORDS, literal=st.booleans(), trust_content=st.booleans())
def test_tokens_before_a_barrier_in_plain_text_stay_whatever_follows(
    load: Callable[[str], Backend],
    prompt: Prompt,
    vocabulary: str,
    before: str,
    after: str,
    other: str,
    literal: bool,
    trust_content: bool,
) -> None:
    check_plain(load(vocabulary), prompt, before, after, other, literal, trust_content)


@pytest.mark.parametrize("kind", [*KINDS, "metaspace, never", "byte-level, prefix space"])
@given(before=WORDS, after=WORDS, other=WORDS, literal=st.booleans(), trust_content=st.booleans())
def test_tokens_before_a_barrier_in_plain_text_stay_with_small_tokenisers(
    small: Small,
    llama_spm: LlamaVocabulary,
    composing: HuggingFaceTokenizer,
    prompt: Prompt,
    kind: str,
    before: str,
    after: str,
    other: str,
    literal: bool,
    trust_content: bool,
) -> None:
    for backend in (small[kind], llama_spm, composing):
        check_plain(backend, prompt, before, after, other, literal, trust_content)


def check_plain(
    backend: Backend, prompt: Prompt, before: str, after: str, other: str, literal: bool, trust_content: bool
) -> None:
    options: dict[str, Any] = {"template": "User: <|end|><tool><b>", "trust_content": trust_content, "any_text": True}
    one, two = (
        token_map(
            prompt().add(0, "User: ", (before,)).add(1, text if literal else (text,)).rendering(), backend, **options
        )
        for text in (after, other)
    )
    barrier = one.barriers[0]
    assert one.ids[: barrier.token] == two.ids[: barrier.token]


def test_white_space_that_the_control_token_swallows_does_not_move_the_barrier(
    llama_spm: LlamaVocabulary, prompt: Prompt
) -> None:
    built = prompt().add(0, "<|user|>\n", ("hello",), "<|end|>\n").add(1, "hello")
    (barrier,) = token_map(built.rendering(), llama_spm, any_text=True).barriers
    assert barrier.backed_off == 0
    assert barrier.token == 4  # BOS, <|user|>, ▁hello, <|end|>


def test_white_space_that_the_next_control_token_swallows_is_not_before_the_barrier(
    small: Small, prompt: Prompt
) -> None:
    rendering = prompt().add(0, ("hello",), "\n").add(1, "<|user|>").rendering()
    (barrier,) = token_map(rendering, small["byte-level, stripping"]).barriers
    # The line break is part of the control token here, and would be a token before another one.
    assert (barrier.token, barrier.backed_off) == (1, 0)


def test_a_control_token_that_a_longer_one_begins_with_does_not_close_what_comes_before(prompt: Prompt) -> None:
    backend = _ByteBackend("<a>", "<a>b>")
    rendering: Rendering = prompt().add(0, "<a>", ("x",), "<a>").add(1, "y").rendering()
    (barrier,) = token_map(rendering, backend).barriers
    assert barrier.token == 0


class _ByteBackend:
    """A token for each byte and one for each of `texts`."""

    name, bos, eos, add_bos, word_ends = "bytes", None, None, False, None

    def __init__(self, *texts: str) -> None:
        from spanparse.tokens import AddedTokens, Pieces

        self.added = AddedTokens(AddedToken(text, 256 + n, special=True) for n, text in enumerate(texts))
        self.pieces = Pieces(lambda id: bytes([id]) if id < 256 else texts[id - 256].encode())

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        assert not special
        return list(text.encode())

    def align(self, text: str, *, prefix: bool = True) -> None:
        return None

    def encode_all(self, *_: object) -> None:
        return None


def test_the_end_of_tools_in_front_of_a_user_s_text_is_a_place_for_a_checkpoint() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    rendering = parse(load_source("llama3"), messages, tools=tools)
    assert rendering.system_end not in {barrier.offset for barrier in rendering.barriers}
    mapped = token_map(rendering, HuggingFaceTokenizer(hf_tokenizer()))
    (place,) = [place for place in mapped.places if place not in mapped.barriers]
    assert place.kind == "system_end"
    assert rendering.system_end is not None
    assert mapped.offsets[place.token] <= rendering.system_end


@pytest.mark.parametrize("template", ["chatml", "gpt-oss", "gemma4", "mistral-v3", "llama3", "deepseek", "qwen3-coder"])
def test_what_stands_before_the_end_of_a_tool_stays_whatever_tools_follow(template: str) -> None:
    backend = HuggingFaceTokenizer(hf_tokenizer())
    source = load_source(template, tools=True)

    def mapped(*names: str) -> TokenMap:
        tools = [
            {"type": "function", "function": {"name": n, "description": f"Say how to {n} at sea.", "parameters": {}}}
            for n in names
        ]
        rendering = parse(source, [{"role": "user", "content": "hello"}], tools=tools)
        return token_map(rendering, backend, template=source.text)

    whole = mapped("look", "listen", "fly")
    assert [place.kind for place in whole.tool_ends] == ["tool_end", "tool_end", "tools_end"]
    first, second, last = (place.token for place in whole.tool_ends)
    assert 0 < first < second < last
    assert {first, second, last} <= {place.token for place in whole.places}
    assert mapped("look", "walk").ids[:first] == whole.ids[:first]
    assert mapped("look", "listen", "walk", "go").ids[:second] == whole.ids[:second]
    assert mapped("look", "listen", "fly", "go").ids[:last] == whole.ids[:last]


def test_a_prompt_without_tools_has_no_ends_of_them() -> None:
    rendering = parse(load_source("chatml"), [{"role": "user", "content": "hello"}])
    assert token_map(rendering, HuggingFaceTokenizer(hf_tokenizer())).tool_ends == ()
