"""From a template to all findings about it, by trying small conversations on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spanparse.analysis.calls import find_tool_calls, tools_blocks
from spanparse.analysis.effects import find_variables, values_of
from spanparse.analysis.findings import Analysis, Reasoning, RoleMarkers, SpecialToken
from spanparse.analysis.habits import habits, verdicts
from spanparse.analysis.llama_cpp import llama_cpp_markers
from spanparse.analysis.markers import control_tokens, generation_prompt, role_markers
from spanparse.analysis.probes import ONE_USER, TURNS, VERDICT_PROBES
from spanparse.analysis.reasoning import find_reasoning
from spanparse.analysis.surroundings import default_text, find_bos, find_clock, find_media
from spanparse.analysis.trials import Refusal, Trials, settle_form
from spanparse.analysis.variables import Read, variables_of
from spanparse.families import family_of
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_LIMITS
from spanparse.sources import TemplateSource
from spanparse.spans import Rendering

_STAND_INS: Final = {"bos_token": "<s>", "eos_token": "</s>"}
_MOST_SETTINGS: Final = 12
_UNDEFINED: Final = re.compile(r"'(\w+)' is undefined")


def analyse(
    template: TemplateSource, *, kwargs: Mapping[str, Any] | None = None, limits: Limits = DEFAULT_LIMITS
) -> Analysis:
    """What `template` writes, reads, refuses and does to messages.

    All of it is found by rendering a fixed set of small conversations, under the source's special tokens overlaid by
    `kwargs`, at a fixed time of day. `limits` hold for the whole analysis. Raises `TemplateError` if the template does
    not compile and `TemplateLimit`; that it refuses conversations is a finding.
    """
    limits = limits.started()
    reads = variables_of(template.text, name=template.source, limits=limits)
    given = {**template.special_tokens, **(kwargs or {})}
    tokens = _special_tokens(reads, given)
    settings = {token.name: token.text for token in tokens if not token.given}
    trials = Trials(template, {**settings, **given}, limits)
    free = [read for read in reads if not read.name.endswith("_token") and read.name not in given]
    required = _require(trials, free)
    settle_form(trials)
    refusals = [outcome.reason for probe in VERDICT_PROBES if isinstance(outcome := trials.parse(probe), Refusal)]
    refuses_all = len(refusals) == len(VERDICT_PROBES)
    found = Analysis(
        template.source,
        template.sha256,
        template.variant,
        family_of(template.text),
        refusals[0] if refuses_all else None,
        trials.content_as,
        tokens,
        verdicts(trials),
        llama_cpp_markers(trials),
    )
    return found if refuses_all else _with_findings(found, trials, required, free)


def _with_findings(
    found: Analysis, trials: Trials, required: tuple[tuple[str, Any], ...], free: Sequence[Read]
) -> Analysis:
    roles = role_markers(trials)
    assistant = next((found for found in roles if found.role == "assistant"), None)
    variables = find_variables(trials, [read for read in free if read.name not in dict(required)])
    reasoning = _reasoning(trials, assistant, free)
    return replace(
        found,
        required=required,
        roles=roles,
        generation_prompt=generation_prompt(trials, assistant),
        default_text=default_text(trials),
        reasoning=reasoning,
        tool_calls=find_tool_calls(trials, assistant, reasoning),
        tools=tools_blocks(trials),
        variables=variables,
        habits=habits(trials),
        bos=find_bos(trials),
        clock=find_clock(trials),
        media=find_media(trials),
        inexact=_inexact(trials),
        control_tokens=control_tokens(found for found in trials.tried().values() if isinstance(found, Rendering)),
    )


def _special_tokens(reads: Iterable[Read], given: Mapping[str, Any]) -> tuple[SpecialToken, ...]:
    """The special tokens that the template reads, with a stand-in for each that nobody gives."""
    names = [read.name for read in reads if read.name.endswith("_token")]
    stand_ins = {name: _STAND_INS.get(name, f"<{name.removesuffix('_token')}>") for name in names}
    return tuple(SpecialToken(name, str(given.get(name, stand_ins[name])), name in given) for name in names)


def _require(trials: Trials, reads: Sequence[Read]) -> tuple[tuple[str, Any], ...]:
    """Gives `trials` the variables without which the template refuses everything, as it names them; returns them."""
    by_name = {read.name: read for read in reads}
    given: dict[str, Any] = {}
    outcome = trials.parse_with(ONE_USER, given)
    while isinstance(outcome, Refusal) and (missing := _UNDEFINED.search(outcome.reason)):
        name, before = missing[1], outcome.reason
        if name not in by_name or name in given or not isinstance(trials.parse_with(TURNS, given), Refusal):
            break
        for value in reversed(values_of(by_name[name])):
            outcome = trials.parse_with(ONE_USER, {**given, name: value})
            if not isinstance(outcome, Refusal) or outcome.reason != before:
                given[name] = value
                break
        else:
            break
    if isinstance(outcome, Refusal):
        return ()
    trials.kwargs.update(given)
    return tuple(given.items())


def _reasoning(trials: Trials, assistant: RoleMarkers | None, reads: Sequence[Read]) -> Reasoning | None:
    """The finding about reasoning, under the first setting that makes the template show any if it needs one."""
    found = find_reasoning(trials, assistant)
    if (found is not None and found.fields) or "reason" not in trials.template.text:
        return found
    settings = [(read.name, value) for read in reads for value in values_of(read) if value is not False]
    for name, value in settings[:_MOST_SETTINGS]:
        under = find_reasoning(trials.under({name: value}), assistant)
        if under is not None and under.fields:
            return replace(under, needs=((name, value),))
    return found


def _inexact(trials: Trials) -> tuple[tuple[str, str], ...]:
    parsed = ((probe.shape, trials.accepted(probe)) for probe in VERDICT_PROBES)
    return tuple((shape, found.reason.kind) for shape, found in parsed if found is not None and found.reason)
