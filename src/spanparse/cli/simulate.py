"""`spanparse simulate`: a trace of requests replayed against policies and budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from spanparse.cli import options
from spanparse.cli.options import chosen, known_policy
from spanparse.cli.output import console, print_line, progress, write_json
from spanparse.cli.tables import new_table, show_table
from spanparse.errors import SpanparseError
from spanparse.files import replacing

if TYPE_CHECKING:
    from rich.progress import Progress

    from planner import PlanRequest, PolicyName
    from planner.simulation import Session
    from planner.simulation.advice import Advice
    from planner.simulation.outcome import Totals
    from planner.simulation.sweep import Model, Result

_DEFAULT_CHECKPOINTS: Final = 8
_MODELS: Final[tuple[Model, ...]] = ("line", "tree")
_HALVES: Final = {"all": None, "odd": 1, "even": 0}
_FIGURES: Final = (
    *("evaluated", "bound", "ratio", "full_resets", "replays_over_4096", "saves", "saves_per_request", "breaks"),
    *("replay_p50", "replay_p95", "replay_p99", "seconds", "bytes"),
)
_DIGITS: Final = {"ratio": 6, "saves_per_request": 4, "seconds": 3}


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="JSON lines, plain or gzipped: sessions known by blocks of tokens, or a dialogue a line "
            '({"id": "…", "messages": […], "tools": […]}), with one request for each assistant message.',
            show_default=False,
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="P", help="A policy, or all; may be given again. [default: adaptive]"),
    ] = None,
    checkpoints: Annotated[
        list[int] | None,
        typer.Option("--checkpoints", metavar="K", min=0, help="A budget; may be given again. [default: 8]"),
    ] = None,
    checkpoint_bytes: options.CheckpointBytes = None,
    state_bytes: Annotated[
        int, typer.Option("--state-bytes", metavar="B", min=0, help="Size of one checkpoint; 0 is unknown.")
    ] = 0,
    sessions: Annotated[str, typer.Option("--sessions", metavar="WHICH", help="all, odd or even, from 1.")] = "all",
    depth: Annotated[
        str | None,
        typer.Option("--depth", metavar="WHICH", help="main: no sub-agents; all. [default: main on a line, else all]"),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="KIND", help="line: one conversation at a time; tree: branches survive.")
    ] = "line",
    requests: Annotated[
        bool, typer.Option("--requests", help="TRACE is a file for run --requests: all of it one session.")
    ] = False,
    template: Annotated[
        str, typer.Option("--template", metavar="T", help="What renders conversations, a SOURCE.")
    ] = "chatml",
    tokenizer: options.Tokenizer = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="SVG: the first session's checkpoints under the first policy."),
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Recommend a budget, and the best flags of llama.cpp's own server.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Replay a trace against policies and budgets.

    Evaluated tokens against those that checkpoints everywhere would have left, full resets, long replays, saves.
    """
    from planner.simulation.sweep import sweep

    if checkpoint_bytes is not None and not state_bytes:
        raise SpanparseError("--checkpoint-bytes needs --state-bytes, the size of one checkpoint")
    kind, main = chosen(model, _MODELS, "--model", "model"), model == "line"
    if depth is not None:
        main = chosen(depth, ("main", "all"), "--depth", "depth") == "main"
    names = _policies(policy or ["adaptive"])
    counts: Sequence[int | None] = checkpoints or ([None] if checkpoint_bytes else [_DEFAULT_CHECKPOINTS])
    with progress(quiet=as_json) as display:
        played = _half(_read(trace, requests, template, tokenizer, display), sessions)
        bases = [_base(name, count, checkpoint_bytes, state_bytes) for name in names for count in counts]
        if plot is not None:
            _plot(plot, played, bases[0], kind, main)
        if advise:
            _advise(trace, played, bases[0], kind, display, as_json)
            return
        advance = _advancing(display, len(played) * len(bases))
        results = list(sweep(played, bases, kind, main=main, advance=advance))
    optimum = _optimum(played, counts, kind, main)
    if as_json:
        write_json(_document(trace, results, optimum))
    else:
        _show(trace, len(played), results, optimum)


