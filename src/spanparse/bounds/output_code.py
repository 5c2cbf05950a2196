"""A code generator whose root function leaves the prompt in a list of its render's.

Jinja's own yields each text that a template puts out, and makes one text of each sum first. A list takes a stretch of
texts at once, and the parts of a sum one by one, which costs less and keeps them apart for a marked render.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

_OUT = "out"
_MOST_ADDENDS = 16


class OutputCodeGenerator(CodeGenerator):
    """Ordinary code with `out.extend((…))` for outputs; blocks, and text that is escaped, are put out as Jinja does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._root: int | None = None
        # Nodes whose values variables of the compiled code hold.
        self._known: dict[int, str] = {}

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802
        self._root = id(node.body)
        super().visit_Template(node, frame)

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline(f"{_OUT} = context.out")

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        if id(nodes) == self._root:
            frame.buffer = _OUT
        super().blockvisit(nodes, frame)

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if id(node) in self._known:
            self.write(self._known[id(node)])
            return None
        return super().visit(node, *args, **kwargs)

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802
        if frame.buffer is None or frame.require_output_check or frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super().visit_Output(node, frame)
            return
        self._write_outputs(node.nodes, frame)

    def _write_outputs(self, children: Iterable[nodes.Expr], frame: Frame) -> None:
        listed: list[nodes.Expr] = []
        for child in children:
            if self._is_statement(child):
                self._write_list(listed, frame)
                listed = []
                self._write_statement(child, frame)
            else:
                listed.append(child)
        self._write_list(listed, frame)

    def _is_statement(self, node: nodes.Expr) -> bool:
        """Whether an output is put out by a statement of its own."""
        return isinstance(node, nodes.CondExpr)

    def _write_statement(self, node: nodes.Expr, frame: Frame) -> None:
        """Put out what a condition chooses, and nothing where Jinja would make an object that prints as nothing."""
        assert isinstance(node, nodes.CondExpr)
        self.writeline("if ", node)
        self._write_condition(node.test, frame)
        self._write_branch(node.expr1, frame)
        if node.expr2 is not None:
            self.writeline("else")
            self._write_branch(node.expr2, frame)

    def _write_condition(self, node: nodes.Expr, frame: Frame) -> None:
        self.visit(node, frame)

    def _write_branch(self, output: nodes.Expr, frame: Frame) -> None:
        self.write(":")
        self.indent()
        self.writeline("pass")
        self._write_outputs([output], frame)
        self.outdent()

    def _write_list(self, children: Sequence[nodes.Expr], frame: Frame) -> None:
        """Put out several outputs at once."""
        if not children:
            return
        self.writeline(f"{frame.buffer}.extend((")
        self.indent()
        stated: list[str] = []
        for child in children:
            text = self._stated(child, frame)
            if text is not None:
                stated.append(text)
                continue
            self._write_stated(stated)
            self.newline(child)
            self._write_output(child, frame)
            self.write(",")
        self._write_stated(stated)
        self.outdent()
        self.writeline("))")

    def _stated(self, node: nodes.Expr, frame: Frame) -> str | None:
        """The text of an output that the template states, None for any other."""
        try:
            return self._output_child_to_const(node, frame, self._make_finalize())
        except nodes.Impossible:
            return None

    def _write_stated(self, stated: list[str]) -> None:
        if stated:
            self.newline()
            self.write(self._output_text("".join(stated)) + ",")
            stated.clear()

    def _output_text(self, text: str) -> str:
        """The code for a stated text in a list of outputs."""
        return repr(text)

    def _is_group(self, count: int) -> bool:
        """Whether so many outputs that are one in the template must stay together."""
        return False

    def _write_output(self, node: nodes.Expr, frame: Frame) -> None:
        """The elements of a list of outputs that stand for one in the template."""
        addends = list(addends_of(node))
        if isinstance(node, nodes.Concat):
            self._write_concat(node, frame)
        elif 1 < len(addends) <= _MOST_ADDENDS and all(map(_may_be_text, addends)):
            self._write_sum(node, addends, frame)
        else:
            self._write_one(node, frame)

    def _write_one(self, node: nodes.Expr, frame: Frame) -> None:
        finalize = self._make_finalize()
        self._output_child_pre(node, frame, finalize)
        self.visit(node, frame)
        self._output_child_post(node, frame, finalize)

    def _write_concat(self, node: nodes.Concat, frame: Frame) -> None:
        stated = [self._stated(part, frame) for part in node.nodes]
        group = self._is_group(stated.count(None))
        self.write("(" if group else "")
        for place, (part, text) in enumerate(zip(node.nodes, stated, strict=True)):
            self.write(", " if place else "")
            if text is None:
                self._write_one(part, frame)
            else:
                self.write(self._output_text(text))
        self.write(")" if group else "")

    def _write_sum(self, node: nodes.Expr, addends: Sequence[nodes.Expr], frame: Frame) -> None:
        """A sum of texts is put out as its addends, once it has been seen that they are texts."""
        names = {id(addend): self.temporary_identifier() for addend in addends if not isinstance(addend, nodes.Const)}
        group = self._is_group(len(names))
        elements = [self._output_text(a.value) if isinstance(a, nodes.Const) else names[id(a)] for a in addends]
        self.write(f"({', '.join(elements)}) if " if group else f"*(({', '.join(elements)}) if ")
        for number, addend in enumerate(addend for addend in addends if id(addend) in names):
            self.write(f"{' & ' if number else ''}(type({names[id(addend)]} := ")
            self.visit(addend, frame)
            self.write(") is text_type)")
        self.write(" else text(" if group else " else (text(")
        self._known.update(names)
        self.visit(node, frame)
        for known in names:
            del self._known[known]
        self.write(")" if group else "),))")


def _may_be_text(node: nodes.Expr) -> bool:
    return not isinstance(node, nodes.Const) or isinstance(node.value, str)


def addends_of(node: nodes.Expr) -> Iterator[nodes.Expr]:
    """The operands of a sum of sums, from left to right; the node itself if it is none."""
    if isinstance(node, nodes.Add):
        yield from addends_of(node.left)
        yield from addends_of(node.right)
    else:
        yield node
