"""A code generator that lets a compiled template report what it is doing, without changing what it does.

Asking the generator's frame at each yield would see neither macros nor set blocks; the compiled code itself sees all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import Frame
from jinja2.utils import concat

from spanparse.bounds.bounded_code import LimitedCodeGenerator
from spanparse.bounds.condition_code import DICT_ATTRIBUTES
from spanparse.rendering.switch import asks_for_generation, is_name, other_uses
from spanparse.rendering.unshown import Known, Unshown, falls_back, guarded, is_empty_text, set_empty, set_once, within

# The module variable of the compiled code that names the fields which it may print.
PRINTED_FIELDS: Final = "printed_fields"


class MarkingCodeGenerator(LimitedCodeGenerator):
    """Code whose literals are marked and whose loops tell the cursor what they hold."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._loops: list[tuple[str, str]] = []
        self._holds: dict[int, tuple[str, str, nodes.Getitem | None]] = {}
        self._generation_bodies: set[int] = set()
        self._macros = 0
        self._quiet = 0
        self._in_generation = False
        self._switches: set[int] = set()
        self._sets_switch = False
        self._set_once: Known = {}
        self._fallbacks: dict[int, Unshown] = {}
        self._printed: set[str] = set()
        self._refuses = False

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802
        for use in other_uses(node):
            self._switches.add(id(use))
            self._sets_switch = self._sets_switch or use.ctx != "load"
        self._set_once = set_once(node)
        super().visit_Template(node, frame)
        self.writeline(f"{PRINTED_FIELDS} = {tuple(sorted(self._printed))!r}")

    # --- which value a loop holds -----------------------------------------------------------------

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        outer = self.temporary_identifier()
        self.writeline(f"{outer} = cursor.current")
        name = _last_name(node.target)
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
            self.writeline(f"if type({frame.buffer}[-1]) is Origin: {frame.buffer}[-1] = origin")
            self.writeline(f"else: {frame.buffer}.append(origin)")

    def _write_entry(self, outer: str, frame: Frame) -> None:
        """From here on the template writes for `held`, which a loop inside `outer` holds."""
        self._write_current(f"held._place.literal if type(held) is dict_type else literal_origin({outer}, held)", frame)

    def _new_buffer(self) -> str:
        return "[cursor.current]"

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
        branches = [node, *node.elif_]
        asked = [branch for branch in branches if asks_for_generation(branch.test)]
        if not asked:
            self._note_fallback(set_empty(node, self._set_once))
            super().visit_If(node, frame)
            self._write_unshown(guarded(node, self._set_once), frame)
            return
        self._generation_bodies.update(id(branch.body) for branch in asked)
        before = self.temporary_identifier()
        self.writeline(f"{before} = cursor.current")
        super().visit_If(node, frame)
        self._write_current(before, frame)

    def _is_statement(self, node: nodes.Expr) -> bool:
        if isinstance(node, nodes.CondExpr) and (asks_for_generation(node.test) or falls_back(node, self._set_once)):
            return False  # what is chosen is marked as an expression
        return super()._is_statement(node)

    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:  # noqa: N802
        before = self._in_generation
        self._in_generation = before or asks_for_generation(node.test)
        self._note_fallback(falls_back(node, self._set_once))
        super().visit_CondExpr(node, frame)
        self._in_generation = before

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:  # noqa: N802
        switches = id(node) in self._switches and not self._sets_switch
        self.write("(cursor.switch() or " if switches else "")
        super().visit_Name(node, frame)
        self.write(")" if switches else "")

    # --- the template's own text ------------------------------------------------------------------

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("literal = cursor.literal")
        self.writeline("text = cursor.text")
        self.writeline("concat = cursor.joined")
        self.writeline("Origin = environment.origin_type")
        self.writeline("known_types = environment.known_types")
        self.writeline("literal_origin = cursor.literal_origin")
        self.writeline("generation = cursor.generation")
        self.writeline("nothing = cursor.nothing")
        if self._sets_switch:
            self.writeline("cursor.switch()")
        self.writeline("generation_origin = environment.generation_origin")

    def _mark(self, text: str) -> str:
        return f"{'generation' if self._in_generation else 'literal'}({text!r})"

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return self._mark(concat(group))

    def _output_text(self, text: str) -> str:
        return self._mark(text) if self._in_generation else repr(text)

    def _is_group(self, count: int) -> bool:
        # Text set aside earlier is told from what it is put out with whose it is.
        return count > 1

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802
        value = node.as_const(frame.eval_ctx)
        text = self._fallbacks.get(id(node))
        if text is not None and _is_known(text, frame):
            self._write_nothing(text, frame)
        elif isinstance(value, str) and value and not self._quiet:
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
        self._write_all(text.before, text.value, frame)
        self.write(")) is text_type")
        for test in text.after:
            self.write(" and ")
            self.visit(test, frame)
        self.write(" else '')")

    def _write_all(self, tests: Iterable[nodes.Node], value: nodes.Node, frame: Frame) -> None:
        for test in tests:
            self.visit(test, frame)
            self.write(" and ")
        self.visit(value, frame)

    def _note_fallback(self, found: tuple[nodes.Node, Unshown] | None) -> None:
        if found is not None and not self._quiet:
            stated, text = found
            self._fallbacks[id(stated)] = text

    def visit_Or(self, node: nodes.BinExpr, frame: Frame) -> None:  # noqa: N802
        if self._quiet or id(node.left) in self._asked or not is_empty_text(node.right):
            super().visit_Or(node, frame)
            return
        known = self.temporary_identifier()
        self.write(f"({known} if type({known} := ")
        self.visit(node.left, frame)
        self.write(f") is text_type else {known} or '')")

    # --- what is looked up -------------------------------------------------------------------------

    def _found_field(self, node: nodes.Getattr | nodes.Getitem, name: str) -> tuple[str, str]:
        if id(node) in self._looked_at:
            return "field", " and (field := find(got, {0!r})) is not None"
        if not self._refuses:
            self._printed.add(name)
        # A field that was asked for before is marked already.
        return "field", " and type(field := find(got, {0!r})) in known_types"

    def _field_else(self, name: str) -> str:
        return "" if name in DICT_ATTRIBUTES else f"got[{name!r}] if type(got) is dict_type and {name!r} in got else "

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        before = self._refuses
        self._refuses = before or is_name(node.node, "raise_exception")
        super().visit_Call(node, frame, forward_caller=forward_caller)
        self._refuses = before

    # Text that is only looked at, never printed, needs no marks.

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        self._quiet += 1
        super().visit_Compare(node, frame)
        self._quiet -= 1

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802
        self._quiet += 1
        super().visit_Test(node, frame)
        self._quiet -= 1

    def _write_looked_at(self, node: nodes.Expr, frame: Frame) -> None:
        self._quiet += 1
        super()._write_looked_at(node, frame)
        self._quiet -= 1

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        self._quiet += 1
        super().visit_Getitem(node, frame)
        self._quiet -= 1


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


def _last_name(target: nodes.Node) -> str:
    """The variable that holds a loop's value: the last of `key, value`."""
    names = [target.name] if isinstance(target, nodes.Name) else [n.name for n in target.find_all(nodes.Name)]
    return names[-1]
