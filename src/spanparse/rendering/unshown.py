"""Texts that a template would put out if they were not empty.

`{% if content %}{{ content }}{% endif %}` puts out what `{{ content }}` does, and so do `{{ content or '' }}` and the
like. A marked render is to know in each of them where an empty text would stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import repeat
from typing import Final, NamedTuple, TypeVar

from jinja2 import nodes

# Parts of a condition, and of what its variables are set to, that are looked at.
_MOST_STEPS: Final = 60
_MEASURES: Final = frozenset({"trim", "string", "length", "count"})
_VALUES: Final = (nodes.Name, nodes.Getattr, nodes.Getitem)

_Node = TypeVar("_Node", bound=nodes.Node)
Known = Mapping[str, nodes.Node]
"""What the variables hold that a template sets in one place."""


class Unshown(NamedTuple):
    """A text that is not put out if it is empty: `value` gives it once `before` holds; that is so while `after` does.

    All of them may be worked out also where that is not so.
    """

    value: nodes.Node
    before: tuple[nodes.Node, ...] = ()
    after: tuple[nodes.Node, ...] = ()


def set_once(template: nodes.Template) -> Known:
    """The variables that a template sets to one thing alone, and to what."""
    found: dict[str, list[nodes.Node]] = {}
    for node in template.find_all(nodes.Assign):
        if isinstance(node.target, nodes.Name):
            found.setdefault(node.target.name, []).append(node.node)
    return {name: values[0] for name, values in found.items() if all(value == values[0] for value in values)}


def guarded(node: nodes.If, known: Known) -> Unshown | None:
    """The text that `node` puts out unless it is empty; None if there is none, or others are put out with it."""
    outputs = _outputs(node.body)
    if node.else_ or not all(_is_single(child) for output in outputs for child in output.nodes):
        return None
    for found in (*_first_choice(node.test, known), *_asked_for(node.test, known)):
        printed = found.value if isinstance(found.value, _VALUES) else node.test
        if any(printed in output.find_all(type(printed)) for output in outputs):
            return found
    return None


def _first_choice(test: nodes.Node, known: Known) -> Iterator[Unshown]:
    """What a variable that is asked for was to hold first: `x.get('a')` of `x.get('a') or x.get('b')`."""
    chosen = known.get(test.name) if isinstance(test, nodes.Name) else None
    while isinstance(chosen, nodes.Or):
        chosen = chosen.left
        if isinstance(chosen, nodes.Call) and isinstance(chosen.node, nodes.Getattr) and chosen.node.attr == "get":
            yield Unshown(copy(chosen))


def falls_back(node: nodes.CondExpr, known: Known) -> tuple[nodes.Node, Unshown] | None:
    """The empty text that `node` gives instead of one that is empty itself, and this: `x.strip() if x else ''`."""
    if node.expr2 is None or not is_empty_text(node.expr2):
        return None
    found = next((found for found in _asked_for(node.test, known) if _stands_in(found.value, node.expr1)), None)
    return None if found is None else (node.expr2, found)


def set_empty(node: nodes.If, known: Known) -> tuple[nodes.Node, Unshown] | None:
    """The same for an empty text that a variable is set to: `{% if x %}{% set y = x %}{% else %}{% set y = '' %}…`."""
    for last in node.else_:
        if isinstance(last, nodes.Assign) and is_empty_text(last.node):
            others = [first for first in node.find_all(nodes.Assign) if first.target == last.target]
            for found in _asked_for(node.test, known):
                if any(_stands_in(found.value, first.node) for first in others):
                    return last.node, found
    return None


def is_empty_text(node: nodes.Node) -> bool:
    """Whether `node` is an empty text that the template states."""
    return isinstance(node, nodes.Const) and node.value == ""


def _asked_for(test: nodes.Node, known: Known, steps: Iterator[None] | None = None) -> Iterator[Unshown]:
    """The texts without which `test` fails: `x` in `x | trim | length > 0`, in `y and x`, in what is set to these.

    What is set to what is set may be without end: the answer is found in few `steps`, or not.
    """
    steps = repeat(None, _MOST_STEPS) if steps is None else steps
    if next(steps, test) is not None:
        return
    if isinstance(test, _VALUES):
        if not _calls(test):
            yield Unshown(copy(test))  # of which more than its truth is asked
        if isinstance(test, nodes.Name) and test.name in known:
            yield from _asked_for(known[test.name], {name: known[name] for name in known if name != test.name}, steps)
    elif isinstance(test, nodes.And):
        for found in _asked_for(test.right, known, steps) if not _calls(test.left) else ():
            yield found._replace(before=(test.left, *found.before))
        for found in _asked_for(test.left, known, steps) if _is_safe(test.right) else ():
            yield found._replace(after=(*found.after, test.right))
    else:
        inner = _measured(test)
        yield from _asked_for(inner, known, steps) if inner is not None else ()


def _measured(test: nodes.Node) -> nodes.Node | None:
    """The text of which `test` asks what is in it, or how long it is."""
    if isinstance(test, nodes.Filter):
        return test.node if test.name in _MEASURES and not (test.args or test.kwargs) else None
    if isinstance(test, nodes.Call):
        strips = isinstance(test.node, nodes.Getattr) and test.node.attr == "strip" and not (test.args or test.kwargs)
        return next(test.node.iter_child_nodes()) if strips else None
    if isinstance(test, nodes.Compare) and len(test.ops) == 1 and test.ops[0].op in ("gt", "ne"):
        against = test.ops[0].expr
        return test.expr if isinstance(against, nodes.Const) and against.value in (0, "") else None
    return None


def _is_safe(test: nodes.Node) -> bool:
    """Whether a condition can be asked that the template does not ask: nothing is looked up but `loop`, or called."""
    held = [node.node for node in within(test, nodes.Getattr)] + [node.node for node in within(test, nodes.Getitem)]
    return not _calls(test) and all(node == nodes.Name("loop", "load") for node in held)


def _is_single(output: nodes.Node) -> bool:
    """Whether nothing but white space is put out beside one text."""
    if isinstance(output, nodes.TemplateData):
        return not output.data.strip()
    joins = (nodes.Add, nodes.Concat)
    return not isinstance(output, joins) and not any(True for kind in joins for _ in output.find_all(kind))


def _stands_in(value: nodes.Node, node: nodes.Node) -> bool:
    return value in within(node, type(value))


def _calls(node: nodes.Node) -> bool:
    return any(True for _ in within(node, nodes.Call))


def within(node: nodes.Node, kind: type[_Node]) -> Iterator[_Node]:
    """The nodes of a kind among `node` and all inside it."""
    if isinstance(node, kind):
        yield node
    yield from node.find_all(kind)


def _outputs(body: Sequence[nodes.Node]) -> list[nodes.Output]:
    """What a body puts out, conditions inside it followed."""
    found = []
    for node in body:
        if isinstance(node, nodes.Output):
            found.append(node)
        elif isinstance(node, nodes.If):
            found += _outputs([*node.body, *node.elif_, *node.else_])
    return found
