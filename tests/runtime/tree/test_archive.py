"""Full states of prompts outlast cells, sequences, the tree and its process, and are what they say they are."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from planner import Budget, Candidate
from runtime.llama import ContextOptions
from runtime.memory import probe
from runtime.prompt import Prompt
from runtime.report import Clock, Report, Seconds
from runtime.store import StoreOptions
from runtime.tiny import ensure_model
from runtime.tree.archive import Archive
from runtime.tree.tree import Tree

# A state that is wrong moves logits by more than this, see tests/conformance/test_restore.py.
ROUNDING = 0.05
ANSWER = 6
FAST = Report(10**9, None, 10**9, 0, 10**9, (), 0, 0, 0, Seconds(prefill=1e-6))


class Played:
    """A tree with an archive, and what it answers."""

    def __init__(self, context, store, **options):
        self.context = context
        self.archive = Archive(store)
        budget = Budget(options.pop("checkpoints", 4), None)
        self.tree = Tree(context, probe(context), b"", policy="adaptive", budget=budget, archive=self.archive)

    def evaluate(self, job):
        """All that the job has to evaluate; the logits after it, None if that is nothing."""
        row = None
        while (stretch := job.next_stretch(128)) is not None:
            with job.clock.phase("prefill"):
                self.context.decode(stretch)
            job.evaluated(stretch)
            row = self.context.logits() if stretch.logits else None
        return row

    def run(self, prompt, *, system=None, answer=ANSWER, put_away=True):
        """Answer a prompt; the report, the logits after the prompt, and the answer."""
        candidates = () if system is None else (Candidate(system, "system_end"),)
        job = self.tree.begin(Prompt(prompt, candidates), max_tokens=answer, clock=Clock())
        self.tree.check_integrity()
        row = self.evaluate(job)
        if row is None:
            logits = row = job.loaded.logits
        else:
            logits = row
            if put_away:
                job.prompt_ended(row, moves_on=answer > 1)
        for _ in range(answer - 1):
            job.generated(int(row.argmax()))
            row = self.evaluate(job)
        report = job.finish(cancelled=False)
        if put_away:
            before = list(self.tree.pool), list(self.tree.store.states)
            self.tree.put_away(job)
            assert (list(self.tree.pool), list(self.tree.store.states)) == before, "something gave way for it"
        self.tree.check_integrity()
        return report, logits, job.known[prompt.size :].tolist()


@pytest.fixture
def played(context, tmp_path):
    """Makes a tree on the tiny model of a kind with states in a directory of the test's."""

    @contextmanager
    def make(kind, *, n_ctx=2048, n_seq_max=8, disk=True, ram_bytes=50_000_000, exact=True, **options):
        made = context(kind, ContextOptions(n_ctx, 256, 128, n_threads=1, exact=exact, n_seq_max=n_seq_max))
        chosen = StoreOptions(ram_bytes, tmp_path / "states" if disk else None, 100_000_000)
        with chosen.open(ensure_model(kind), n_ctx=n_ctx, exact=exact) as store:
            yield Played(made, store, **options)

    return make


def test_a_conversation_goes_on_from_disk_with_the_logits_of_the_state(played, tokens, kind):
    prompt, more = tokens(1, 600), tokens(2, 40)
    with played(kind) as before:
        _, cold, answer = before.run(prompt)
    with played(kind) as after:
        report, logits, again = after.run(prompt)
        assert (report.evaluated, report.reused, report.restored.source) == (0, 600, "disk")
        assert np.array_equal(logits, cold)
        assert again == answer
        report, grown, _ = after.run(np.concatenate([prompt, more]))
        assert report.evaluated == 40
    with played(kind, disk=False) as cold:
        _, expected, _ = cold.run(np.concatenate([prompt, more]))
    assert np.abs(grown - expected).max() < ROUNDING


def test_the_state_of_another_prompt_shows(played, tokens, kind, monkeypatch):
    prompt, more = tokens(1, 600), tokens(2, 40)
    with played(kind) as made:
        _, expected, _ = made.run(np.concatenate([prompt, more]))
        made.run(tokens(3, 600))
        made.run(prompt)
        made.tree.reset()
        (wrong, *_), load = made.archive.store.find(tokens(3, 600)).matches, made.archive.store.load
        monkeypatch.setattr(made.archive.store, "load", lambda match: load(wrong))
        report, logits, _ = made.run(np.concatenate([prompt, more]))
    assert report.restored.offset == 600
    assert np.abs(logits - expected).max() > 5 * ROUNDING


def test_the_end_of_a_prompt_is_stored_when_the_answer_has_moved_on(played, tokens, kind):
    prompt, more = tokens(1, 300), tokens(2, 40)
    with played(kind, disk=False) as made:
        made.run(prompt, answer=50)
        made.tree.reset()
        report, logits, _ = made.run(np.concatenate([prompt, more]))
        assert (report.restored.offset, report.restored.source) == (300, "ram")
        assert report.excess == ()
    with played(kind, disk=False) as cold:
        _, expected, _ = cold.run(np.concatenate([prompt, more]))
    assert np.abs(logits - expected).max() < ROUNDING


def test_what_gives_way_for_its_cells_comes_back_from_the_store(played, tokens, kind):
    if kind == "recurrent":
        pytest.skip("a recurrent memory has no cells")
    with played(kind, n_ctx=1024, disk=False) as made:
        for seed in range(4):
            made.run(tokens(seed, 500))
        report, *_ = made.run(np.concatenate([tokens(0, 500), tokens(9, 30)]))
        assert (report.evaluated, report.restored.source) == (30, "ram")


