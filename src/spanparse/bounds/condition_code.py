"""A code generator that writes conditions without calls: what is true, there, a text or null.

Most of what a chat template does is to ask such questions of messages. Jinja answers them with a call each, and makes
an object for what is missing.
"""

from __future__ import annotations

from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import Frame

from spanparse.bounds.macro_code import MacroCodeGenerator

DICT_ATTRIBUTES: Final = frozenset(dir({}))
_TESTS: Final = {
    "defined": ("(not isinstance(", ", Undefined))"),
    "none": ("(", " is None)"),
    "string": ("isinstance(", ", str)"),
    "undefined": ("isinstance(", ", Undefined)"),
}


class ConditionCodeGenerator(MacroCodeGenerator):
    """Ordinary code in which a condition is looked up where it stands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Nodes of which nothing but the truth counts, or whether they are there, or of which no character is put out.
        self._asked: set[int] = set()
        self._present: set[int] = set()
        self._looked_at: set[int] = set()

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("get_attribute = environment.getattr")
        self.writeline("get_item = environment.getitem")
        self.writeline("dict_type = environment.dict_type")
        self.writeline("find = dict.get")
        # Jinja would make another for everything that is missing.
        self.writeline("absent = undefined()")

    def _ask(self, test: nodes.Node) -> None:
        """Note that nothing but the truth of `test` counts."""
        if isinstance(test, (nodes.And, nodes.Or)):
            self._ask(test.left)
            self._ask(test.right)
        elif isinstance(test, nodes.Not):
            self._ask(test.node)
        else:
            self._asked.add(id(test))

    def _write_condition(self, node: nodes.Expr, frame: Frame) -> None:
        self._ask(node)
        super()._write_condition(node, frame)

    def visit_If(self, node: nodes.If, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor names
        for branch in (node, *node.elif_):
            self._ask(branch.test)
        super().visit_If(node, frame)

    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:  # noqa: N802
        self._ask(node.test)
        super().visit_CondExpr(node, frame)

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:  # noqa: N802
        name = frame.symbols.ref(node.name)
        if id(node) in self._asked:
            self.write(f"({name} is not missing and {name})")
        elif id(node) in self._present:
            self.write(f"(absent if {name} is missing else {name})")
        else:
            super().visit_Name(node, frame)

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802
        if node.attr in DICT_ATTRIBUTES:
            super().visit_Getattr(node, frame)
        else:
            self._write_field(node, node.attr, "get_attribute", frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self._write_field(node, node.arg.value, "get_item", frame)
        else:
            super().visit_Getitem(node, frame)

    def _write_field(self, node: nodes.Getattr | nodes.Getitem, name: str, otherwise: str, frame: Frame) -> None:
        """The field `name` of a message or tool, without a call where it is one; else what `otherwise` gives."""
        if id(node) in self._asked and name not in DICT_ATTRIBUTES:
            found, known = "find(got, {0!r})", ""
        elif id(node) in self._present and name not in DICT_ATTRIBUTES:
            found, known = "find(got, {0!r}, absent)", ""
        else:
            found, known = self._found_field(node, name)
        self.write(f"({found.format(name)} if type(got := ")
        self.visit(node.node, frame)
        self.write(f") is dict_type{known.format(name)} else {self._field_else(name)}{otherwise}(got, {name!r}))")

    def _found_field(self, node: nodes.Getattr | nodes.Getitem, name: str) -> tuple[str, str]:
        """Code for the field `{0}` of the dict `got`, and what must hold for it beside."""
        return "got[{0!r}]", " and {0!r} in got"

    def _field_else(self, name: str) -> str:
        """Code for what else may give the field `name` of `got`, up to an `else`."""
        return ""

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802
        self._looked_at.add(id(node.node))
        if node.name not in _TESTS or node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
            super().visit_Test(node, frame)
            return
        if node.name in ("defined", "undefined"):
            self._present.add(id(node.node))
        before, after = _TESTS[node.name]
        self.write(before)
        self.visit(node.node, frame)
        self.write(after)