def _policies(names: Sequence[str]) -> list[PolicyName]:
    from planner import POLICIES

    return list(POLICIES) if "all" in names else [known_policy(name) for name in dict.fromkeys(names)]


def _base(policy: PolicyName, count: int | None, limit: int | None, state_bytes: int) -> PlanRequest:
    from planner import Budget, PlanRequest

    return PlanRequest(1, policy=policy, budget=Budget(count, limit), state_bytes=state_bytes)


def _read(trace: str, requests: bool, template: str, tokenizer: str | None, display: Progress) -> list[Session]:
    from planner.simulation import read_blocks
    from spanparse.cli.prompt import load_template, read_input
    from spanparse.cli.tokenizer import find_backend
    from spanparse.cli.traces import is_block_trace, read_dialogues, sessions_of

    data = read_input(trace)
    if is_block_trace(data) and not requests:
        return list(display.track(read_blocks(data, trace), description="reading"))
    dialogues = read_dialogues(data, trace, requests=requests)
    source = load_template(template, tools=any(r.tools for d in dialogues for r in d.requests))
    backend, why_none = find_backend(tokenizer, source)
    if backend is None:
        raise SpanparseError(f"{trace}: conversations need a tokenizer: {why_none}")
    task = display.add_task("rendering", total=sum(len(dialogue.requests) for dialogue in dialogues))
    return sessions_of(dialogues, source, backend, lambda _: display.advance(task))


def _half(sessions: list[Session], which: str) -> list[Session]:
    if which not in _HALVES:
        raise SpanparseError(f"--sessions: {which} is none of {', '.join(_HALVES)}")
    parity = _HALVES[which]
    return [s for number, s in enumerate(sessions, 1) if parity is None or number % 2 == parity]


def _advancing(display: Progress, total: int) -> Callable[[PlanRequest], None]:
    task = display.add_task("", total=total)

    def advance(base: PlanRequest) -> None:
        display.update(task, description=f"{base.policy} {base.budget.checkpoints}", advance=1)

    return advance


class _Optimum(NamedTuple):
    """Tokens that anyone who knew the future would evaluate: at least `lower`, None if unknown, at most `upper`."""

    lower: int | None
    upper: int


_UNKNOWN: Final = (None, None)


def _optimum(
    sessions: list[Session], counts: Sequence[int | None], model: Model, main: bool
) -> dict[int | None, _Optimum]:
    from planner.simulation.sweep import least_in_a_tree, least_on_a_line

    known = [count for count in counts if count is not None]
    if model == "line":
        return {count: _Optimum(None, least_on_a_line(sessions, count, main=main)) for count in known}
    return {count: _Optimum(*least_in_a_tree(sessions, count, main=main)) for count in known}


def _plot(path: str, sessions: list[Session], base: PlanRequest, model: Model, main: bool) -> None:
    from planner.learning import Planner
    from planner.simulation.plot import plot
    from planner.simulation.sweep import replay

    if not sessions:
        raise SpanparseError("--plot: the trace has no session")
    outcomes = list(replay(sessions[0], base, Planner(), model, main=main))
    title = f"{sessions[0].name}: {base.policy}, {base.budget.checkpoints} checkpoints"
    with replacing(path) as draft:
        draft.write_text(plot(outcomes, title), encoding="utf-8")


def _document(trace: str, results: list[Result], optimum: dict[int | None, _Optimum]) -> dict[str, Any]:
    requests = results[0].totals.requests if results else 0
    rows = [
        {
            "policy": base.policy,
            "checkpoints": base.budget.checkpoints,
            **_row(totals),
            **dict(zip(("optimum_lower", "optimum"), optimum.get(base.budget.checkpoints, _UNKNOWN), strict=True)),
        }
        for base, totals in results
    ]
    return {"schema_version": 1, "trace": trace, "requests": requests, "results": rows}


def _row(totals: Totals) -> dict[str, Any]:
    figures = {name: getattr(totals, name) for name in _FIGURES}
    rounded = {name: round(figures[name], digits) for name, digits in _DIGITS.items()}
    return {**figures, **rounded, "reasons": dict(totals.reasons)}


