"""The template variables that callers set, and the settings of them that the audit tries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from jinja2.meta import find_undeclared_variables
from tests.audit.plain import ENVIRONMENT

SPECIAL_TOKENS: Final = {"bos_token": "<s>", "eos_token": "</s>"}
"""What every render is given: templates read on their own say nothing about the tokens of their vocabulary."""

_FLAG: Final = re.compile(
    r"(enable|preserve|clear|keep|skip|drop|include|truncate|show|retain|force|forced|open|auto_disable|no|is|save|add)_"
    r"(all_|past_|history_|interleaved_)?"
    r"(thinking|reasoning|think|cots|thoughts|vision_id|audio_id|history_thinking|think_prompt|training"
    r"|history_reasoning_content|thinking_with_tools|ai_search|all_think|past_thinking)"
    r"|thinking|interleaved_thinking|preserved_thinking|forced_thinking|think|think_render_option"
    r"|tools_in_user_message|low_effort|medium_effort|use_tts_template"
)
_CHOICES: Final = {"reasoning_effort": ("low", "high"), "thinking_mode": ("thinking", "chat")}


@lru_cache(maxsize=8)
def settings(template: str) -> Mapping[str, Mapping[str, Any]]:
    """The settings for a template by name: none, each kwarg with each value, and all flags on and all off.

    Names are as a user would write them on the command line, `enable_thinking=false`.
    """
    read = find_undeclared_variables(ENVIRONMENT.parse(template))
    flags = sorted(name for name in read if _FLAG.fullmatch(name))
    found: dict[str, Mapping[str, Any]] = {"": {}}
    for name in flags:
        found |= {f"{name}={str(value).lower()}": {name: value} for value in (True, False)}
    for name in sorted(_CHOICES.keys() & read):
        found |= {f"{name}={value}": {name: value} for value in _CHOICES[name]}
    if len(flags) > 1:
        found |= {f"all {str(value).lower()}": dict.fromkeys(flags, value) for value in (True, False)}
    return found
