"""The code under test: what it makes of a case."""

from __future__ import annotations

import hashlib

from tests.audit.case import Case
from tests.audit.corpus import Template
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.plain import CLOCK

from spanparse import Rendering, Request, TemplateSource, explain, parse_request, request_of


def source_of(template: Template) -> TemplateSource:
    """The template as the parser takes it."""
    digest = hashlib.sha256(template.text.encode()).hexdigest()
    return TemplateSource(template.name, template.text, digest, None, SPECIAL_TOKENS)


def parse_case(source: TemplateSource, case: Case, generation: bool) -> Rendering:
    """The rendering of a case."""
    return parse_request(source, _request(source, case, generation))


def rules_of(source: TemplateSource, case: Case, generation: bool) -> frozenset[str]:
    """The rules that decide an owner in the rendering of a case."""
    return frozenset(decision.rule for decision in explain(source, _request(source, case, generation)))


def _request(source: TemplateSource, case: Case, generation: bool) -> Request:
    return request_of(
        source,
        case.messages,
        tools=case.conversation.tools,
        kwargs=case.kwargs,
        add_generation_prompt=generation,
        clock=CLOCK,
    )