def _show(trace: str, sessions: int, results: list[Result], optimum: dict[int | None, _Optimum]) -> None:
    numbers = ("K", "ratio", "optimum", "resets %", "> 4096 %", "saves", "p95", "p99", "seconds")
    table = new_table("policy", *numbers, right=numbers)
    for base, totals in results:
        best = optimum.get(base.budget.checkpoints)
        table.add_row(
            base.policy,
            "–" if base.budget.checkpoints is None else str(base.budget.checkpoints),
            f"{totals.ratio:.4f}",
            _range(best, totals.bound),
            _share(totals.full_resets, totals.requests),
            _share(totals.replays_over_4096, totals.requests),
            f"{totals.saves_per_request:.2f}",
            f"{totals.replay_p95:,}",
            f"{totals.replay_p99:,}",
            f"{totals.seconds:,.0f}",
        )
    screen = console()
    totals = results[0].totals
    counts = f"{sessions} sessions, {totals.requests:,} later requests, bound {totals.bound:,} tokens"
    print_line(screen, f"{trace}: {counts}")
    show_table(screen, table)
    for base, totals in results:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in totals.reasons.items()) or "none"
        print_line(screen, f"{base.policy} {base.budget.checkpoints}: not continued: {reasons}")


def _range(optimum: _Optimum | None, bound: int) -> str:
    if optimum is None or not bound:
        return "–"
    ends = [f"{end / bound:.4f}" for end in optimum if end is not None]
    return "–".join(dict.fromkeys(ends))


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.3f}" if of else "–"


def _advise(
    trace: str, sessions: list[Session], base: PlanRequest, model: Model, display: Progress, as_json: bool
) -> None:
    from planner.simulation.advice import advise, runs

    if not any(session.prompts for session in sessions):
        raise SpanparseError(f"{trace}: holds no requests to advise on")
    found = advise(sessions, base, model, advance=_advancing(display, len(sessions) * len(runs(base))))
    display.stop()
    if as_json:
        write_json({"schema_version": 1, "trace": trace, **_advice_json(found)})
    else:
        _show_advice(found)


def _advice_json(found: Advice) -> dict[str, Any]:
    flags = {"ctx_checkpoints": found.flags[0], "checkpoint_min_step": found.flags[1]}
    return {
        "checkpoints": found.checkpoints,
        "adaptive": _row(found.adaptive),
        "gain_seconds": round(_gain(found), 3),
        "llama_cpp": {"default": _row(found.default), "flags": flags, "best": _row(found.best)},
        "budgets": [{"checkpoints": count, **_row(totals)} for count, totals in found.budgets],
        "beyond_llama_cpp": {
            "inside_system_or_tools": found.limits.inside_start,
            "end_of_system": found.limits.at_start,
            "later": found.limits.later,
        },
    }


def _gain(found: Advice) -> float:
    return found.default.seconds - found.adaptive.seconds


def _show_advice(found: Advice) -> None:
    best, ours, limits = found.best, found.adaptive, found.limits
    size = "" if found.bytes is None else f" ({found.bytes / 2**20:,.0f} MiB)"
    plural = "" if found.checkpoints == 1 else "s"
    lines = [
        f"Keep {found.checkpoints} checkpoint{plural}{size}: more gain less than half a percent.",
        f"  adaptive    {ours.seconds:,.0f} s, {ours.ratio:.4f} x the bound",
        f"llama.cpp's server: --ctx-checkpoints {found.flags[0]} --checkpoint-min-step {found.flags[1]}",
        f"  these       {best.seconds:,.0f} s, {best.ratio:.4f} x the bound",
        f"  its default {found.default.seconds:,.0f} s, {found.default.ratio:.4f} x",
        f"Expected gain of the first over llama.cpp's default: {_gain(found):,.0f} s, "
        f"{100 * _gain(found) / found.default.seconds:.1f} %; "
        f"over its best flags: {best.seconds - ours.seconds:,.0f} s",
        f"What its flags cannot reach: {best.replays_over_4096:,} replays of more than 4,096 tokens, "
        f"{limits.inside_start:,} after a change inside tools or system text, {limits.at_start:,} at the end of those, "
        f"{limits.later:,} further on.",
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)
