"""The thin layer over llama.cpp: errors, ownership, silence."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.errors import DecodeError, ModelError
from runtime.llama import Context, ContextOptions, Model, Stretch
from runtime.tiny import ensure_model

SEVERAL = ContextOptions(n_ctx=1024, n_batch=256, n_ubatch=128, n_threads=1, exact=True, n_seq_max=3)
ROUNDING = 0.02  # what sharing a batch or a pool of cells changes in logits; their standard deviation is 11


def test_a_missing_model_is_named():
    with pytest.raises(ModelError, match=r"^none\.gguf: no such file$"):
        Model("none.gguf")


def test_a_broken_model_is_named_with_llama_cpps_own_reason(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(ensure_model("recurrent").read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"broken\.gguf: llama\.cpp cannot load it: \w+") as caught:
        Model(path)
    assert "\n" not in str(caught.value)


def test_nothing_is_printed(capfd, tmp_path, kind):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelError):
        Model(path)
    with Model(ensure_model(kind)) as model, Context(model, ContextOptions(n_ctx=256, n_threads=1)) as context:
        context.decode(Stretch(np.ones(4, dtype=np.int32), 0, logits=True))
        with pytest.raises(DecodeError):
            context.decode(Stretch(np.ones(4, dtype=np.int32), 0, logits=True))
    assert capfd.readouterr() == ("", "")


def test_tokens_out_of_place_are_an_error_that_names_them(context):
    made = context("dense")
    with pytest.raises(DecodeError, match="code -1 on tokens 5 to 8"):
        made.decode(Stretch(np.full(3, 10**6, dtype=np.int32), 5))


@pytest.mark.parametrize(
    ("stretches", "said"),
    [
        ([], "no tokens"),
        ([(0, 0, 0)], "tokens 0 to 0"),
        ([(129, 0, 0)], "tokens 0 to 129"),
        ([(1, 256, 0)], "tokens 256 to 257"),
        ([(10, 247, 0)], "tokens 247 to 257"),
        ([(4, 0, 2)], "tokens 0 to 4 of sequence 2"),
        ([(4, 0, -1)], "tokens 0 to 4 of sequence -1"),
        ([(64, 0, 0), (65, 0, 1)], "tokens 0 to 64, tokens 0 to 65 of sequence 1"),
    ],
)
def test_what_would_end_the_process_or_read_past_an_array_is_refused(context, stretches, said):
    made = context("dense", ContextOptions(n_ctx=256, n_batch=128, n_threads=1, n_seq_max=2))
    with pytest.raises(ValueError, match=f"^{said} do not fit: n_batch 128, n_ctx 256, n_seq_max 2$"):
        made.decode(*(Stretch(np.ones(size, dtype=np.int32), *place) for size, *place in stretches))


def test_sequences_of_one_batch_give_a_row_of_logits_each(context, kind, tokens):
    prompts = [tokens(seed, size) for seed, size in ((1, 40), (2, 7), (3, 25))]
    alone = []
    made = context(kind)
    for prompt in prompts:
        made.clear()
        made.decode(Stretch(prompt, 0, logits=True))
        alone.append(made.logits())
    shared = context(kind, SEVERAL)
    rows = shared.decode(*(Stretch(prompt, 0, i, logits=i != 1) for i, prompt in enumerate(prompts)))
    assert rows == (39, 71)
    for row, i in zip(rows, (0, 2), strict=True):
        assert np.abs(shared.logits(row) - alone[i]).max() < ROUNDING
        assert np.abs(shared.logits(row) - alone[1]).max() > 0.1
    with pytest.raises(ValueError, match="no logits in row 46"):
        shared.logits(46)


def test_a_copied_sequence_goes_on_by_itself(context, kind, tokens):
    prompt, other = tokens(1, 200), tokens(2, 50)
    made = context(kind, SEVERAL)
    made.decode(Stretch(prompt[:128], 0))
    made.decode(Stretch(other, 0, 2))
    made.copy(0, 2)
    made.decode(Stretch(other, 128))
    assert [made.position_range(sequence)[1] for sequence in range(3)] == [177, -1, 127]
    made.decode(Stretch(prompt[128:], 128, 2, logits=True))
    copied = made.logits()
    cold = context(kind)
    cold.decode(Stretch(prompt[:128], 0))
    cold.decode(Stretch(prompt[128:], 128, logits=True))
    assert np.abs(copied - cold.logits()).max() < ROUNDING


def test_closing_twice_is_fine_and_using_what_is_closed_is_an_error():
    model = Model(ensure_model("recurrent"))
    context = Context(model, ContextOptions(n_ctx=256, n_threads=1))
    for _ in range(2):
        context.close()
    with pytest.raises(ModelError, match="context is closed"):
        context.logits()
    for _ in range(2):
        model.close()
    with pytest.raises(ModelError, match="model is closed"):
        _ = model.pointer


def test_logits_are_a_copy(context, tokens):
    made = context("recurrent")
    made.decode(Stretch(tokens(1, 5), 0, logits=True))
    first = made.logits()
    kept = first.copy()
    made.decode(Stretch(tokens(2, 5), 5, logits=True))
    assert np.array_equal(first, kept)
    assert not np.array_equal(first, made.logits())


def test_a_token_is_spelled_out_whatever_its_length(context):
    model = context("recurrent").model
    pieces = [model.piece(token) for token in range(model.n_vocab)]
    assert b"<|im_start|>" in pieces
    assert model.text([pieces.index(b"<|im_start|>"), pieces.index(b"a")]) == "<|im_start|>a"


def test_half_a_character_becomes_a_replacement_character(context):
    model = context("recurrent").model
    half = next(token for token in range(model.n_vocab) if model.piece(token) == "é".encode()[:1])
    assert model.text([half]) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_ctx", 255, "at least 256"),
        ("n_ctx", 10**9, "at most 16777216"),
        ("n_batch", 3, "at least 4"),
        ("n_ubatch", 0, "at least 1"),
        ("n_threads", 0, "at least 1"),
        ("n_threads", 513, "at most 512"),
        ("n_seq_max", 0, "at least 1"),
        ("n_seq_max", 257, "at most 256"),
    ],
)
def test_options_out_of_their_range_are_refused(name, value, said):
    with pytest.raises(ValueError, match=f"{name} must be {said}, not {value}"):
        ContextOptions(**{name: value})


def test_a_batch_may_be_smaller_than_the_number_of_sequences(context, kind, tokens):
    made = context(kind, ContextOptions(n_ctx=256, n_batch=4, n_ubatch=4, n_threads=1, n_seq_max=16))
    rows = made.decode(*(Stretch(tokens(1, 1), 0, sequence, logits=True) for sequence in (3, 9, 12, 15)))
    assert rows == (0, 1, 2, 3)
    assert np.abs(made.logits(0) - made.logits(3)).max() < 0.1
