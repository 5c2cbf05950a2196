"""Prompts that were rendered elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from spanparse.analysis import analyse
from spanparse.cli.output import warning_line
from spanparse.cli.prompt import Prompt, check_standard_input, limits_for, load_template, read_input
from spanparse.conversation import parse_settings
from spanparse.errors import ConversationError
from spanparse.parse import request_of
from spanparse.raw import find_spans


def load_raw_prompt(source: str, path: str, *, variant: str | None = None, settings: Sequence[str] = ()) -> Prompt:
    """The text of a file as a prompt of SOURCE's template. Its conversation is unknown, so the request is empty."""
    kwargs = parse_settings(settings)
    check_standard_input(("SOURCE", source), ("--raw", path))
    try:
        text = read_input(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConversationError(path, f"not UTF-8 (byte {error.start})") from error
    template = load_template(source, variant)
    limits = limits_for(source).started()
    rendering = find_spans(text, analyse(template, kwargs=kwargs, limits=limits))
    for note in rendering.notes:
        warning_line(f"{path}: {note}")
    return Prompt(template, request_of(template, [], kwargs=kwargs), rendering, None, limits)
