"""A code generator that lets a compiled template report what it is doing, without changing what it does.

Asking the generator's frame at each yield would see neither macros nor set blocks; the compiled code itself sees all of
them. Nothing of this takes part in a plain render, which tells whether the text is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.utils import concat

from spanparse.bounds.guards import addends_of, guard, parts_of, unguarded
from spanparse.marks.tracked import DICT_ATTRIBUTES
from spanparse.rendering.switch import asks_for_generation, is_name, other_uses
from spanparse.rendering.unshown import Unshown, falls_back, guarded, is_empty_text, set_empty, set_once, within

_OUT: Final = "out"
_MOST_ADDENDS: Final = 16


def _quietly(generator: MarkingCodeGenerator, node: nodes.Node, frame: Frame) -> None:
    """Jinja's own way with a node of whose texts none is put out."""
    generator._quiet += 1
    getattr(CodeGenerator, f"visit_{type(node).__name__}")(generator, node, frame)
    generator._quiet -= 1


class MarkingCodeGenerator(CodeGenerator):
    """Guarded code whose literals are marked, whose loops tell the cursor what they hold, and which fills a list.

    Jinja's own yields each text that a template puts out, and makes one text of each sum first. A list takes a stretch
    of texts at once, and the parts of a sum one by one, so that they stay apart; a parse is 18 to 48 % slower without.
    Blocks, and text that is escaped, are put out as Jinja does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._root: int | None = None
        # Nodes whose values variables of the compiled code hold.
        self._known: dict[int, str] = {}
        # Filters of blocks.
        self._put_out: set[int] = set()
        self._loops: list[tuple[str, str]] = []
        self._holds: dict[int, tuple[str, str, nodes.Getitem | None]] = {}
        self._generation_bodies: set[int] = set()
        self._macros = 0
        self._quiet = 0
        self._in_generation = False
        self._switches: set[int] = set()
        self._sets_switch = False
        self._unshown: dict[int, Unshown] = {}
        self._fallbacks: dict[int, Unshown] = {}

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802
        self._root = id(node.body)
        for use in other_uses(node):
            self._switches.add(id(use))
            self._sets_switch = self._sets_switch or use.ctx != "load"
        self._find_unshown(node)
        super().visit_Template(guard(node), frame)

    def _find_unshown(self, template: nodes.Template) -> None:
        known = set_once(template)
        found: list[tuple[nodes.Node, Unshown] | None] = []
        for node in template.find_all(nodes.If):
            if any(asks_for_generation(branch.test) for branch in (node, *node.elif_)):
                continue
            found.append(set_empty(node, known))
            if (text := guarded(node, known)) is not None:
                self._unshown[id(node)] = text
        found += (falls_back(node, known) for node in template.find_all(nodes.CondExpr))
        self._fallbacks = {id(stated): text for stated, text in filter(None, found)}

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if id(node) in self._known:
            self.write(self._known[id(node)])
            return None
        return super().visit(node, *args, **kwargs)

    # --- which value a loop holds -----------------------------------------------------------------

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        outer = self.temporary_identifier()
        self.writeline(f"{outer} = cursor.current")
        name = [*within(node.target, nodes.Name)][-1].name  # the last of `key, value`
        self._holds[id(node.body)] = (outer, name, _indexed_by(node, name))
        self._loops.append((outer, name))
        super().visit_For(node, frame)
        self._loops.pop()
        self._write_current(outer, frame)

    def _write_current(self, origin: str, frame: Frame) -> None:
        """From here on the template writes for another value: `origin` is code that gives the value's origin.

        The list that the outputs go to is told, so that the template's own text need not be marked piece by piece, by
        the origin in a list of its own if it is a macro that writes. It does not grow where nothing was put out since
        it was last told.
        """
        self.writeline(f"cursor.current = origin = {origin}")
        if self._macros and frame.buffer is not None:
            self.writeline(f"{frame.buffer}.append([origin])")
        elif frame.buffer is not None:
            self.writeline(f"if type({frame.buffer}[-1]) is origin_type: {frame.buffer}[-1] = origin")
            self.writeline(f"else: {frame.buffer}.append(origin)")

    def _write_entry(self, outer: str, frame: Frame) -> None:
        """From here on the template writes for `held`, which a loop inside `outer` holds."""
        self._write_current(f"held._place.literal if type(held) is dict_type else literal_origin({outer}, held)", frame)

    def buffer(self, frame: Frame) -> None:
        frame.buffer = self.temporary_identifier()
        self.writeline(f"{frame.buffer} = [cursor.current]")

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        self._macros += 1
        result = super().macro_body(node, frame)
        self._macros -= 1
        return result

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        if id(nodes) in self._holds:
            outer, name, indexed = self._holds[id(nodes)]
            self.writeline("held = ")
            if indexed is None:
                self.write(frame.symbols.ref(name))
            else:
                self.visit(indexed, frame)
            self._write_entry(outer, frame)
        if id(nodes) in self._generation_bodies:
            self._write_current("generation_origin", frame)
        if id(nodes) == self._root:
            frame.buffer = _OUT
        super().blockvisit(nodes, frame)

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:  # noqa: N802
        super().visit_Assign(node, frame)
        # `{% for i in range(n) %}{% set message = messages[i] %}`: from here on the loop holds that message.
        if self._loops and isinstance(node.target, nodes.Name) and isinstance(node.node, nodes.Getitem):
            index = node.node.arg
            looping = isinstance(index, nodes.Name) and any(index.name == name for _, name in self._loops)
            counting = isinstance(index, nodes.Getattr) and index.attr == "index0" and is_name(index.node, "loop")
            if looping or counting:
                self.writeline(f"held = {frame.symbols.ref(node.target.name)}")
                self._write_entry("cursor.current", frame)

    # --- text that a generation prompt adds -------------------------------------------------------

    def visit_If(self, node: nodes.If, frame: Frame) -> None:  # noqa: N802
        asked = [branch for branch in (node, *node.elif_) if asks_for_generation(branch.test)]
        if not asked:
            super().visit_If(node, frame)
            self._write_unshown(self._unshown.get(id(node)), frame)
            return
        self._generation_bodies.update(id(branch.body) for branch in asked)
        before = self.temporary_identifier()
        self.writeline(f"{before} = cursor.current")
        super().visit_If(node, frame)
        self._write_current(before, frame)

    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:  # noqa: N802
        before = self._in_generation
        self._in_generation = before or asks_for_generation(node.test)
        super().visit_CondExpr(node, frame)
        self._in_generation = before

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:  # noqa: N802
        switches = id(node) in self._switches and not self._sets_switch
        self.write("(cursor.switch() or " if switches else "")
        super().visit_Name(node, frame)
        self.write(")" if switches else "")

    # --- outputs ----------------------------------------------------------------------------------

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802
        if frame.buffer is None or frame.require_output_check or frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super().visit_Output(node, frame)
            return
        self.writeline(f"{frame.buffer}.extend((")
        self.indent()
        stated: list[str] = []
        for child in node.nodes:
            text = self._stated(child, frame)
            if text is not None:
                stated.append(text)
                continue
            self._write_stated(stated)
            self.newline(child)
            self._write_output(unguarded(child), frame)
            self.write(",")
        self._write_stated(stated)
        self.outdent()
        self.writeline("))")

    def _stated(self, node: nodes.Expr, frame: Frame) -> str | None:
        """The text of an output that the template states, None for any other."""
        try:
            return self._output_child_to_const(node, frame, self._make_finalize())
        except Exception:  # noqa: BLE001 - as Jinja has it: what fails does so while it renders
            return None

    def _write_stated(self, stated: list[str]) -> None:
        if stated:
            self.newline()
            self.write(self._output_text("".join(stated)) + ",")
            stated.clear()

    def _write_output(self, node: nodes.Expr, frame: Frame) -> None:
        """The elements of a list of outputs that stand for one in the template."""
        addends = list(addends_of(node))
        if isinstance(node, nodes.Concat):
            self._write_concat(node, frame)
        elif 1 < len(addends) <= _MOST_ADDENDS and not any(
            isinstance(addend, nodes.Const) and not isinstance(addend.value, str) for addend in addends
        ):
            self._write_sum(node, addends, frame)
        else:
            self._write_one(node, frame)

    def _write_one(self, node: nodes.Expr, frame: Frame) -> None:
        # A text is what it is; to ask for that here is quicker than a call.
        self.write("(got if type(got := ")
        self.visit(node, frame)
        self.write(") is text_type else text(got))")

    def _write_concat(self, node: nodes.Concat, frame: Frame) -> None:
        parts = [*parts_of(node)]
        stated = [self._stated(part, frame) for part in parts]
        group = stated.count(None) > 1
        self.write("(" if group else "")
        for place, (part, text) in enumerate(zip(parts, stated, strict=True)):
            self.write(", " if place else "")
            if text is None:
                self._write_one(unguarded(part), frame)
            else:
                self.write(self._output_text(text))
        self.write(")" if group else "")

    def _write_sum(self, node: nodes.Expr, addends: Sequence[nodes.Expr], frame: Frame) -> None:
        """A sum of texts is put out as its addends, once it has been seen that they are texts."""
        names = {id(addend): self.temporary_identifier() for addend in addends if not isinstance(addend, nodes.Const)}
        group = len(names) > 1  # text set aside earlier is told from what it is put out with whose it is
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

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if frame.eval_ctx.volatile:
            self.write("(escape if context.eval_ctx.autoescape else text)(")
        else:
            self.write("escape(" if frame.eval_ctx.autoescape else "text(")

    def visit_FilterBlock(self, node: nodes.FilterBlock, frame: Frame) -> None:  # noqa: N802
        self._put_out.add(id(node.filter))
        super().visit_FilterBlock(node, frame)

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:  # noqa: N802
        # Jinja puts out what the filter of a block gives as it is: an ordinary text would be the template's own.
        self.write("text(" if id(node) in self._put_out else "")
        super().visit_Filter(node, frame)
        self.write(")" if id(node) in self._put_out else "")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        html = frame.eval_ctx.volatile or frame.eval_ctx.autoescape
        self.write("html((" if html else "joined((")
        for part in node.nodes:
            self.write("" if html else "text(")
            self.visit(part if html else unguarded(part), frame)
            self.write(", " if html else "), ")
        self.write(f"), {'context.eval_ctx.volatile' if frame.eval_ctx.volatile else True})" if html else "))")

    # --- the template's own text ------------------------------------------------------------------

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline(f"{_OUT} = context.out")
        self.writeline("cursor = context.cursor")
        for name in ("literal", "text", "literal_origin", "generation", "nothing"):
            self.writeline(f"{name} = cursor.{name}")
        self.writeline("concat = cursor.joined")
        for name in ("joined", "html"):
            self.writeline(f"{name} = environment.operations.{name}")
        for name in ("dict_type", "find", "generation_origin", "origin_type", "text_type"):
            self.writeline(f"{name} = environment.{name}")
        if self._sets_switch:
            self.writeline("cursor.switch()")

    def _mark(self, text: str) -> str:
        return f"{'generation' if self._in_generation else 'literal'}({text!r})"

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return self._mark(concat(group))

    def _output_text(self, text: str) -> str:
        """The code for a stated text in a list of outputs."""
        return self._mark(text) if self._in_generation else repr(text)

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802
        value = node.as_const(frame.eval_ctx)
        text = self._fallbacks.get(id(node))
        if not isinstance(value, str) or self._quiet:
            super().visit_Const(node, frame)
        elif text is not None and _is_known(text, frame):
            self._write_nothing(text, frame)
        elif value:
            self.write(self._mark(value))
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:  # noqa: N802
        self.write(self._mark(node.data))

    # --- empty texts ------------------------------------------------------------------------------

    def _write_unshown(self, text: Unshown | None, frame: Frame) -> None:
        """The `else` of a condition that keeps a text from being put out if it is empty."""
        if text is not None and frame.buffer is not None and _is_known(text, frame):
            self.writeline("else:")
            self.indent()
            self.writeline(f"{frame.buffer}.append(")
            self._write_nothing(text, frame)
            self.write(")")
            self.outdent()

    def _write_nothing(self, text: Unshown, frame: Frame) -> None:
        """The empty text with the mark of `text`, without one if that is none or kept back for other reasons."""
        known = self.temporary_identifier()
        self.write(f"({known} if type({known} := nothing(")
        for test in text.before:
            self.visit(test, frame)
            self.write(" and ")
        self.visit(text.value, frame)
        self.write(")) is text_type")
        for test in text.after:
            self.write(" and ")
            self.visit(test, frame)
        self.write(" else '')")

    def visit_Or(self, node: nodes.BinExpr, frame: Frame) -> None:  # noqa: N802
        if self._quiet or not is_empty_text(node.right):
            super().visit_Or(node, frame)
            return
        known = self.temporary_identifier()
        self.write(f"({known} if type({known} := ")
        self.visit(node.left, frame)
        self.write(f") is text_type else {known} or '')")

    # --- text that is only looked at, never printed, needs no marks -----------------------------------

    visit_Compare = visit_Test = _quietly  # noqa: N815

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802
        # To take a text from a variable's field takes 95 ns, to have the environment do so 260.
        obj = node.node if node.attr not in DICT_ATTRIBUTES and id(node.node) not in self._switches else None
        if isinstance(obj, nodes.Name):
            ref, key = frame.symbols.ref(obj.name), repr(node.attr)
            self.write(f"(got if type({ref}) is dict_type and type(got := find({ref}, {key})) is text_type else ")
        super().visit_Getattr(node, frame)
        self.write(")" if isinstance(obj, nodes.Name) else "")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        # What is made where it is looked up in may be put out: `{'a': '<|x|>'}['a']`.
        if isinstance(unguarded(node.node), (nodes.Name, nodes.Getattr, nodes.Getitem)):
            _quietly(self, node, frame)
        else:
            super().visit_Getitem(node, frame)

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier, frame: Frame) -> None:  # noqa: N802
        if any(child.find(nodes.Name) for child in node.body):
            self.writeline("cursor.lose_all('autoescape')")  # Jinja's own HTML texts have no marks
        super().visit_ScopedEvalContextModifier(node, frame)


def _indexed_by(node: nodes.For, name: str) -> nodes.Getitem | None:
    """What a loop over numbers holds: the `messages[i]` in its body, if `i` is the loop's variable."""
    if not isinstance(node.iter, nodes.Call):
        return None
    for found in node.find_all(nodes.Getitem):
        if isinstance(found.node, nodes.Name) and found.ctx == "load" and is_name(found.arg, name):
            return found
    return None


def _is_known(text: Unshown, frame: Frame) -> bool:
    """Whether all that it takes to tell a text is at hand in `frame`."""
    names = (name for node in (text.value, *text.before, *text.after) for name in within(node, nodes.Name))
    return all(frame.symbols.find_ref(name.name) is not None for name in names)
