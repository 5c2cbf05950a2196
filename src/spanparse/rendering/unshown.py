"""Texts that a template would put out if they were not empty.

`{% if content %}{{ content }}{% endif %}` puts out what `{{ content }}` does, and so do `{{ content or '' }}` and the
like. A marked render is to know in each of them where an empty text would stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from jinja2 import nodes

_TRIMS = frozenset({"trim", "string", "length", "count"})
_VALUES = (nodes.Name, nodes.Getattr, nodes.Getitem)


def guarded(node: nodes.If) -> nodes.Expr | None:
    """The text that `node` puts out unless it is empty, with what is asked of it first; None if there is no such text.

    The expression may give other things than a text, where something else keeps the text from being put out.
    """
    if node.elif_ or node.else_:
        return None
    outputs = _outputs(node.body)
    for found in _asked_for(node.test):
        text = found.right if isinstance(found, nodes.And) else found
        if any(text in output.find_all(type(text)) for output in outputs):
            return found
    return None


def falls_back(node: nodes.CondExpr) -> nodes.Expr | None:
    """The text without which `node` gives an empty one: the `x` of `x.strip() if x else ''`."""
    if node.expr2 is None or not is_empty_text(node.expr2):
        return None
    return next(_asked_for(node.test), None)


def is_empty_text(node: nodes.Node) -> bool:
    """Whether `node` is an empty text that the template states."""
    return isinstance(node, nodes.Const) and node.value == ""


def _asked_for(test: nodes.Node) -> Iterator[nodes.Expr]:
    """The texts without which `test` fails: `x` in `x | trim | length > 0`; in `y and x`, `x` with what guards it.

    Nothing in them may be called a second time.
    """
    if isinstance(test, _VALUES):
        if not _calls(test):
            yield copy(test)  # of which more than its truth is asked
    elif isinstance(test, nodes.And):
        if _is_guard(test.left):
            for text in _asked_for(test.right):
                if not isinstance(text, nodes.And):
                    yield nodes.And(test.left, text, lineno=test.lineno)
        if _is_guard(test.right):
            yield from _asked_for(test.left)
    else:
        yield from _asked_for(inner) if (inner := _measured(test)) is not None else ()


def _measured(test: nodes.Node) -> nodes.Node | None:
    """The text of which `test` asks what is in it, or how long it is."""
    if isinstance(test, nodes.Filter):
        return test.node if test.name in _TRIMS and not (test.args or test.kwargs) else None
    if isinstance(test, nodes.Call):
        method = test.node
        if isinstance(method, nodes.Getattr) and method.attr == "strip" and not (test.args or test.kwargs):
            return method.node
    if isinstance(test, nodes.Compare) and len(test.ops) == 1 and test.ops[0].op in ("gt", "ne"):
        against = test.ops[0].expr
        return test.expr if isinstance(against, nodes.Const) and against.value in (0, "") else None
    return None


def _is_guard(test: nodes.Node) -> bool:
    """Whether a condition asks whether something is there, or what it is."""
    if isinstance(test, nodes.Not):
        test = test.node
    return isinstance(test, (nodes.Test, *_VALUES)) and not _calls(test)


def _calls(node: nodes.Node) -> bool:
    return any(True for _ in node.find_all(nodes.Call))


def _outputs(body: list[nodes.Node]) -> list[nodes.Output]:
    """What a body puts out, conditions inside it followed."""
    found = []
    for node in body:
        if isinstance(node, nodes.Output):
            found.append(node)
        elif isinstance(node, nodes.If):
            found += _outputs([*node.body, *node.elif_, *node.else_])
    return found
