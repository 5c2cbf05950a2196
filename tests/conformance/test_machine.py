"""Whatever several chats ask of one engine, in whatever order, it answers as if each prompt were its first.

SPANPARSE_FUZZ=20 plays twenty times as many sequences of requests, chosen anew each time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.fuzz.profile import cases

from runtime import Engine, Request, Verifier
from runtime.llama import Context, lib
from runtime.store import StoreOptions
from runtime.tiny import KINDS, ensure_model

CHATS = range(3)
MOST_MESSAGES = 9
SYSTEM = {"role": "system", "content": "You are a ferry clerk. Answer briefly, and only what you know for certain."}
WORDS = ("last boat", "leaves", "at noon", "from harbour", "seven", "but who", "takes", "a bicycle", "to", "an island?")
# Logits have a standard deviation of 11; see test_restore.
ROUNDING = {"swa": 0.05}

chats = st.sampled_from(CHATS)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
budgets = st.sampled_from([{"checkpoints": 1}, {"checkpoints": 6}, {"checkpoint_bytes": 400_000}])


def user(text):
    return {"role": "user", "content": text}


class Chats(RuleBasedStateMachine):
    """Three chats that begin alike, perhaps with a store that outlives the engine."""

    def __init__(self, kind, store=None):
        super().__init__()
        self.kind = kind
        self.store = store
        self.requests = 0
        self.histories = [[SYSTEM] for _ in CHATS]

    @initialize(budget=budgets)
    def open(self, budget):
        self.budget = budget
        small = {"n_ctx": 2048, "n_batch": 256, "n_ubatch": 64, "n_threads": 1, "exact": True, "parallel": 2}
        self.engine = Engine(ensure_model(self.kind), store=self.store, **small, **budget)
        self.verifier = Verifier(self.engine)
        self.requests = 0

    @rule(chat=chats, text=texts, n=st.integers(0, 10))
    def say(self, chat, text, n):
        self.keep(chat, self.asked(chat, text), self.answer(Request(self.asked(chat, text), max_tokens=n)))

    @rule(said=st.tuples(texts, texts, texts))
    def say_all_at_once(self, said):
        asked = [self.asked(chat, text) for chat, text in zip(CHATS, said, strict=True)]
        with ThreadPoolExecutor(len(CHATS)) as pool:
            completions = list(pool.map(self.generate, [Request(messages, max_tokens=8) for messages in asked]))
        for chat, messages, completion in zip(CHATS, asked, completions, strict=True):
            self.check(completion)
            self.keep(chat, messages, completion)

    @rule(chat=chats, text=texts, back=st.integers(1, 6))
    def edit(self, chat, text, back):
        """What was said before is said differently, and nothing has come after it."""
        said = [index for index, message in enumerate(self.histories[chat]) if message["role"] == "user"]
        if said:
            messages = [*self.histories[chat][: said[-min(back, len(said))]], user(text)]
            self.keep(chat, messages, self.answer(Request(messages, max_tokens=6)))

    @rule(chat=chats, other=chats)
    def branch(self, chat, other):
        self.histories[other] = list(self.histories[chat])

    @rule(chat=chats, text=texts, read=st.integers(0, 12))
    def cancel(self, chat, text, read):
        stream = self.engine.stream(Request(self.asked(chat, text), max_tokens=30))
        for _, _ in zip(range(read), stream, strict=False):
            pass
        stream.cancel()
        list(stream)
        self.requests += 1

    @rule(chat=chats, text=texts, after=st.integers(1, 300), again=st.booleans())
    def cancel_while_evaluating(self, chat, text, after, again):
        request = Request(self.asked(chat, text), max_tokens=4, cancel_after_tokens=after)
        self.generate(request)
        if again:
            self.answer(replace(request, cancel_after_tokens=None))

    @rule(seed=st.integers(0, 99), length=st.integers(1, 900))
    def push_out(self, seed, length):
        """Something else entirely, that takes the room of what is kept."""
        ids = np.random.default_rng(seed).integers(500, 4000, length)
        self.check(self.engine.run_tokens(ids, max_tokens=2, logits=True))
        self.requests += 1

    @precondition(lambda self: self.requests > 20)
    @rule()
    def restart(self):
        self.close()
        self.open(self.budget)

    @invariant()
    def everything_agrees(self):
        if hasattr(self, "engine"):
            self.engine.check_integrity()

    def teardown(self):
        if hasattr(self, "engine"):
            self.close()

    def close(self):
        self.verifier.close()
        self.engine.close()

    def asked(self, chat, text):
        history = self.histories[chat]
        return [*(history if len(history) < MOST_MESSAGES else [SYSTEM]), user(text)]

    def keep(self, chat, messages, completion):
        self.histories[chat] = [*messages, {"role": "assistant", "content": completion.output}]

    def generate(self, request):
        self.requests += 1
        return self.engine.generate(request, logits=True)

    def answer(self, request):
        completion = self.generate(request)
        self.check(completion)
        return completion

    def check(self, completion):
        """The same logits as from nothing, but for rounding, and greedily the same tokens but for ties."""
        tolerance = ROUNDING.get(self.kind, 1e-3)
        verdict = self.verifier.check(completion)
        assert verdict.logit_error < tolerance
        assert verdict.identical or (verdict.gap is not None and verdict.gap < tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_chats_that_share_an_engine_get_the_answers_of_a_cold_run(kind):
    run_state_machine_as_test(lambda: Chats(kind), settings=settings(cases(2), stateful_step_count=50))


@pytest.mark.parametrize("kind", KINDS)
def test_chats_whose_states_are_stored_get_the_answers_of_a_cold_run(kind, tmp_path):
    """Tiers for a few states each, so that they give way all the time."""
    with Engine(ensure_model(kind), n_ctx=2048, n_threads=1, exact=True, store=StoreOptions(ram_bytes=10**9)) as engine:
        engine.run_tokens(np.arange(1000, 1500), max_tokens=2)
        size = engine.store_status().tiers[0].bytes
    store = StoreOptions(3 * size, tmp_path, 4 * size)
    run_state_machine_as_test(lambda: Chats(kind, store), settings=settings(cases(1), stateful_step_count=50))


def notices(kind):
    """Whether some sequence of requests gets an answer that it should not."""
    search = settings(cases(5), stateful_step_count=50, phases=[Phase.generate], report_multiple_bugs=False)
    try:
        run_state_machine_as_test(lambda: Chats(kind), settings=search)
    # Threads may come in another order when hypothesis tries again, and the answer be right then.
    except (AssertionError, Flaky):
        return True
    return False


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dense"])
def test_states_that_are_wrong_are_noticed(kind, monkeypatch):
    genuine = Context.save_state

    def forged(self, *arguments, **options):
        state = genuine(self, *arguments, **options)
        # The end of it is the last layer's; what stands before has to stay readable.
        numbers = state[-(state.size // 128 * 4) :].view(np.float32)
        numbers *= -1
        return state

    monkeypatch.setattr(Context, "save_state", forged)
    assert notices(kind)


def test_cells_that_are_missing_are_noticed(monkeypatch):
    genuine = Context.cut

    def cut_more(self, position, sequence=0):
        done = genuine(self, position, sequence)
        if position > 1:
            # The first cell goes too.
            lib.llama_memory_seq_rm(lib.llama_get_memory(self.pointer), sequence, 0, 1)
        return done

    monkeypatch.setattr(Context, "cut", cut_more)
    assert notices("dense")
