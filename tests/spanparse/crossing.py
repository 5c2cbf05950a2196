"""Templates that write one message's text while a loop holds another one."""

from __future__ import annotations

CROSSING = {
    "closed by the next": (
        "{% for m in messages %}{% if not loop.first %}</{{ messages[loop.index0 - 1].role }}>{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}"
    ),
    "turn closed by the next": (
        "{% for m in messages %}{% if not loop.first %}<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n"
        "{{ m.content }}{% endfor %}"
    ),
    "header by the one before": (
        "<|user|>{% for m in messages %}{{ m.content }}{% if not loop.last %}<|{{ messages[loop.index].role }}|>"
        "{% endif %}{% endfor %}"
    ),
    "words between": "{% for m in messages %}{{ m.content }}{% if not loop.last %} and then {% endif %}{% endfor %}",
}
