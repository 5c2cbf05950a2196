"""Which variables a template reads from its caller, and which values it compares them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from jinja2 import nodes

from spanparse.bounds.limits import Limits
from spanparse.rendering.environment import MAX_TEMPLATE_CHARACTERS, ChatEnvironment, compile_template
from spanparse.rendering.render import DEFAULT_LIMITS

_ENVIRONMENT: Final = ChatEnvironment()
_GIVEN: Final = frozenset({"messages", "tools", "add_generation_prompt"})
_MACRO: Final = frozenset({"caller", "varargs", "kwargs"})


class Read(NamedTuple):
    """A variable, the constants it is compared with, and whether it is looped over or subscripted."""

    name: str
    constants: tuple[Any, ...]
    is_container: bool


def variables_of(text: str, *, name: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Read, ...]:
    """The variables that the template may read before it sets them itself, sorted by name.

    Jinja's own answer (`meta.find_undeclared_variables`) counts every name that is set in one branch and read in
    another; following the order of the statements leaves those out. Raises what compiling the template raises.
    """
    if limits.isolate:
        from spanparse.isolation import isolated

        return tuple(isolated(variables_of, text, name=name, limits=limits))
    compile_template(text, name, marking=False, limits=limits.started())
    assert len(text) <= MAX_TEMPLATE_CHARACTERS
    tree = _ENVIRONMENT.parse(text)
    walk = _Walk(tree)
    walk.statements(tree.body, set(walk.macros))
    names = sorted(walk.read - _GIVEN - _ENVIRONMENT.globals.keys())
    assignments, comparisons = list(tree.find_all(nodes.Assign)), list(tree.find_all(nodes.Compare))
    taken_apart = [loop.iter for loop in tree.find_all(nodes.For)] + [n.node for n in tree.find_all(nodes.Getitem)]
    reads = []
    for each in names:
        aliases = _aliases(assignments, each)
        is_container = any(_mentions(node, aliases) for node in taken_apart)
        reads.append(Read(each, _constants(comparisons, aliases), is_container))
    return tuple(reads)


class _Walk:
    """A walk through the statements in their order; `read` collects names that no earlier statement may have set."""

    def __init__(self, tree: nodes.Template) -> None:
        self.read: set[str] = set()
        self.macros = {macro.name for macro in tree.find_all(nodes.Macro)}
        # A macro runs when it is called, so it sees what the template has set by then.
        self._anywhere = {name.name for name in _set_outside_macros(tree)}

    def statements(self, body: Iterable[nodes.Node], known: set[str]) -> None:
        """Walks `body`, adding to `known` what it may set."""
        for node in body:
            self._statement(node, known)

    def _statement(self, node: nodes.Node, known: set[str]) -> None:
        match node:
            case nodes.Assign():
                self._expression(node.node, known)
                self._store(node.target, known)
            case nodes.AssignBlock():
                self.statements(node.body, set(known))
                self._store(node.target, known)
            case nodes.If():
                self._expression(node.test, known)
                branches: list[Iterable[nodes.Node]] = [node.body, *([branch] for branch in node.elif_), node.else_]
                outcomes = []
                for branch in branches:
                    outcome = set(known)
                    self.statements(branch, outcome)
                    outcomes.append(outcome)
                known.update(*outcomes)
            case nodes.For():
                self._expression(node.iter, known)
                inner = known | {"loop"} | {target.name for target in _targets(node.target)}
                if node.test is not None:
                    self._expression(node.test, inner)
                self.statements(node.body, inner)
                self.statements(node.else_, set(known))
            case nodes.Macro() | nodes.CallBlock():
                for default in node.defaults:
                    self._expression(default, known)
                if isinstance(node, nodes.CallBlock):
                    self._expression(node.call, known)
                seen = known | self._anywhere if isinstance(node, nodes.Macro) else known
                self.statements(node.body, seen | _MACRO | {argument.name for argument in node.args})
            case nodes.With():
                for value in node.values:
                    self._expression(value, known)
                names = {name.name for target in node.targets for name in _targets(target)}
                self.statements(node.body, known | names)
            case nodes.FilterBlock():
                self._expression(node.filter, known)
                self.statements(node.body, set(known))
            case nodes.Scope() | nodes.ScopedEvalContextModifier() | nodes.Block():
                self.statements(node.body, set(known))
            case _:
                self._expression(node, known)

    def _store(self, target: nodes.Node, known: set[str]) -> None:
        for name in _targets(target):
            known.add(name.name)

    def _expression(self, node: nodes.Node, known: set[str]) -> None:
        names = [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name)
        self.read |= {name.name for name in names if name.ctx == "load"} - known


def _targets(target: nodes.Node) -> Iterator[nodes.Name]:
    if isinstance(target, nodes.Name):
        yield target
    else:
        yield from (name for name in target.find_all(nodes.Name) if name.ctx == "store")


def _set_outside_macros(node: nodes.Node) -> Iterator[nodes.Name]:
    for child in node.iter_child_nodes():
        if isinstance(child, (nodes.Assign, nodes.AssignBlock)):
            yield from _targets(child.target)
        if not isinstance(child, nodes.Macro):
            yield from _set_outside_macros(child)


def _aliases(assignments: Iterable[nodes.Assign], name: str) -> set[str]:
    """The variable and what is set from it: `mode` too after `{% set mode = mode_asked or 'fast' %}`."""
    found = {name}
    for statement in assignments:
        if isinstance(statement.target, nodes.Name) and any(_mentions(n, found) for n in _operands(statement.node)):
            found.add(statement.target.name)
    return found


def _constants(comparisons: Iterable[nodes.Compare], aliases: set[str]) -> tuple[Any, ...]:
    """The strings and numbers that the template compares the variable with, in the order of the text."""
    found: list[Any] = []
    for comparison in comparisons:
        sides = [comparison.expr, *(operand.expr for operand in comparison.ops)]
        if any(_mentions(side, aliases) for side in sides):
            for side in sides:
                found += [value for value in _values(side) if value not in found]
    return tuple(found)


def _operands(value: nodes.Node) -> Iterator[nodes.Node]:
    """What an assigned value may be: the branches of a condition, the operands of `or`."""
    match value:
        case nodes.CondExpr():
            yield from _operands(value.expr1)
            if value.expr2 is not None:
                yield from _operands(value.expr2)
        case nodes.Or() | nodes.And():
            yield from _operands(value.left)
            yield from _operands(value.right)
        case _:
            yield value


def _mentions(side: nodes.Node, names: set[str]) -> bool:
    """Whether a side of a comparison is the variable, perhaps through filters and methods (`mode | lower`)."""
    while isinstance(side, (nodes.Filter, nodes.Call, nodes.Getattr)):
        inner = side.node
        if inner is None:
            return False
        side = inner
    return isinstance(side, nodes.Name) and side.name in names


def _values(side: nodes.Node) -> Sequence[Any]:
    items = side.items if isinstance(side, (nodes.List, nodes.Tuple)) else [side]
    values = [item.value for item in items if isinstance(item, nodes.Const)]
    return [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
