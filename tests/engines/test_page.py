"""`docs/engines.md` says what the comparisons say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.corpus import bundled, first_by_hash, published
from tests.engines.cause import UNKNOWN
from tests.engines.comparison import Comparison
from tests.engines.page import agreement, causes_by_template, difference_rows, page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines.md"


@pytest.fixture(scope="module")
def written() -> str:
    return PAGE.read_text("utf-8")


def test_the_page_lists_each_difference_from_the_engine(beside_llama_cpp: list[Comparison], written: str) -> None:
    # These have one conversation more on the page, which takes too long for a test.
    long = {template.name for template in (*first_by_hash(published(), 30, lambda _: True), *bundled())}
    compared = {comparison.template for comparison in beside_llama_cpp} - long
    section = written.partition("### Each difference")[2].partition("###")[0]
    listed = [row for row in section.splitlines() if row.split("`")[1:2] and row.split("`")[1] in compared]
    assert listed == [row for row in difference_rows(beside_llama_cpp) if row.split("`")[1] in compared]
    assert listed


def test_at_least_99_percent_of_the_sample_equal_the_engines_prompts(beside_llama_cpp: list[Comparison]) -> None:
    assert agreement(beside_llama_cpp) >= 0.99
    assert len(beside_llama_cpp) > 5_000


def test_each_difference_of_the_sample_has_a_proven_cause(
    beside_llama_cpp: list[Comparison], beside_llama_server: list[Comparison]
) -> None:
    assert [c for c in (*beside_llama_cpp, *beside_llama_server) if c.cause == UNKNOWN] == []


def test_the_page_names_what_the_server_does_with_each_template(
    beside_llama_server: list[Comparison], written: str
) -> None:
    section = written.partition("### Which templates")[2].partition("###")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if "`" in row]
    named = {name.strip("`"): causes for causes, names in rows for name in names.split(", ")}
    found = causes_by_template(beside_llama_server)
    assert {template: ", ".join(causes) or "none" for template, causes in found.items()} == {
        template: named[template] for template in found
    }


def test_figures_of_the_page_count_the_comparisons() -> None:
    same = Comparison("calm", "user", "", True, "same")
    differs = Comparison("odd", "user", "", True, "differs", "None", "", "null")
    refused = Comparison("odd", "turns", "", True, "only ours", "", "500: Error: not 'x'")
    text = page(
        [same] * 2000,
        [same, same, same, differs, refused],
        [differs],
        {"transformers": "5", "llama.cpp": "b1"},
        {"every": 1, "published": 2, "corpus": 2, "bundled": 0},
    )
    assert "## transformers 5\n" in text
    assert "| 2,000 | the same text |" in text
    assert "75.00% of the pairs that both render are equal." in text
    assert "1 of 2 templates are rendered equally in every pair." in text
    assert "More than half of the pairs differ in 1: `odd`. On the others, 100.00% are equal." in text
    assert "| `odd` | null | 1 | user |" in text
    assert "| llama.cpp | not … | 1 | 1 |" in text
    assert "- null, in `odd`, user:\n  spanparse ``'None'``,\n  llama.cpp ``''``" in text
