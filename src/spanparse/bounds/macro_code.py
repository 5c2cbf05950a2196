"""A code generator whose macros put their outputs straight into those of the template that calls them.

Jinja's own join them at the end of each call, which a marked render would take apart again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jinja2 import nodes
from jinja2.compiler import Frame
from jinja2.runtime import Macro

from spanparse.bounds.output_code import OutputCodeGenerator, addends_of

_HEAD: Final = "def macro("


class ChatMacro(Macro):
    """A macro whose function takes, behind its arguments, the list that its outputs go to: then it returns nothing."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # How many arguments its function can be called with as they are.
        self._takes = -1 if self.catch_kwargs or self.catch_varargs or self.caller else self._argument_count


# What Jinja prints of one.
ChatMacro.__name__ = "Macro"


class MacroCodeGenerator(OutputCodeGenerator):
    """Ordinary code in which a macro that is called with nothing but its arguments is so without Jinja's help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opens_macro = False
        self._no_macros = False

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("Macro = environment.macro_type")

    # --- the function of a macro --------------------------------------------------------------------

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> Any:
        self._opens_macro = True
        return super().macro_body(node, frame)

    def writeline(self, x: str, node: nodes.Node | None = None, extra: int = 0) -> None:
        if self._opens_macro and x.startswith(_HEAD):
            x = f"{x[:-2]}{'' if x.endswith('():') else ', '}into=None):"
        super().writeline(x, node, extra)

    def buffer(self, frame: Frame) -> None:
        frame.buffer = self.temporary_identifier()
        self.writeline(f"{frame.buffer} = {self._new_buffer()}{' if into is None else into' * self._opens_macro}")
        self._opens_macro = False

    def _new_buffer(self) -> str:
        """Code for a list of outputs."""
        return "[]"

    def return_buffer_contents(self, frame: Frame, force_unescaped: bool = False) -> None:
        if force_unescaped:  # of a macro
            self.writeline(f"return concat({frame.buffer}) if into is None else None")
        else:
            super().return_buffer_contents(frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor names
        escapes = frame.eval_ctx.volatile or frame.eval_ctx.autoescape
        if frame.buffer is None or escapes or not isinstance(node.call.node, nodes.ExtensionAttribute):
            super().visit_CallBlock(node, frame)
            return
        # The only extension that has such a block puts out its body as it is.
        inner, found = self.macro_body(node, frame)
        if found.accesses_caller or found.accesses_kwargs or found.accesses_varargs:
            self.writeline(f"{frame.buffer}.append(")
            self.macro_def(found, inner)
            self.write("())")
        else:
            self.writeline(f"macro(into={frame.buffer})")

    # --- calls --------------------------------------------------------------------------------------

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        escapes = frame.eval_ctx.volatile or frame.eval_ctx.autoescape
        # What is written twice must hold no more of the kind, or the code would grow without bounds.
        if forward_caller or escapes or not self._may_be_macro(node) or node.find(nodes.Call) is not None:
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write("(")
        self._write_macro_call(node, frame)
        self.write(f" if {self._is_macro(node, frame)} else ")
        super().visit_Call(node, frame)
        self.write(")")

    def _may_be_macro(self, node: nodes.Node) -> bool:
        """Whether what is called may be a macro that is given nothing but arguments in their order."""
        if not isinstance(node, nodes.Call) or not isinstance(node.node, nodes.Name):
            return False
        named = node.kwargs or node.dyn_args or node.dyn_kwargs
        return not self._no_macros and not named and node.node.name not in self.environment.globals

    def _is_macro(self, node: nodes.Call, frame: Frame) -> str:
        """Code for whether it is one."""
        assert isinstance(node.node, nodes.Name)
        name = frame.symbols.ref(node.node.name)
        return f"type({name}) is Macro and {name}._takes == {len(node.args)}"

    def _write_macro_call(self, node: nodes.Call, frame: Frame, into: str = "") -> None:
        assert isinstance(node.node, nodes.Name)
        self.write(f"{frame.symbols.ref(node.node.name)}._func(")
        for number, operand in enumerate(node.args):
            self.write(", " if number else "")
            self.visit(operand, frame)
        self.write(f"{', ' if node.args and into else ''}{into})")

    # --- macros that are put out ----------------------------------------------------------------------

    def _is_statement(self, node: nodes.Expr) -> bool:
        return bool(_pieces_of(node, self._may_be_macro)) or super()._is_statement(node)

    def _write_statement(self, node: nodes.Expr, frame: Frame) -> None:
        pieces = _pieces_of(node, self._may_be_macro)
        if not pieces:
            super()._write_statement(node, frame)
            return
        calls = [piece for piece in pieces if isinstance(piece, nodes.Call)]
        self.writeline(f"if {' and '.join(self._is_macro(call, frame) for call in calls)}:", node)
        self.indent()
        for piece in pieces:
            if isinstance(piece, nodes.Call):
                self.newline(piece)
                self._write_macro_call(piece, frame, frame.buffer or "")
            elif piece:
                self.writeline(f"{frame.buffer}.append({self._output_text(piece)})")
        self.outdent()
        self.writeline("else:")
        self.indent()
        self._no_macros = True
        self._write_list([node], frame)
        self._no_macros = False
        self.outdent()


def _pieces_of(node: nodes.Expr, may_be_macro: Callable[[nodes.Expr], bool]) -> Sequence[str | nodes.Call]:
    """The stated texts and calls of macros, at least one, of which `node` puts out one after another; else none."""
    pieces: list[str | nodes.Call] = []
    for part in node.nodes if isinstance(node, nodes.Concat) else addends_of(node):
        if isinstance(part, nodes.Call) and may_be_macro(part):
            pieces.append(part)
        elif isinstance(part, nodes.Const) and isinstance(part.value, str):
            pieces.append(part.value)
        else:
            return ()
    return pieces if any(isinstance(piece, nodes.Call) for piece in pieces) else ()
