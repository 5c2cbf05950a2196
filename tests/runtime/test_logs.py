"""Logs that a machine reads: one object a line, no text of the conversation."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys

import pytest

from runtime import Request
from runtime.logs import JsonLines, log_failure


@pytest.fixture
def lines():
    """What is logged below `runtime`, as objects."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("runtime")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_request_is_logged_with_its_report_and_without_its_text(engine, lines):
    completion = engine().generate(Request([{"role": "user", "content": "Secret"}], max_tokens=2, id="a"))
    (line,) = lines()
    assert (line["level"], line["logger"], line["event"]) == ("info", "runtime.requests", "request")
    assert (line["id"], line["finish"], line["generated"]) == ("a", "length", 2)
    assert {key: line[key] for key in completion.report.to_json()} == completion.report.to_json()
    assert "Secret" not in json.dumps(line)
    assert completion.output not in json.dumps(line)


@pytest.mark.parametrize(("kind", "what", "size"), [("hybrid", "checkpoint", "bytes"), ("dense", "branch", "tokens")])
def test_what_gives_way_is_logged_with_its_size(engine, lines, kind, what, size):
    made = engine(kind, checkpoints=1, n_ctx=512, policy="deferred")
    for text in ("One", "Two", "Three"):
        made.generate(Request([{"role": "user", "content": f"{text} " * 90}], max_tokens=2))
    told = [line for line in lines() if line["event"] == f"{what} given up"]
    assert told
    assert all(line["level"] == "info" and line[size] > 0 for line in told)


def test_a_request_that_never_reached_the_memory_is_logged_too(engine, lines):
    with pytest.raises(Exception, match="Roles are"):
        engine().generate(Request([{"content": "no role"}], id="c"))
    (line,) = lines()
    assert (line["event"], line["id"], line["error"]) == ("request failed", "c", "TemplateRefused")


def test_a_failure_is_a_warning_that_names_the_error(lines):
    log_failure(ValueError("no\nway"), "b")
    (line,) = lines()
    assert (line["level"], line["event"], line["error"], line["reason"]) == (
        "warning",
        "request failed",
        "ValueError",
        "no\nway",
    )


def test_other_loggers_fields_and_exceptions_are_kept(lines):
    try:
        raise OSError("disk")
    except OSError:
        logging.getLogger("runtime.store").exception("tier %s", "fails", extra={"tier": "disk", "path": io})
    (line,) = lines()
    assert (line["event"], line["tier"]) == ("tier fails", "disk")
    assert line["path"].startswith("<module 'io'")
    assert line["exception"].endswith("OSError: disk")
    assert line["time"].endswith("+00:00")


def test_a_field_cannot_take_the_place_of_what_every_line_has(lines):
    logging.getLogger("runtime").info("true", extra={"event": "false", "level": "false"})
    assert (lines()[0]["event"], lines()[0]["level"]) == ("true", "info")


def test_a_program_that_wants_no_log_gets_none():
    code = "import runtime.logs; runtime.logs.log_failure(ValueError('no'))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == (b"", b"")
