"""The two markers of llama.cpp's general method: what its own code gives for these templates."""

from __future__ import annotations

import hashlib

import pytest

from spanparse import Limits, TemplateSource
from spanparse.analysis.llama_cpp import llama_cpp_markers
from spanparse.analysis.trials import Trials

GENERATION = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def found(template: str) -> tuple[str, str]:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    return llama_cpp_markers(Trials(source, {"bos_token": "<s>", "eos_token": "</s>"}, Limits()))


LOOP = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + GENERATION


@pytest.mark.parametrize(
    ("template", "user", "assistant"),
    [
        (LOOP, "<|im_start|>user", "<|im_start|>assistant"),
        # A default system text becomes part of the user's marker.
        (
            "{% if not messages %}{% elif messages[0].role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n"
            "{% endif %}" + LOOP,
            "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user",
            "<|im_start|>assistant",
        ),
        # Mistral's assistants have no marker.
        (
            "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}"
            "{{ m.content }}</s>{% endif %}{% endfor %}",
            "[INST]",
            "",
        ),
        # What closes the turn before is cut off in front of a user, not of an assistant.
        (
            "{% for m in messages %}{% if not loop.first %}<|end|>{% endif %}<|{{ m.role }}|>{{ m.content }}"
            "{% endfor %}",
            "<|user|>",
            "<|end|><|assistant|>",
        ),
        # The think block is cut off an assistant's marker.
        (
            "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
            "<think>{{ m.reasoning_content or '' }}</think>{% endif %}{{ m.content }}{% endfor %}",
            "<|user|>",
            "<|assistant|>",
        ),
        ("{{ raise_exception('no') }}", "", ""),
    ],
)
def test_markers_of_the_general_method(template: str, user: str, assistant: str) -> None:
    markers = found(template)
    assert (markers.user_start, markers.assistant_start) == (user, assistant)
