"""`spanparse run`: chat with a model, or play a file of chat requests on one engine and report on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanparse.cli import options
from spanparse.cli.comparison import time_to_first_token
from spanparse.cli.options import known_policy
from spanparse.cli.output import console, progress, write_json
from spanparse.cli.store import Disk, DiskBytes, RamBytes, Redis, RedisBytes, complaints, store_options
from spanparse.cli.tables import cell, new_table, show_table

if TYPE_CHECKING:
    from runtime import Engine, Request

FINDINGS = 1


def run(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A .gguf file, or a tiny model's name.", show_default=False)
    ],
    requests: Annotated[
        str | None,
        typer.Option(
            "--requests",
            metavar="FILE",
            help='JSON lines: {"messages": […], "tools": […], "id": "…", "max_tokens": 16, "temperature": 0, '
            '"cancel_after_tokens": 1000, "timeout": 60}; only messages is required. [default: a chat]',
            show_default=False,
        ),
    ] = None,
    checkpoints: options.Checkpoints = None,
    checkpoint_bytes: options.CheckpointBytes = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="T", help="A SOURCE of a template instead of the model's own.")
    ] = None,
    mmproj: Annotated[
        str | None,
        typer.Option(
            "--mmproj",
            metavar="GGUF|KIND",
            help="A projector file for images and recordings, or a tiny projector's name (gemma3, qwen2vl, qwen3vl, "
            "internvl, qwen3a).",
        ),
    ] = None,
    ram_bytes: RamBytes = None,
    disk: Disk = None,
    disk_bytes: DiskBytes = None,
    redis: Redis = None,
    redis_bytes: RedisBytes = None,
    policy: options.Policy = "adaptive",
    token_ids: Annotated[
        bool, typer.Option("--token-ids", help="Report the ids of every prompt (with --json).")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every output with a cold run; exit 1 if one differs.")
    ] = False,
    trust_content: options.TrustContent = False,
    ctx: Annotated[
        int, typer.Option("--ctx", metavar="N", min=256, max=1 << 24, help="Tokens the memory holds, at least 256.")
    ] = 16384,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=4, help="Most tokens handed over at once, at least 4.")
    ] = 2048,
    ubatch: Annotated[int, typer.Option("--ubatch", metavar="N", min=1, help="Most tokens computed at once.")] = 512,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="N", min=1, max=512, help="Threads, at most 512. [default: one a core]"),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="In a chat, say what each answer cost.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON report a line on standard output (with --requests).")
    ] = False,
) -> None:
    """Chat with a model, or play a file of requests and report on it.

    A report says what was evaluated, what was reused, and why it was more than the least possible. Without --requests
    each line of standard input is answered; /help lists the commands.
    """
    if requests is None and (mmproj or verify or token_ids or as_json):
        raise typer.BadParameter("--mmproj, --verify, --token-ids and --json need --requests")
    if requests is not None and stats:
        raise typer.BadParameter("--stats is for a chat: the reports of --requests are complete")
    from spanparse.cli.models import find_model, find_projector, require_runtime
    from spanparse.cli.prompt import load_template

    require_runtime(model, "running a model")
    from runtime import Engine, read_requests

    placement = known_policy(policy)
    played = None if requests is None else read_requests(requests)
    source = None if template is None else load_template(template)
    store = store_options(ram_bytes, disk, disk_bytes, redis, redis_bytes)
    with (
        complaints(),
        Engine(
            find_model(model),
            template=source,
            projector=None if mmproj is None else find_projector(mmproj),
            policy=placement,
            checkpoints=checkpoints,
            checkpoint_bytes=checkpoint_bytes,
            store=store,
            n_ctx=ctx,
            n_batch=batch,
            n_ubatch=ubatch,
            n_threads=threads,
            exact=verify,
            trust_content=trust_content,
        ) as engine,
    ):
        if played is None:
            found = _chat(engine, stats=stats)
        else:
            found = _play(engine, played, verify=verify, token_ids=token_ids, as_json=as_json)
    if found:
        raise typer.Exit(FINDINGS)


def _chat(engine: Engine, *, stats: bool) -> bool:
    """Whether a line from a pipe could not be answered; whoever sits at a terminal has seen it."""
    from spanparse.cli.chat import Chat, new_session, typed_lines

    chat = Chat(new_session(engine), console(), stats=stats)
    for line in typed_lines():
        if not chat.enter(line):
            break
    return chat.failed and not sys.stdin.isatty()


def _play(engine: Engine, requests: list[Request], *, verify: bool, token_ids: bool, as_json: bool) -> bool:
    """Whether a request failed, or a verified answer differs."""
    from runtime import Verifier
    from runtime.play import play

    reports, failed = [], False
    with Verifier(engine) if verify else nullcontext() as verifier:
        for report in play(engine, _watched(requests, quiet=as_json), verifier=verifier, token_ids=token_ids):
            failed |= _is_finding(report)
            if as_json:
                write_json(report, indent=None)
                sys.stdout.flush()
            else:
                reports.append(report)
    if not as_json:
        _show(reports, verified=verify)
    return failed


def _is_finding(report: dict[str, Any]) -> bool:
    return report["finish"] == "error" or (report.get("verify") or {}).get("identical") is False


def _watched(requests: list[Request], *, quiet: bool) -> Iterator[Request]:
    """The requests, with a bar on standard error that counts them as they are taken."""
    with progress(quiet=quiet) as display:
        yield from display.track(requests, description="requests")


def _show(reports: list[dict[str, Any]], *, verified: bool) -> None:
    numbers = ("prompt", "evaluated", "reused", "ideal", "saves", "seconds")
    last = ["same"] if verified else []
    table = new_table("request", *numbers, "finish", *last, right=numbers)
    remarks = []
    for report in reports:
        name = report["id"]
        if report["finish"] == "error":
            table.add_row(cell(name), *["–"] * len(numbers), "error", style="red")
            remarks.append(f"{name}: {report['error']}")
            continue
        counts = [str(report[key]) for key in ("prompt_tokens", "evaluated", "reused", "ideal", "saves")]
        seconds = f"{time_to_first_token(report['seconds']):.3f}"
        verdict = report.get("verify")
        identical = "–" if verdict is None else "yes" if verdict["identical"] else "NO"
        table.add_row(cell(name), *counts, seconds, report["finish"], *([identical] if verified else []))
        if (refused := report["refused"]) is not None:
            remarks.append(
                f"{name}: {refused['offset']} tokens not restored from {refused['from']}: {refused['reason']}"
            )
        remarks += [f"{name}: {e['tokens']} more than ideal: {e['reason']}, {e['detail']}" for e in report["excess"]]
    screen = console()
    show_table(screen, table)
    for remark in remarks:
        screen.print(cell(remark), soft_wrap=True)
