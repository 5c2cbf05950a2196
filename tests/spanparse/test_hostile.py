"""Templates that mean harm are refused within the caller's limits, in a plain and in a marked render alike.

A template comes out of a downloaded file. Each of these would otherwise reach Python's internals, run for hours, fill
the memory or overflow the interpreter's stack. They are rendered in a process of their own, so that one which does is
a failed test and not the end of the test run; it reports how much memory it took.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import markupsafe
import pytest
from jinja2.filters import FILTERS
from tests.hostile.process import MESSAGES, RENDERS, Outcome
from tests.hostile.templates import DEEP_TEMPLATES, ESCAPES, LIMITED

from spanparse import (
    Limits,
    Request,
    TemplateError,
    TemplateLimit,
    TemplateRefused,
    TemplateSource,
    parse,
    render_plain,
)
from spanparse.cli import main
from spanparse.rendering.render import render_marked

REPOSITORY = Path(__file__).resolve().parents[2]
MOST_MEGABYTES = 300


@pytest.fixture(scope="module", params=RENDERS)
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    pytest.importorskip("resource", reason="this platform does not tell how much memory a process takes")
    process = subprocess.run(
        [sys.executable, "-m", "tests.hostile.process", request.param],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = map(json.loads, process.stdout.splitlines())
    found = {name: Outcome(*outcome) for name, outcome in lines}
    missing = next((name for name in LIMITED if name not in found), None)
    assert missing is None, f"{missing!r} ended the process with {process.returncode}: {process.stderr[-500:]}"
    return found


def test_every_template_that_has_no_end_runs_into_a_limit(outcomes: dict[str, Outcome]) -> None:
    other = {name: outcome for name, outcome in outcomes.items() if outcome.kind != "TemplateLimit"}
    assert other == {}


def test_the_error_is_one_short_line(outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        assert "\n" not in outcome.text, name
        assert len(outcome.text) < 200, name


def test_they_take_little_memory(outcomes: dict[str, Outcome]) -> None:
    excessive = {name: outcome.megabytes for name, outcome in outcomes.items() if outcome.megabytes > MOST_MEGABYTES}
    assert excessive == {}


@pytest.mark.parametrize("template", ESCAPES)
@pytest.mark.parametrize("render", RENDERS)
def test_the_sandbox_lets_nothing_out(render: str, template: str) -> None:
    with pytest.raises(TemplateError):
        RENDERS[render](template)
    assert MESSAGES[0]["role"] == "user"
    assert len(MESSAGES) == 2


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('a\\nb ' * 100000) }}", "refuses this conversation: a b a b "),
        ("{{ " + "1" * 5000 + " }}", "integer string conversion"),
        ("{% set x = 1e999 %}{{ x }}", "refuses this conversation"),
        ("{{ [1] | first(2) }}", "refuses this conversation"),
        ("{{ ''.center() }}", "refuses this conversation"),
        ("{{ '%d' % 'x' }}", "refuses this conversation"),
    ],
)
def test_what_else_goes_wrong_is_one_line_too(render: str, template: str, said: str) -> None:
    with pytest.raises(TemplateError) as info:
        RENDERS[render](template)
    assert said in str(info.value)
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < 2_200


def nested_message(depth: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return {"role": "user", "content": "a", "extra": value}


@pytest.mark.parametrize("template", ["{{ messages }}", "{{ messages | tojson }}", "{{ messages[0] == messages[-1] }}"])
def test_messages_nested_too_deeply_are_refused(template: str) -> None:
    request = Request([nested_message(5000), nested_message(5000)])
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateLimit, match=r"nested more than|RecursionError"):
            render(template, request)


@pytest.mark.parametrize("template", ["{{ messages }}", "{{ messages | tojson }}", "{{ messages == messages[:] }}"])
def test_messages_that_hold_themselves_are_not_followed_without_end(template: str) -> None:
    message: dict[str, Any] = {"role": "user", "content": "a"}
    message["extra"] = message
    for render in (render_plain, render_marked):
        try:
            text = render(template, Request([message]))
        except TemplateError:
            continue
        assert len(text) < 1000


def test_all_renders_of_a_parse_share_the_caller_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that goes on by a second whenever it is looked at, which is every 256 steps.
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", itertools.count().__next__)
    source = TemplateSource("slow", "{% for i in range(2560) %}{% endfor %}", "")
    parse(source, MESSAGES, limits=Limits(seconds=30))
    with pytest.raises(TemplateLimit, match=r"still rendering after 15 s \(Limits\.seconds\)"):
        parse(source, MESSAGES, limits=Limits(seconds=15))
    parse(source, MESSAGES, limits=Limits(seconds=15), verify=False)


def test_a_step_limit_does_not_depend_on_the_machine() -> None:
    template = "{% for i in range(100) %}x{% endfor %}"
    assert render_plain(template, Request(MESSAGES), limits=Limits(steps=100)) == "x" * 100
    with pytest.raises(TemplateLimit, match=r"still rendering after 99 steps \(Limits\.steps\)"):
        render_plain(template, Request(MESSAGES), limits=Limits(steps=99))


def test_the_filters_that_take_small_values_alone_are_those_that_the_documents_name() -> None:
    page = (REPOSITORY / "docs" / "inspect.md").read_text("utf-8")
    begin = page.index("what chat templates have no use for takes")
    named = re.findall(r"`(\w+)`", page[begin : page.index(", the function", begin)])
    kinds = (("'a b'", "'a b ' * 2501"), ("1", "10001"), ("{'a': 'b'}", "{'a': 'b' * 10001}"))

    def limited(value: str, name: str) -> bool:
        try:
            render_plain(f"{{% set y = ({value}) | {name} %}}", Request(MESSAGES))
        except TemplateLimit:
            return True
        return False

    def takes(value: str, name: str) -> bool:
        try:
            return not limited(value, name)
        except TemplateRefused:
            return False

    found = {name for name in FILTERS for small, big in kinds if takes(small, name) and limited(big, name)}
    assert found == set(named)


TEXT = "{% set x = 'ab <' * 1000000 %}"
LONG_WAYS = [
    *(f"x | {name}" for name in ("upper", "lower", "capitalize", "title", "list", "join", "join('-')", "sort", "max")),
    *(f"x | {name}" for name in ("escape", "e", "forceescape", "slice(3) | first", "groupby('y')", "trim(x)", "min")),
    *(f"x.{name}()" for name in ("upper", "lower", "capitalize", "title", "swapcase", "casefold", "split")),
    *(f"x.{name}(x[1:])" for name in ("rfind", "rindex", "rpartition", "rsplit", "strip", "lstrip", "rstrip")),
    *("x.translate({97: 'b'})", "x.replace('a', '-')", "'-'.join(x)", "('{' * 4000000).format()", "'%%' * 999999 % ()"),
    *("x is upper", "x is lower", "{}.keys() - x", "(x[1:] ~ 'c') in [x] * 999"),
    *(
        f"([1, 2] * 90000) | {name}"
        for name in ("sort", "sum", "max", "min", "tojson", "string", "join", "groupby('y')")
    ),
]


@pytest.mark.parametrize("expression", LONG_WAYS)
@pytest.mark.parametrize("render", [render_plain, render_marked])
def test_what_would_not_be_done_in_time_is_not_begun(
    render: Callable[..., str], expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock that stands still: only what an operation is estimated to take can run into the limit.
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", lambda: 0.0)
    template = f"{TEXT}{{% set y = {expression} %}}"
    with pytest.raises(TemplateLimit, match=r"is about to take longer|Limits\.memory"):
        render(template, Request(MESSAGES), limits=Limits(seconds=0.001))
    assert render(TEXT, Request(MESSAGES), limits=Limits(seconds=0.001)) == ""


@pytest.mark.parametrize(
    "filters",
    [
        "select('equalto', 'c') | first",
        "reject('string') | first",
        "selectattr('y') | first",
        "rejectattr('upper') | first",
        "unique | list",
        "map('upper') | list",
        "batch(1000) | first",
        "slice(1000) | list",
    ],
)
@pytest.mark.parametrize("values", ["'abab' * 100", "['a', 'b'] * 200"])
def test_filters_count_every_item_that_they_go_through(filters: str, values: str) -> None:
    template = f"{{{{ ({values}) | {filters} }}}}"
    with pytest.raises(TemplateLimit, match=r"Limits\.steps"):
        render_plain(template, Request(MESSAGES), limits=Limits(steps=300))


@pytest.mark.parametrize("render", [render_plain, render_marked])
def test_a_list_that_is_indented_stays_as_the_caller_gave_it(render: Callable[..., str]) -> None:
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(TemplateError, match="list"):
        render("{{ messages | indent }}", Request(messages))
    assert messages == [{"role": "user", "content": "a"}]


def test_a_long_content_is_escaped_with_marks() -> None:
    content = "if a < b && c > 'd':\n    " * 16_000
    messages = [{"role": "user", "content": content}]
    source = TemplateSource("escaping", "{% for m in messages %}{{ m.content | escape }}{% endfor %}", "")
    parsed = parse(source, messages, limits=Limits(seconds=20))
    assert parsed.exact
    assert parsed.text == str(markupsafe.escape(content))


def test_a_refusal_on_the_command_line_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hostile.jinja"
    for template in ("{{ 'a' * 10**10 }}", "x" * 50_000_000, DEEP_TEMPLATES["parentheses"], ESCAPES[0]):
        path.write_text(template)
        assert main(["inspect", str(path)]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith("spanparse: ")
        assert error.count("\n") == 1
        assert "hostile.jinja" in error
        assert "Traceback" not in error
        assert "internal error" not in error
