"""Random templates: Jinja's own text with spans that tile it, or a refusal in words.

Templates are built from the grammar that published ones use, wider than any of them; conversations hold the texts that
trip templates up. The text is compared with Jinja set up as transformers does it, apart from this package.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conversations import conversations, tools
from tests.fuzz.grammar import templates
from tests.fuzz.invariants import outcome_of
from tests.fuzz.profile import cases

from spanparse import Limits, Reason
from spanparse.sources import bundled_names, bundled_template

LIMITS: Final = Limits(seconds=5.0, characters=200_000, steps=20_000, memory=64 << 20)
KWARGS: Final = {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": True, "date": "1 May", "limit": 3}

# What random templates have shown: a switch that adds in the middle, a macro that ends only for the whole conversation,
# and text that counts as HTML inside of a container.
FOUND: Final = [
    "{% for m in messages %}{{ m.role }}{% if loop.last and add_generation_prompt %}now{% endif %}</s>{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{% if messages | length == 1 %}{{ f() }}{% endif %}"
    "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s ~ m.role ~ [] %}{% endfor %}{{ ns.s }}",
    "{% for m in messages %}{{ {'a': m.role | safe, 'b': [m.role | escape]} }}{% endfor %}",
]


@pytest.mark.parametrize("template", FOUND)
@pytest.mark.parametrize("generation", [False, True])
def test_what_random_templates_have_shown_holds(template: str, generation: bool) -> None:
    conversation = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]
    rendering = outcome_of(template, conversation, None, KWARGS, generation, LIMITS)
    assert rendering is not None
    assert rendering.reason != Reason("render-differs")


@cases(700)
@given(templates(), conversations, tools, st.booleans())
def test_any_template_gives_jinja_s_text_and_spans_that_tile_it_or_is_refused(
    template: str, conversation: list[dict[str, Any]], tools: list[dict[str, Any]] | None, generation: bool
) -> None:
    outcome_of(template, conversation, tools, KWARGS, generation, LIMITS)


@cases(250)
@given(st.sampled_from(bundled_names()), conversations, tools, st.booleans(), st.data())
def test_a_damaged_template_gives_jinja_s_text_or_is_refused(
    name: str,
    conversation: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    generation: bool,
    data: st.DataObject,
) -> None:
    text = bundled_template(name)
    places = st.integers(0, len(text))
    for _ in range(data.draw(st.integers(0, 2))):
        begin, end = sorted((data.draw(places), data.draw(places)))
        end = min(end, begin + data.draw(st.sampled_from([0, 1, 3, 30])))
        text = (
            text[:begin] + data.draw(st.sampled_from(["", "{{ ", " %}", "x", "{% endif %}", "not ", "|"])) + text[end:]
        )
    outcome_of(text, conversation, tools, KWARGS, generation, LIMITS)
