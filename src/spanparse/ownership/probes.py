"""The small conversations from which a template's profile is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from spanparse.errors import TemplateError, TemplateLimit
from spanparse.ownership.profile import Profile, Sample, learn, samples_of
from spanparse.ownership.segments import first_owners
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import Request, render_marked

_SAID: Final[dict[str, dict[str, Any]]] = {
    "system": {"role": "system", "content": "Sys"},
    "developer": {"role": "developer", "content": "Dev"},
    "user": {"role": "user", "content": "Ask"},
    "assistant": {"role": "assistant", "content": "Say"},
    "tool": {"role": "tool", "content": "Res", "tool_call_id": "call00001", "name": "look"},
    "call": {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}
        ],
    },
}
_WRITTEN: Final[dict[str, Any]] = {
    **_SAID["call"],
    "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}],
}
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks.",
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string", "description": "Where."}},
                "required": [],
            },
        },
    }
]
_PROBES: Final = (
    ("user",),
    ("user", "assistant"),
    ("user", "assistant", "user", "assistant", "user"),
    ("system", "user", "assistant", "user"),
    ("assistant", "user"),
    ("user", "user", "assistant", "assistant"),
    ("user", "assistant", "system", "user"),
    ("system", "system", "user"),
    ("developer", "user"),
    ("user", "call", "tool"),
    ("user", "call", "tool", "assistant", "user"),
)


_known: dict[tuple[str, str, bool], Profile] = {}
_MOST_KNOWN: Final = 256


def profile_of(template: str, request: Request, limits: Limits) -> Profile:
    """What the template of a request writes around messages, under the request's settings and with or without tools.

    It is learned once, from a dozen small renders under `limits`; where these are reached, what was learned until then
    is not kept.
    """
    key = (template, repr(sorted(request.kwargs.items())), bool(request.tools))
    profile = _known.get(key)
    if profile is None:
        profile, is_whole = _learned(template, request, limits)
        if is_whole:
            while len(_known) >= _MOST_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[key] = profile
    return profile


def _learned(template: str, request: Request, limits: Limits) -> tuple[Profile, bool]:
    """The profile, and whether all probes were made of which it takes."""
    found: list[list[Sample]] = []
    generation = bare = ""
    asked = replace(request, tools=_TOOLS if request.tools else None, add_generation_prompt=False)
    try:
        for names in _PROBES:
            probe = replace(asked, messages=_messages(names))
            samples = _samples(template, probe, names, limits)
            if not samples and "call" in names:
                # Some templates take arguments as a text alone.
                written = _messages(names, call=_WRITTEN)
                samples = _samples(template, replace(probe, messages=written), names, limits)
            found.append(samples)
            if names == ("user",):
                generation = _generation(template, probe, limits)
        if request.tools:
            names = ("system", "user")
            without = replace(asked, messages=_messages(names), tools=None)
            between = [s for s in _samples(template, without, names, limits) if (s.before, s.after) == names]
            bare = between[0].tail + between[0].gap if between else ""
    except TemplateLimit:
        return learn(found, generation, bare), False
    return learn(found, generation, bare), True


def _messages(names: tuple[str, ...], call: dict[str, Any] = _SAID["call"]) -> list[dict[str, Any]]:
    """The messages of a probe, each with a text of its own: some templates look for the one that equals the last."""
    said = ((place, call if name == "call" else _SAID[name]) for place, name in enumerate(names))
    return [{**message, "content": message["content"] and f"{message['content']} {place}"} for place, message in said]


def _samples(template: str, probe: Request, names: tuple[str, ...], limits: Limits) -> list[Sample]:
    try:
        marked = render_marked(template, probe, limits=limits)
    except TemplateLimit:
        raise
    except TemplateError:
        return []  # it takes no such conversation
    return samples_of(str.__str__(marked), marked._runs, first_owners(marked._runs), names)


def _generation(template: str, probe: Request, limits: Limits) -> str:
    """What the switch adds to a prompt."""
    try:
        without = render_marked(template, probe, limits=limits)
        text = render_marked(template, replace(probe, add_generation_prompt=True), limits=limits)
    except TemplateLimit:
        raise
    except TemplateError:
        return ""
    return text[len(without) :] if text.startswith(without) else ""
