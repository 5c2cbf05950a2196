"""A render in a worker is the render it is elsewhere, and whatever happens in it happens to that worker alone."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.spanparse.isolation import hogs

from spanparse import Limits, Request, SpanparseError, TemplateLimit, TemplateRefused, TemplateSource, parse
from spanparse.analysis import analyse
from spanparse.cli import main
from spanparse.isolation import workers
from spanparse.marks.origin import GENERATION, NOWHERE, Origin
from spanparse.rendering.render import render_plain
from spanparse.sources import bundled_names, load_source

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need the limits of Linux")

ROOT = Path(__file__).resolve().parents[3]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What's the weather in Zürich? <|im_end|>"},
    {"role": "assistant", "content": "Rain.", "reasoning_content": "Where?"},
    {"role": "user", "content": "And now?"},
]
APART = Limits(isolate=True)
SHORT = Limits(seconds=0.5, memory=64 << 20, isolate=True)


def run(function, *arguments, limits=SHORT):
    return workers.isolated(function, *arguments, name="a template", limits=limits)


def processor_seconds(usage=resource.RUSAGE_CHILDREN):
    used = resource.getrusage(usage)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("name", bundled_names())
def test_a_parse_finds_the_same_in_a_worker(name):
    source = load_source(name)
    messages = MESSAGES[1:] if name.startswith("gemma3") else MESSAGES
    assert parse(source, messages, limits=APART) == parse(source, messages)


def test_an_analysis_finds_the_same_in_a_worker():
    source = load_source("chatml")
    assert analyse(source, limits=APART) == analyse(source)


def test_origins_that_are_told_by_identity_stay_themselves():
    for origin in (NOWHERE, GENERATION):
        assert pickle.loads(pickle.dumps(origin)) is origin
    other = Origin(("messages", 3, "content"))
    assert pickle.loads(pickle.dumps(other)) == other
    assert pickle.loads(pickle.dumps(other)).message == 3


def test_what_a_template_refuses_is_refused_with_its_message():
    source = TemplateSource("x", "{% for m in messages %}{{ raise_exception('no ' ~ m.role) }}{% endfor %}", "")
    with pytest.raises(TemplateRefused, match=r"messages\[0\]: no system") as info:
        parse(source, MESSAGES, limits=APART)
    assert info.value.message == 0


def test_what_never_comes_back_is_ended_within_twice_its_seconds():
    run(hogs.process)
    begin = time.monotonic()
    with pytest.raises(TemplateLimit, match=r"a template: its process was ended.*Limits\.seconds"):
        run(hogs.spin)
    assert time.monotonic() - begin < 2 * SHORT.seconds + 0.3


def test_processor_time_is_limited_by_the_system_and_not_by_who_waits(monkeypatch):
    monkeypatch.setattr(workers, "_LATEST", 1000)
    with pytest.raises(TemplateLimit, match=r"its process was ended.*Limits\.seconds"):
        run(hogs.spin)


def test_memory_is_limited_to_less_than_three_times_what_was_promised():
    assert SHORT.memory < run(hogs.fill) < 3 * SHORT.memory
    # Each render anew, and no less in a worker that has served others.
    assert SHORT.memory < run(hogs.fill) < 3 * SHORT.memory


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_worker_dies_alone_and_the_error_says_how(number):
    with pytest.raises(TemplateLimit, match=f"a template: its process died \\({number.name}\\)"):
        run(hogs.end, number)
    assert run(hogs.give, "after it") == "after it"


def test_a_worker_that_ends_without_an_answer_is_named():
    with pytest.raises(TemplateLimit, match="exit code 3"):
        run(hogs.leave)


def test_a_worker_is_used_again_while_it_behaves():
    first = run(hogs.process)
    assert run(hogs.process) == first
    with pytest.raises(TemplateLimit):
        run(hogs.leave)
    assert run(hogs.process) != first
    assert not Path(f"/proc/{first}").exists()


def test_one_that_died_while_nobody_asked_is_replaced():
    os.kill(run(hogs.process), signal.SIGKILL)
    time.sleep(0.1)
    assert run(hogs.give, 1) == 1


def test_a_server_that_died_is_replaced():
    run(hogs.process)
    status = Path(f"/proc/{run(hogs.process)}/stat").read_text()
    server = int(status.rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    time.sleep(0.1)
    with workers._lock:
        idle, workers._idle[:] = [*workers._idle], []
    assert run(hogs.give, 1) == 1
    for worker in idle:
        worker.connection.close()


def test_an_interrupt_ends_the_render_and_nothing_else():
    run(hogs.process)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(hogs.spin, limits=Limits(seconds=30, isolate=True))
    timer.join()
    assert run(hogs.give, 1) == 1


def test_threads_render_side_by_side():
    source = load_source("chatml")
    expected = parse(source, MESSAGES)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: parse(source, MESSAGES, limits=APART), range(40)))
    assert found == [expected] * 40
    assert len(workers._idle) <= workers._MOST_IDLE


def test_a_copy_of_the_program_has_workers_of_its_own():
    first = run(hogs.process)
    process = os.fork()
    if not process:
        own = run(hogs.process)
        os._exit(0 if own != first and run(hogs.give, "child") == "child" else 1)
    assert os.waitpid(process, 0)[1] == 0
    assert run(hogs.process) == first


CHILD = """
import os, sys
from tests.spanparse.isolation.test_workers import *
worker = run(hogs.process)
server = int(open(f"/proc/{worker}/stat").read().rpartition(")")[2].split()[1])
print(worker, server, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(1)", "os.kill(os.getpid(), 9)", "run(hogs.spin)"])
def test_server_and_workers_end_with_the_program(end):
    code = CHILD.replace("{end}", end)
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    numbers = child.stdout.split()
    assert len(numbers) == 2, child.stderr
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{number}").exists() for number in numbers):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.02)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_nobody_s(closed, tmp_path):
    code = (
        "from tests.spanparse.isolation.test_workers import *; "
        f"open({str(tmp_path / 'out')!r}, 'w').write(str(run(hogs.give, 5, limits=APART)))"
    )
    subprocess.run(["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, code], cwd=ROOT, timeout=60, check=True)
    assert (tmp_path / "out").read_text() == "5"


def test_another_platform_says_that_it_has_no_such_limits(monkeypatch):
    monkeypatch.setattr(workers, "_control", None)
    monkeypatch.setattr(workers, "_idle", [])
    monkeypatch.setattr(workers.sys, "platform", "darwin")
    with pytest.raises(SpanparseError, match="needs Linux: darwin has no limits"):
        render_plain("x", Request([]), limits=APART)


def test_what_cannot_be_handed_over_is_named():
    with pytest.raises(SpanparseError, match="plain data"):
        render_plain("x", Request([], kwargs={"f": lambda: 1}), limits=APART)


def test_a_template_from_a_file_is_inspected_and_analysed_in_a_worker(tmp_path, monkeypatch, capsys):
    asked = []

    def noted(function, *arguments, **options):
        asked.append(function.__name__)
        return genuine(function, *arguments, **options)

    genuine = workers.isolated
    monkeypatch.setattr("spanparse.isolation.isolated", noted)
    path = tmp_path / "own.jinja"
    path.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}")
    for command in ("inspect", "analyse"):
        asked.clear()
        assert main([command, "chatml"]) == 0
        assert asked == []
        assert main([command, str(path)]) == 0
        assert "render_plain" in asked
    capsys.readouterr()
