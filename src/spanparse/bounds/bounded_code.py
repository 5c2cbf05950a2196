"""A code generator that puts bounded operations in the place of Python's own.

Jinja documents `Environment.code_generator_class` for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import nodes
from jinja2.compiler import Frame

from spanparse.bounds.condition_code import ConditionCodeGenerator
from spanparse.bounds.costs import FREE_IF_SHORT

# What the compiled code calls, by the names that it has there: methods of `Operations` and of its meter.
_OPERATIONS = ("compare", "escaped", "html", "joined", "operate", "spread", "text", "walk", "within")
_METER = ("keep",)
_FEW_ITEMS = 32
_FEW_ADDENDS = 4
LOOP_ATTRIBUTES = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)
# What some of these are.
_OF_INDEX = {"first": "index0 == 0", "index": "index0 + 1"}


class LimitedCodeGenerator(ConditionCodeGenerator):
    """Ordinary code with a `next(steps)` in every loop and macro, and operations that are bounded before they run.

    An operation is left as Jinja writes it where the template's own length bounds it, as in `role == 'user'`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Jinja would compute `'a' * 10**9` while it compiles.
        self.optimizer = None
        self._ticking: set[int] = set()
        self._wrapped: dict[int, str] = {}
        self._inner_sums: set[int] = set()

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("method = context.method")
        self.writeline("cursor = context.cursor")
        self.writeline("operations = context.operations")
        for name in _OPERATIONS:
            self.writeline(f"{name} = operations.{name}")
        for name in _METER:
            self.writeline(f"{name} = operations.meter.{name}")
        self.writeline("steps = operations.steps")
        self.writeline("LoopContext = environment.loop_type")
        self.writeline("concat = joined")
        self.writeline("text_type = environment.text_type")

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        around = self._wrapped.get(id(node))
        if around is None:
            return super().visit(node, *args, **kwargs)
        self.write(around)
        super().visit(node, *args, **kwargs)
        self.write(")")
        return None

    # --- steps ------------------------------------------------------------------------------------

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor names
        self._ticking.add(id(node.body))
        if node.test is not None:
            self._wrapped[id(node.test)] = "(next(steps) or "
            self._ask(node.test)
        super().visit_For(node, frame)

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        self._ticking.add(id(node.body))
        return super().macro_body(node, frame)

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        if id(nodes) in self._ticking:
            self.writeline("next(steps)")
        super().blockvisit(nodes, frame)

    # --- output -----------------------------------------------------------------------------------

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not _is_short(node):
            raise nodes.Impossible()
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if frame.eval_ctx.volatile:
            self.write("(escaped if context.eval_ctx.autoescape else text)(")
        else:
            self.write("escaped(" if frame.eval_ctx.autoescape else "(got if type(got := ")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        # A text is what it is; to ask for that here is quicker than a call.
        plain = not frame.eval_ctx.volatile and not frame.eval_ctx.autoescape
        self.write(") is text_type else text(got))" if plain else ")")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        if self._folded(node, frame):
            return
        html = frame.eval_ctx.volatile or frame.eval_ctx.autoescape
        self.write("html((" if html else "joined((")
        for part in node.nodes:
            self.write("" if html else "text(")
            self.visit(part, frame)
            self.write(", " if html else "), ")
        self.write(f"), {'context.eval_ctx.volatile' if frame.eval_ctx.volatile else True})" if html else "))")

    # --- operators --------------------------------------------------------------------------------

    def _binary(self, call: str, node: nodes.BinExpr, frame: Frame) -> None:
        if self._folded(node, frame):
            return
        self.write(call)
        self.visit(node.left, frame)
        self.write(", ")
        self.visit(node.right, frame)
        self.write(")")

    def _folded(self, node: nodes.Expr, frame: Frame) -> bool:
        """Write a stated value instead of the operation that makes it, if it is one."""
        if not _is_short(node):
            return False
        try:
            value = node.as_const(frame.eval_ctx)
        except nodes.Impossible:
            return False
        self.visit(nodes.Const(value, lineno=node.lineno), frame)
        return True

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:  # noqa: N802
        if self._folded(node, frame):
            return
        # A sum is no longer than its operands together, so it is enough to look at it, or at a sum of sums, afterwards.
        inner = id(node) in self._inner_sums
        if not inner and _addends(node) <= _FEW_ADDENDS:
            self._inner_sums.update(map(id, _sums_below(node)))
        self.write("(" if inner else "keep(")
        self.visit(node.left, frame)
        self.write(" + ")
        self.visit(node.right, frame)
        self.write(")")

    def _visit_operator(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._binary(f"operate({node.operator!r}, ", node, frame)

    visit_Sub = visit_Mul = visit_Div = visit_FloorDiv = visit_Pow = visit_Mod = _visit_operator  # noqa: N815

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        operands = [node.expr, *(operand.expr for operand in node.ops)]
        self._looked_at.update(map(id, operands))
        if all(_is_bounded(operand.op, left, operand.expr) for left, operand in zip(operands, node.ops, strict=False)):
            super().visit_Compare(node, frame)
            return
        # What stands between two comparisons is evaluated once: `a < b < c` is `a < (t := b) and t < c`.
        self.write("(")
        left = None
        for number, operand in enumerate(node.ops):
            middle = self.temporary_identifier() if number + 1 < len(node.ops) else None
            if number:
                self.write(" and ")
            calls = {"in": "within(", "notin": "(not within("}
            self.write(calls.get(operand.op, f"compare({operand.op!r}, "))
            if left is None:
                self.visit(node.expr, frame)
            else:
                self.write(left)
            self.write(f", ({middle} := " if middle else ", ")
            self.visit(operand.expr, frame)
            self.write(("))" if middle else ")") + (")" if operand.op == "notin" else ""))
            left = middle
        self.write(")")

    # --- what is looked up, cut, collected or passed on --------------------------------------------

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.node, nodes.Name) and node.node.name == "loop" and node.attr in LOOP_ATTRIBUTES:
            self.write(f"(got.{_OF_INDEX.get(node.attr, node.attr)} if type(got := ")
            self.visit(node.node, frame)
            self.write(f") is LoopContext else get_attribute(got, {node.attr!r}))")
        else:
            super().visit_Getattr(node, frame)

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        called = node.node
        named = node.kwargs or node.dyn_args or node.dyn_kwargs or forward_caller
        if named or not isinstance(called, nodes.Getattr) or called.attr not in FREE_IF_SHORT:
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write("method(")
        self.visit(called.node, frame)
        self.write(f", {called.attr!r}")
        for operand in node.args:
            self.write(", ")
            self._write_looked_at(operand, frame)
        self.write(")")

    def _write_looked_at(self, node: nodes.Expr, frame: Frame) -> None:
        """An operand of which no character gets into the result."""
        self.visit(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.arg, nodes.Slice):
            if _is_constant(node.node):
                # Python would warn of `0[1:]` while it compiles.
                self._wrapped[id(node.node)] = "walk("
            self.write("keep(")
            super().visit_Getitem(node, frame)
            self.write(")")
            return
        if not _is_constant(node.arg):
            self._wrapped[id(node.arg)] = "walk("
        super().visit_Getitem(node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        self._collection(super().visit_Tuple, node, frame, len(node.items) if node.ctx == "load" else 0)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._collection(super().visit_List, node, frame, len(node.items))

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._wrapped.update((id(pair.key), "walk(") for pair in node.items if not _is_constant(pair.key))
        self._collection(super().visit_Dict, node, frame, len(node.items))

    def _collection(self, visit: Callable[[Any, Frame], None], node: nodes.Node, frame: Frame, size: int) -> None:
        if size > _FEW_ITEMS:
            self.write("keep(")
        visit(node, frame)
        if size > _FEW_ITEMS:
            self.write(")")

    def signature(self, node: Any, frame: Frame, extra_kwargs: Any = None) -> None:
        if node.dyn_args is not None:
            self._wrapped[id(node.dyn_args)] = "spread("
        super().signature(node, frame, extra_kwargs)


def _is_constant(node: nodes.Node) -> bool:
    """Whether the template states the value."""
    if isinstance(node, (nodes.List, nodes.Tuple)):
        return all(map(_is_constant, node.items))
    if isinstance(node, nodes.Neg):
        return isinstance(node.node, nodes.Const)
    return isinstance(node, nodes.Const)


def _is_short(node: nodes.Node) -> bool:
    """Whether the value is stated and its printed form no longer than the template."""
    if isinstance(node, (nodes.Add, nodes.Concat)):
        return all(map(_is_short, node.iter_child_nodes()))
    return isinstance(node, (nodes.Const, nodes.TemplateData))


def _sums_below(node: nodes.Node) -> Iterator[nodes.Node]:
    """The sums that are operands of a sum."""
    if isinstance(node, nodes.Add):
        for operand in (node.left, node.right):
            if isinstance(operand, nodes.Add):
                yield operand
                yield from _sums_below(operand)


def _addends(node: nodes.Node) -> int:
    """How many operands of a sum are not stated."""
    if isinstance(node, nodes.Add):
        return _addends(node.left) + _addends(node.right)
    return int(not _is_constant(node))


def _is_bounded(name: str, left: nodes.Node, right: nodes.Node) -> bool:
    """Whether what the template states bounds the comparison."""
    return _is_constant(right) or (_is_constant(left) and name not in ("in", "notin"))