def test_a_branch_that_was_not_stored_yet_is_stored_before_its_cells_go(played, tokens, kind):
    if kind == "recurrent":
        pytest.skip("a recurrent memory has no cells")
    with played(kind, n_ctx=1024, disk=False) as made:
        made.run(tokens(0, 500), system=400, put_away=False)
        for seed in (1, 2):
            made.run(tokens(seed, 500))
        report, *_ = made.run(np.concatenate([tokens(0, 500), tokens(9, 30)]))
        assert report.restored.source == "ram"
        # Of a memory that cannot be cut it is the last state that was kept, a few tokens before the end.
        assert 30 <= report.evaluated <= (30 if kind == "dense" else 40)


def test_a_branch_that_was_not_stored_yet_is_stored_before_its_sequence_goes(played, tokens, kind):
    if kind == "recurrent":
        pytest.skip("its states need no sequence")
    with played(kind, n_seq_max=2, disk=False) as made:
        made.run(tokens(0, 300), system=250, put_away=False)
        for seed in (1, 2, 3):
            made.run(tokens(seed, 300), system=250)
        report, *_ = made.run(np.concatenate([tokens(0, 300), tokens(9, 30)]))
        assert report.restored.source == "ram"


def test_of_a_prompt_that_was_cut_off_what_was_evaluated_is_stored(played, tokens, kind):
    with played(kind, disk=False, checkpoints=0) as made:
        job = made.tree.begin(Prompt(tokens(1, 600)), max_tokens=1, clock=Clock())
        for _ in range(3):
            stretch = job.next_stretch(128)
            with job.clock.phase("prefill"):
                made.context.decode(stretch)
            job.evaluated(stretch)
        job.finish(cancelled=True)
        made.tree.put_away(job)
        made.tree.reset()
        report, *_ = made.run(tokens(1, 600))
    assert (report.reused, report.restored.source) == (384, "ram")


def test_what_costs_more_to_load_than_to_evaluate_is_left(played, tokens):
    with played("hybrid", disk=False) as made:
        made.run(tokens(1, 300))
        made.tree.reset()
        made.archive.observe(FAST)
        report, *_ = made.run(np.concatenate([tokens(1, 300), tokens(2, 40)]))
        assert report.restored is None
        assert report.evaluated == 340


def test_the_memory_lent_for_an_end_counts_for_the_budget(played, tokens, kind):
    with played(kind, disk=False, ram_bytes=4_000_000) as made:
        store, most = made.archive.store, 0
        jobs = [made.tree.begin(Prompt(tokens(i, 100)), max_tokens=5, clock=Clock()) for i in range(3)]
        for job in jobs:
            job.prompt_ended(made.evaluate(job), moves_on=True)
            job.generated(1000)
            made.evaluate(job)
            made.tree.check_integrity()
            most = max(most, store.status().tiers[0].bytes)
        assert (most > 0) == (kind != "dense")
        for job in jobs:
            job.finish(cancelled=False)
            made.tree.put_away(job)
            made.tree.check_integrity()
        assert store.loans == 0


def test_a_state_too_large_for_the_budget_is_said_once_and_costs_nothing_else(played, tokens, kind, caplog):
    with played(kind, disk=False, ram_bytes=1000) as made:
        for seed in (1, 2):
            report, *_ = made.run(tokens(seed, 300))
            assert report.evaluated == 300
        assert len(made.archive.store.find(tokens(2, 300)).matches) == 0
    (message,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert message.endswith("is not stored, ram holds 1000")


def test_a_state_of_other_precision_is_refused_with_the_reason(played, tokens):
    with played("hybrid") as before:
        before.run(tokens(1, 300))
    with played("hybrid", exact=False) as after:
        report, *_ = after.run(np.concatenate([tokens(1, 300), tokens(2, 40)]))
    assert report.restored is None
    assert report.to_json()["refused"] == {
        "offset": 300,
        "from": "disk",
        "reason": "saved with keys and values f32, here f16",
    }


def test_what_another_process_left_no_states_in_is_a_restart(played, tokens):
    prompt, more = tokens(1, 300), tokens(2, 40)
    with played("hybrid") as before:
        before.run(prompt)
    with played("hybrid") as after:
        after.run(np.concatenate([prompt, more]))
        report, *_ = after.run(np.concatenate([prompt[:200], more]))
    (excess,) = report.excess
    assert (excess.tokens, excess.reason) == (200, "restart")
    assert excess.detail == "common 200, nearest 0, the state of 300 was inherited"


def test_states_of_this_process_are_no_restart(played, tokens):
    prompt, more = tokens(1, 300), tokens(2, 40)
    with played("hybrid", disk=False) as made:
        made.run(prompt)
        made.tree.reset()
        made.run(np.concatenate([prompt, more]))
        report, *_ = made.run(np.concatenate([prompt[:200], more]))
    assert [excess.reason for excess in report.excess] == ["state-missing"]


def test_bytes_that_llama_cpp_refuses_are_passed_over(played, tokens, kind, monkeypatch):
    with played(kind, disk=False) as made:
        made.run(tokens(1, 300))
        made.tree.reset()
        monkeypatch.setattr(made.context, "load_state", lambda *_, **__: False)
        report, *_ = made.run(tokens(1, 300))
    assert (report.evaluated, report.restored) == (300, None)


def test_a_prompt_that_is_stored_as_a_whole_keeps_what_the_books_know(played, tokens):
    prompt = tokens(1, 400)
    with played("hybrid", disk=False) as made:
        made.run(prompt, system=300)
        before = [(state.offset, state.returns) for state in made.tree.store.states]
        report, *_ = made.run(prompt, system=300)
        assert report.evaluated == 0
        assert [(state.offset, state.returns) for state in made.tree.store.states] == before != []
