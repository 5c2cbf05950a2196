"""The engine: what it answers, what it counts, and how it gets over failures."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner import POLICIES, Candidate
from runtime import Engine, Request, Sampling, Verifier
from runtime.errors import ContextFull, DecodeError, EngineClosed, ModelError, RequestError
from runtime.llama import Context
from runtime.report import Restored
from runtime.tiny import ensure_model
from spanparse import SourceError, TemplateRefused, load_source

SYSTEM = {"role": "system", "content": "You answer briefly."}
QUESTION = {"role": "user", "content": "Which port does the service listen on?"}


def at(*offsets):
    return [Candidate(offset, "user_start") for offset in offsets]


def agrees(verdict, kind):
    """The same answer; where a window was restored rounding may choose between two tokens as likely as each other."""
    return verdict.identical or (kind == "swa" and verdict.gap is not None and verdict.gap < 0.05)


def fail_at(monkeypatch, call):
    """Let llama.cpp evaluate the batch of the `call`-th decode from now on, then report that it was aborted."""
    decode, calls = Context.decode, iter(range(1, 10**6))

    def broken(self, *stretches):
        rows = decode(self, *stretches)
        if next(calls) == call:
            raise DecodeError(2, "tokens")
        return rows

    monkeypatch.setattr(Context, "decode", broken)


def test_a_first_prompt_is_evaluated_whole(engine, tokens, kind):
    report = engine(kind).run_tokens(tokens(1, 300)).report
    assert (report.prompt_tokens, report.evaluated, report.reused, report.ideal) == (300, 300, 0, 300)
    assert (report.restored, report.excess) == (None, ())


def test_a_prompt_that_continues_the_answer_evaluates_what_is_new(engine, tokens, kind):
    made = engine(kind)
    first = made.run_tokens(tokens(1, 300), max_tokens=4)
    grown = np.concatenate([tokens(1, 300), as_int32(first.output_ids), tokens(2, 50)])
    report = made.run_tokens(grown).report
    # Three of the four tokens of the answer were evaluated while it was generated, the last one was not.
    assert report.restored == Restored(303, "live")
    assert (report.evaluated, report.ideal, report.excess) == (51, 54, ())


def as_int32(ids):
    return np.array(ids, dtype=np.int32)


def test_a_prompt_that_drops_the_answer_goes_back_to_a_checkpoint(engine, tokens):
    made = engine("hybrid")
    prompt = tokens(1, 300)
    first = made.run_tokens(prompt, at(280), max_tokens=4).report
    assert first.saves == len(made.tree.store) > 0
    last = max(kept.offset for kept in made.tree.store)
    report = made.run_tokens(np.concatenate([prompt, tokens(2, 50)]), max_tokens=4).report
    assert report.restored == Restored(last, "ram")
    assert report.evaluated == 350 - last
    assert sum(excess.tokens for excess in report.excess) == report.evaluated - report.ideal == 300 - last


def test_a_dense_memory_is_cut_and_keeps_no_checkpoints(engine, tokens):
    made = engine("dense")
    made.run_tokens(tokens(1, 300), at(100, 200))
    report = made.run_tokens(np.concatenate([tokens(1, 150), tokens(2, 50)])).report
    assert report.restored == Restored(150 if tokens(1, 300)[150] != tokens(2, 50)[0] else 151, "live")
    assert (report.saves, report.bytes, len(made.tree.store)) == (0, 0, 0)


def test_the_same_prompt_again_evaluates_at_least_one_token(engine, tokens, kind):
    made = engine(kind)
    prompt = tokens(1, 300)
    first = made.run_tokens(prompt, at(150, 299), logits=True)
    again = made.run_tokens(prompt, at(150, 299), logits=True)
    assert again.report.ideal == 1
    assert kind == "swa" or again.output_ids == first.output_ids
    assert 1 <= again.report.evaluated <= 5 + (kind in ("hybrid", "recurrent")) * 150
    assert np.abs(again.logits - first.logits).max() < 0.05


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_answers_as_a_cold_run_does(engine, tokens, kind, policy):
    made = engine(kind, policy=policy, checkpoints=3)
    trunk = tokens(1, 400)
    with Verifier(made) as verifier:
        for length, seed in ((400, 2), (250, 3), (400, 4), (100, 5)):
            prompt = np.concatenate([trunk[:length], tokens(seed, 40)])
            completion = made.run_tokens(prompt, at(*range(100, length + 1, 100)), max_tokens=8, logits=True)
            verdict = verifier.check(completion)
            assert agrees(verdict, kind)
            assert verdict.logit_error < (0.05 if kind == "swa" else 1e-3)
            made.tree.check_integrity()


turns = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 200), st.integers(0, 9)), min_size=2, max_size=6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=turns,
    kind=st.sampled_from(["dense", "swa", "recurrent", "hybrid"]),
    policy=st.sampled_from(POLICIES),
    budget=st.sampled_from([{"checkpoints": 0}, {"checkpoints": 2}, {"checkpoint_bytes": 700_000}]),
)
def test_whatever_is_asked_answers_are_those_of_a_cold_run_and_the_accounts_add_up(tokens, turns, kind, policy, budget):
    small = {"n_ctx": 1024, "n_batch": 256, "n_ubatch": 128, "n_threads": 1, "exact": True}
    prompt, asked = tokens(0, 0), []
    with Engine(ensure_model(kind), policy=policy, **budget, **small) as made, Verifier(made) as verifier:
        for kept, added, seed in turns:
            prompt = np.concatenate([prompt[:kept], tokens(seed, added)])
            completion = made.run_tokens(prompt, at(*range(100, prompt.size, 100)), max_tokens=6)
            assert agrees(verifier.check(completion), kind)
            made.tree.check_integrity()
            report = completion.report
            common = [(prompt[: earlier.size] == earlier[: prompt.size]).cumprod().sum() for earlier in asked]
            assert report.ideal == max(1, prompt.size - max(common, default=0))
            assert report.evaluated + report.reused == prompt.size
            assert sum(e.tokens for e in report.excess) == max(0, report.evaluated - report.ideal)
            asked.append(prompt)


def test_no_more_checkpoints_or_bytes_are_held_than_allowed_even_while_saving(engine, tokens, monkeypatch):
    saved = Context.save_state
    for budget in ({"checkpoints": 2}, {"checkpoint_bytes": 250_000}):
        made = engine("hybrid", policy="every-n", **budget)
        held = []

        def watch(self, sequence=0, *, partial=True, into=None, made=made, held=held):
            data = saved(self, sequence, partial=partial, into=into)
            held.append((len(made.tree.store) + 1, made.tree.store.bytes + data.nbytes))
            return data

        monkeypatch.setattr(Context, "save_state", watch)
        for length in (300, 500, 700):
            made.run_tokens(tokens(1, length), at(*range(50, length, 50)))
        assert held
        assert all(count <= budget.get("checkpoints", count) for count, _ in held)
        assert all(size <= budget.get("checkpoint_bytes", size) for _, size in held)


def test_a_budget_in_bytes_is_kept_although_states_are_larger_than_the_planner_was_told(engine, tokens):
    made = engine("hybrid", checkpoint_bytes=250_000)
    made.tree.memory = replace(made.memory, state_bytes=1)
    kinds = ("system_end", "assistant_start", "user_start", "generation_prompt")
    report = made.run_tokens(tokens(1, 500), [Candidate(100 * i, kind) for i, kind in enumerate(kinds, 1)]).report
    made.tree.check_integrity()
    assert 0 < report.bytes <= 250_000
    assert "evicted" in made.tree.store.states.lost(0).values()


@pytest.mark.parametrize("kind", ["recurrent", "hybrid", "swa"])
def test_a_cancelled_prefill_stops_at_a_micro_batch_and_keeps_what_it_evaluated(engine, tokens, kind):
    made = engine(kind)
    prompt = tokens(1, 700)
    cancelled = made.run_tokens(prompt, cancel_after_tokens=200)
    assert (cancelled.finish, cancelled.output, cancelled.output_ids, cancelled.logits) == ("cancelled", "", (), None)
    assert cancelled.report.evaluated == made.tree.pool.tip.length == 256
    with Verifier(made) as verifier:
        again = made.run_tokens(prompt, max_tokens=8)
        assert agrees(verifier.check(again), kind)
    assert again.report.restored == Restored(256, "live")
    assert (again.report.evaluated, again.report.ideal) == (444, 1)
    (excess,) = again.report.excess
    assert (excess.tokens, excess.reason) == (443, "cancelled")


def test_a_cancelled_request_for_no_answer_says_so(engine, tokens):
    cut = engine().run_tokens(tokens(1, 700), max_tokens=0, cancel_after_tokens=200)
    assert (cut.finish, cut.report.evaluated) == ("cancelled", 256)


def test_a_request_to_cancel_after_the_prompt_comes_too_late(engine, tokens):
    assert engine().run_tokens(tokens(1, 100), cancel_after_tokens=100).finish == "length"


@pytest.mark.parametrize("call", [1, 2, 4, 6])
def test_after_a_failed_decode_the_engine_answers_as_a_cold_run_does(engine, tokens, kind, monkeypatch, call):
    made = engine(kind)
    made.run_tokens(tokens(1, 300), at(100, 200), max_tokens=4)
    grown = np.concatenate([tokens(1, 300), tokens(2, 300)])
    with monkeypatch.context() as patch:
        fail_at(patch, call)
        with pytest.raises(DecodeError, match="code 2"):
            made.run_tokens(grown, at(100, 200, 400), max_tokens=8)
    made.tree.check_integrity()
    with Verifier(made) as verifier:
        assert agrees(verifier.check(made.run_tokens(grown, at(100, 200, 400), max_tokens=8)), kind)


def test_an_interrupted_wait_cancels_its_request(engine, tokens, kind, monkeypatch):
    made = engine(kind)
    made.run_tokens(tokens(1, 300), at(100, 200), max_tokens=4)
    decode, interrupts = Context.decode, iter([signal.SIGINT])

    def interrupting(self, *stretches):
        for interrupt in interrupts:
            signal.pthread_kill(threading.main_thread().ident, interrupt)
        return decode(self, *stretches)

    prompt = np.concatenate([tokens(1, 300), tokens(2, 100)])
    with monkeypatch.context() as patch:
        patch.setattr(Context, "decode", interrupting)
        with pytest.raises(KeyboardInterrupt):
            made.run_tokens(prompt, max_tokens=500)
        made.check_integrity()
    with Verifier(made) as verifier:
        # An answer of 500 tokens would still be going on.
        completion = made.run_tokens(prompt, max_tokens=8)
        assert agrees(verifier.check(completion), kind)
    made.check_integrity()
    assert not made.tree.jobs


def test_a_spoiled_checkpoint_is_dropped_and_planned_around(engine, tokens):
    made = engine("hybrid", policy="every-n")
    made.run_tokens(tokens(1, 500), at(100, 200, 300, 400))
    list(made.tree.store)[-1].data[:] = 255
    prompt = np.concatenate([tokens(1, 490), tokens(2, 50)])
    with Verifier(made) as verifier:
        completion = made.run_tokens(prompt, max_tokens=8)
        assert verifier.check(completion).identical
    assert completion.report.excess[0].reason == "state-missing"
    made.tree.check_integrity()


def test_a_checkpoint_of_another_model_is_not_restored(engine, tokens):
    made = engine("hybrid")
    made.run_tokens(tokens(1, 300), at(200))
    for kept in made.tree.store:
        object.__setattr__(kept, "fingerprint", b"forged")
    with Verifier(made) as verifier:
        completion = made.run_tokens(np.concatenate([tokens(1, 250), tokens(2, 50)]), max_tokens=8)
        assert verifier.check(completion).identical
    assert completion.report.restored is None
    assert completion.report.excess[0].reason == "state-missing"


def test_an_evicted_state_is_given_as_the_reason(engine, tokens):
    made = engine("hybrid", policy="deferred", checkpoints=1)
    made.run_tokens(tokens(1, 200))
    made.run_tokens(np.concatenate([tokens(1, 200), tokens(2, 200)]))
    assert [kept.offset for kept in made.tree.store] == [400]
    report = made.run_tokens(np.concatenate([tokens(1, 200), tokens(3, 50)])).report
    assert [(excess.tokens, excess.reason) for excess in report.excess] == [(200, "evicted")]


def test_another_conversation_in_between_costs_next_to_nothing(engine, tokens, kind):
    made = engine(kind)
    made.run_tokens(tokens(1, 200))
    made.run_tokens(tokens(2, 200))
    report = made.run_tokens(np.concatenate([tokens(1, 200), tokens(3, 50)])).report
    # A state is saved four tokens before the end of a prompt of which nothing is known.
    assert (report.ideal, report.evaluated) == (50, 50 if kind == "dense" else 54)


def test_a_policy_that_knows_one_conversation_at_a_time_loses_the_other(engine, tokens):
    made = engine("hybrid", policy="deferred")
    made.run_tokens(tokens(1, 200))
    made.run_tokens(tokens(2, 200))
    assert [kept.offset for kept in made.tree.store] == [200]
    report = made.run_tokens(tokens(1, 200)).report
    assert [(excess.tokens, excess.reason) for excess in report.excess] == [(199, "evicted")]


@pytest.mark.parametrize(
    ("kind", "budget", "sequences"),
    [
        ("dense", {}, 64),
        ("recurrent", {"checkpoints": 32}, 3),
        ("hybrid", {"checkpoints": 8}, 11),
        ("hybrid", {"checkpoint_bytes": 10**9}, 19),
        ("swa", {"checkpoints": 32}, 7),
        ("swa", {"checkpoints": 1}, 4),
        ("hybrid", {"n_seq_max": 5}, 5),
    ],
)
def test_sequences_are_set_aside_as_the_kind_of_memory_needs_them(engine, kind, budget, sequences):
    made = engine(kind, parallel=2, **budget)
    assert made.options.n_seq_max == made.tree.context.n_seq_max == sequences


def test_reset_forgets_everything(engine, tokens):
    made = engine("hybrid")
    made.run_tokens(tokens(1, 200), at(100))
    made.reset()
    report = made.run_tokens(tokens(1, 200)).report
    assert (report.evaluated, report.ideal, report.restored) == (200, 200, None)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "messages: the prompt has no tokens"),
        ([1, -1], "tokens: ids must be from 0 to"),
        ([10**6], "tokens: ids must be from 0 to"),
    ],
)
def test_ids_that_make_no_prompt_are_refused_and_change_nothing(engine, tokens, ids, message):
    made = engine("hybrid")
    made.run_tokens(tokens(1, 100))
    with pytest.raises(RequestError, match=message):
        made.run_tokens(ids)
    assert made.tree.pool.tip.length >= 100
    assert made.tree.history.latest == 0


def test_a_prompt_longer_than_the_context_is_refused_and_one_as_long_gets_one_token(engine, tokens):
    made = engine("hybrid")
    with pytest.raises(ContextFull, match="the prompt has 1025 tokens, the context holds 1024"):
        made.run_tokens(tokens(1, 1025))
    completion = made.run_tokens(tokens(1, 1024), max_tokens=5)
    assert (len(completion.output_ids), completion.finish) == (1, "length")


def test_max_tokens_zero_only_evaluates_the_prompt(engine, tokens):
    made = engine("hybrid")
    assert made.run_tokens(tokens(1, 100), max_tokens=0).output_ids == ()
    assert made.tree.pool.tip.length == 100


def test_a_seed_gives_the_same_answer_again(engine, tokens):
    made = engine("hybrid")
    hot = Sampling(temperature=2.0, seed=7)
    answers = [made.run_tokens(tokens(1, 100), max_tokens=8, sampling=hot).output_ids for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0] != made.run_tokens(tokens(1, 100), max_tokens=8).output_ids


def test_a_chat_request_is_rendered_by_the_models_own_template(engine):
    completion = engine("hybrid").generate(Request([SYSTEM, QUESTION], max_tokens=4))
    assert completion.report.prompt_tokens == len(completion.token_ids) > 20
    assert len(completion.output_ids) == 4
    assert completion.output
    seconds = completion.report.seconds
    assert min(seconds.render, seconds.tokenize, seconds.plan, seconds.prefill, seconds.decode) > 0


def test_another_template_can_be_given(engine):
    own = engine("hybrid").generate(Request([QUESTION], max_tokens=1))
    other = engine("hybrid", template=load_source("llama3")).generate(Request([QUESTION], max_tokens=1))
    assert own.token_ids != other.token_ids


def test_the_place_where_a_conversation_diverges_is_named(engine):
    made = engine("hybrid", policy="none")
    made.generate(Request([SYSTEM, QUESTION], max_tokens=1))
    changed = {"role": "user", "content": "Which port does the other one use?"}
    (excess,) = made.generate(Request([SYSTEM, changed], max_tokens=1)).report.excess
    assert excess.reason == "state-missing"
    assert excess.detail.endswith("diverged at messages[1].content")


def test_a_conversation_the_template_refuses_leaves_the_engine_usable(engine):
    made = engine("hybrid", template=load_source("gemma3"))
    with pytest.raises(TemplateRefused):
        made.generate(Request([QUESTION, QUESTION]))
    assert made.generate(Request([QUESTION], max_tokens=1)).finish == "length"


def test_an_unknown_policy_is_refused(engine):
    with pytest.raises(RequestError, match="policy: 'best' is none of adaptive, "):
        engine("hybrid", policy="best")


def test_a_model_that_is_none_is_named(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    with pytest.raises(ModelError, match=r"text\.gguf"):
        Engine(path)


def test_a_model_without_a_template_is_named(tmp_path):
    import gguf

    reader = gguf.GGUFReader(ensure_model("recurrent"))
    path = tmp_path / "bare.gguf"
    writer = gguf.GGUFWriter(path, reader.get_field("general.architecture").contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "tokenizer.chat_template"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(SourceError, match=r"bare\.gguf"):
        Engine(path)


def test_a_closed_engine_says_so(engine, tokens):
    made = engine("hybrid")
    made.close()
    with pytest.raises(EngineClosed):
        made.run_tokens(tokens(1, 10))
    with pytest.raises(EngineClosed):
        made.generate(Request([QUESTION]))
    with pytest.raises(EngineClosed):
        made.reset()


@pytest.mark.parametrize("option", ["parallel", "checkpoints", "checkpoint_bytes"])
def test_a_budget_below_nothing_is_refused_at_once(engine, option):
    least = 1 if option == "parallel" else 0
    with pytest.raises(ValueError, match=f"^{option} must be at least {least}, not {least - 1}$"):
        engine(**{option: least - 1})


def test_a_request_whose_time_is_up_before_it_begins_reports_what_it_could_have_cost(engine, tokens):
    made = engine()
    made.run_tokens(tokens(1, 300), max_tokens=1)
    late = made.generate(Request([{"role": "user", "content": "word " * 100}], timeout=1e-9))
    assert (late.finish, late.report.evaluated) == ("cancelled", 0)
    assert late.report.ideal == late.report.prompt_tokens
