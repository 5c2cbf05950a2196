"""Guards in a template's syntax tree: what it compiles to is Jinja's own code, which asks them before it goes on.

A guard is a filter that gives what it is given, and counts or weighs it, or raises `LimitReached`. Compiled code holds
a filter in a local variable, so one costs a call. The names of the guards have a space in them, which no template can
write. An operation is left unguarded where the template's own length bounds it, as in `role == 'user'`.

What is not here is bounded elsewhere: arithmetic but sums by the sandbox's own hook (`call_binop`), joined texts by
`Environment.concat`, look-ups, calls, filters and tests where they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from spanparse.bounds.operations import Operations

_FEW_ITEMS: Final = 32
_PREFIX: Final = "guard "
_MEMBERSHIP: Final = ("in", "notin")
# Filters whose results are escaped when they are joined to a text, or escape what is joined to them.
_HTML_FILTERS: Final = frozenset({"e", "escape", "forceescape", "safe", "urlize", "xmlattr"})


def _itself(value: Any) -> Any:
    return value


GUARDS: Final[Mapping[str, Any]] = {
    **{_PREFIX + name: _itself for name in ("addend", "compared", "keep", "scanned", "searched", "shown", "sought")},
    **{_PREFIX + name: _itself for name in ("spread", "text", "walk")},
    _PREFIX + "step": next,
}
"""What an environment that compiles templates knows the guards by; a render has its own."""


def guards_of(operations: Operations) -> dict[str, Any]:
    """The guards of one render."""
    return {
        **GUARDS,
        _PREFIX + "addend": operations.addend,
        _PREFIX + "compared": operations.compared,
        _PREFIX + "keep": operations.meter.keep,
        _PREFIX + "scanned": operations.scanned,
        _PREFIX + "searched": operations.searched,
        _PREFIX + "shown": operations.shown,
        _PREFIX + "sought": operations.sought,
        _PREFIX + "spread": operations.spread,
        _PREFIX + "text": operations.textual,
        _PREFIX + "walk": operations.walk,
    }


def guard(template: nodes.Template) -> nodes.Template:
    """`template` with guards put into it."""
    _Guarding(html=_makes_html(template)).visit(template)
    return template


def unguarded(node: nodes.Expr) -> nodes.Expr:
    """What stands behind the guards around `node`."""
    while isinstance(node, nodes.Filter) and node.name in GUARDS and node.node is not None:
        node = node.node
    return node


def addends_of(node: nodes.Expr) -> Iterator[nodes.Expr]:
    """The operands of a sum of sums, from left to right; the node itself if it is none."""
    inner = unguarded(node)
    if isinstance(inner, nodes.Add):
        yield from addends_of(inner.left)
        yield from addends_of(inner.right)
    else:
        yield node


def parts_of(node: nodes.Concat) -> Iterator[nodes.Expr]:
    """The operands of `~`, from left to right, those in groups one by one."""
    for part in node.nodes:
        inner = unguarded(part)
        if isinstance(inner, nodes.Concat):
            yield from parts_of(inner)
        else:
            yield part


def is_constant(node: nodes.Node) -> bool:
    """Whether the template states the value."""
    if isinstance(node, (nodes.List, nodes.Tuple)):
        return all(map(is_constant, node.items))
    if isinstance(node, nodes.Neg):
        return isinstance(node.node, nodes.Const)
    return isinstance(node, (nodes.Const, nodes.TemplateData))


def _makes_html(template: nodes.Template) -> bool:
    """Whether some text may count as HTML, which escapes what it is joined to."""
    for node in template.find_all((nodes.Filter, nodes.Name, nodes.EvalContextModifier)):
        if isinstance(node, nodes.Filter):
            # `map` takes names of filters.
            if node.name in _HTML_FILTERS or (node.name == "map" and not _maps_plainly(node)):
                return True
        elif not isinstance(node, nodes.Name) or node.name == "lipsum":
            return True
    return False


def _maps_plainly(node: nodes.Filter) -> bool:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        return False
    return all(isinstance(name, nodes.Const) and name.value not in _HTML_FILTERS for name in node.args[:1])


def _guarded(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, _PREFIX + name, [], [], None, None, lineno=node.lineno, environment=node.environment)


def _step(node: nodes.Node) -> nodes.Filter:
    steps = nodes.EnvironmentAttribute("steps", lineno=node.lineno, environment=node.environment)
    return _guarded("step", steps)


class _Guarding(NodeTransformer):
    """Puts the guards in. `html`: a text may count as HTML."""

    def __init__(self, *, html: bool) -> None:
        self._html = html

    # --- steps ------------------------------------------------------------------------------------

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's visitor names
        self.generic_visit(node)
        _count_steps(node.body, node)
        if node.test is not None:
            # A step is None.
            node.test = nodes.Or(_step(node.test), node.test, lineno=node.test.lineno, environment=node.environment)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802
        self.generic_visit(node)
        _count_steps(node.body, node)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802
        self.generic_visit(node)
        _count_steps(node.body, node)
        return node

    # --- texts ------------------------------------------------------------------------------------

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        self.generic_visit(node)
        name = "shown" if self._html else "text"
        node.nodes = [child if is_constant(child) else _guarded(name, child) for child in node.nodes]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        joined: list[nodes.Expr] = []
        values = 0
        for operand in node.nodes:
            if isinstance(operand, nodes.Const):
                joined.append(operand if isinstance(operand.value, str) else _guarded("text", operand))
                continue
            values += 1
            if values > 2:
                # What is made of two values is looked at before a third one is joined to it.
                joined = [_guarded("keep", nodes.Concat(joined, lineno=node.lineno, environment=node.environment))]
                values = 2
            joined.append(self._addend(_guarded("text", operand)))
        return _guarded("keep", nodes.Concat(joined, lineno=node.lineno, environment=node.environment))

    def visit_Add(self, node: nodes.Add) -> nodes.Expr:  # noqa: N802
        values = self._sum(node)
        return node if not values else _guarded("keep", node)

    def _sum(self, node: nodes.Add) -> int:
        """Guard the operands of a sum: how many values it is made of then that the template does not state."""
        values = 0
        for side in ("left", "right"):
            operand = getattr(node, side)
            if isinstance(operand, nodes.Add):
                inside = self._sum(operand)
                if inside > 1:
                    setattr(node, side, _guarded("keep", operand))
                values += min(inside, 1)
            elif not is_constant(operand):
                setattr(node, side, self._addend(self.visit(operand)))
                values += 1
        return values

    def _addend(self, node: nodes.Expr) -> nodes.Expr:
        return _guarded("addend", node) if self._html else node

    # --- comparisons ------------------------------------------------------------------------------

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        if len(node.ops) == 1 and node.ops[0].op in _MEMBERSHIP:
            self._search(node, node.ops[0])
            return node
        operands: list[Any] = [node, *node.ops]
        for left, right in pairwise(operands):
            if is_constant(right.expr) or (is_constant(left.expr) and right.op not in _MEMBERSHIP):
                continue
            left.expr = _guarded("compared", left.expr)
            if right.op in _MEMBERSHIP:
                right.expr = _guarded("compared", right.expr)
        return node

    def _search(self, node: nodes.Compare, container: nodes.Operand) -> None:
        if is_constant(container.expr):
            return
        if is_constant(node.expr):
            container.expr = _guarded("scanned", container.expr)
        else:
            node.expr = _guarded("sought", node.expr)
            container.expr = _guarded("searched", container.expr)

    # --- what is cut, collected or passed on --------------------------------------------------------

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        if is_constant(node.node):
            node.node = _guarded("walk", node.node)  # Python would warn of `0[1:]` while it compiles
        return _guarded("keep", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _guarded("keep", node) if len(node.items) > _FEW_ITEMS and node.ctx == "load" else node

    def visit_List(self, node: nodes.List) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _guarded("keep", node) if len(node.items) > _FEW_ITEMS else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        for pair in node.items:
            if not is_constant(pair.key):
                pair.key = _guarded("walk", pair.key)
        return _guarded("keep", node) if len(node.items) > _FEW_ITEMS else node

    def visit_Call(self, node: nodes.Call) -> nodes.Call:  # noqa: N802
        self._spread(node)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802
        self._spread(node)
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Test:  # noqa: N802
        self._spread(node)
        return node

    def _spread(self, node: nodes.Call | nodes.Filter | nodes.Test) -> None:
        self.generic_visit(node)
        if node.dyn_args is not None:
            node.dyn_args = _guarded("spread", node.dyn_args)
        if node.dyn_kwargs is not None:
            node.dyn_kwargs = _guarded("spread", node.dyn_kwargs)


def _count_steps(body: list[nodes.Node], node: nodes.Node) -> None:
    body.insert(0, nodes.ExprStmt(_step(node), lineno=node.lineno, environment=node.environment))
