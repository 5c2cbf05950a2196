"""The Jinja environment of transformers' `apply_chat_template`, and the same one with marks.

Source of the settings: transformers' `utils/chat_template_utils.py` (`_compile_jinja_template`): an immutable sandbox
with `trim_blocks`, `lstrip_blocks`, loop controls, a `tojson` without HTML escapes, `raise_exception`, `strftime_now`
and the `{% generation %}` block. `tests/` compares the two on every bundled template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, field
from functools import lru_cache
from types import BuiltinMethodType, CodeType, MappingProxyType, MethodType, NoneType
from typing import Any, Self

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace, missing

from spanparse.bounds.compilation import source_of
from spanparse.bounds.costs import STRING_METHODS
from spanparse.bounds.guards import GUARDS, guard, guards_of
from spanparse.bounds.limits import LimitReached, Limits
from spanparse.bounds.operations import FLAT, Operations
from spanparse.errors import TemplateError, TemplateLimit
from spanparse.marks import marked_json
from spanparse.marks.marked import Marked
from spanparse.marks.origin import GENERATION, Origin
from spanparse.marks.tracked import DICT_ATTRIBUTES, UNTRACKED, TrackedDict
from spanparse.rendering.calls import (
    bound_pairs,
    bounded_block,
    bounded_format,
    bounded_method,
    lipsum,
    raise_exception,
    strftime_now,
)
from spanparse.rendering.codegen import MarkingCodeGenerator
from spanparse.rendering.context import RenderContext
from spanparse.rendering.extensions import GenerationBlock, TokenLimit
from spanparse.rendering.filters import bounded_filter, bounded_test, is_filter, is_test
from spanparse.rendering.marked_filters import FILTERS, loses, recording_filter
from spanparse.rendering.marked_filters import strftime_now as marked_strftime_now

MAX_TEMPLATE_CHARACTERS = 2_000_000
"""Longest template that is compiled; the longest of 786 published ones has 45,484 characters."""

_find = dict.get
_DICTS: frozenset[type] = frozenset((dict, TrackedDict))
_READING = frozenset(("get", "items", "keys", "values"))
_LOOP_ATTRIBUTES = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)
_MEASURING = frozenset({"count", "find", "fromkeys", "index", "rfind", "rindex"})
# What is of these types is marked, or no text.
_MARKED: frozenset[type] = frozenset({Marked, bool, NoneType})


class ChatNamespace(Namespace):
    """`namespace()`, which in transformers takes no attribute whose name begins with an underscore."""

    # Jinja's own way to let a template call `namespace(self=…)`.
    def __init__(*arguments: Any, **attributes: Any) -> None:
        self, *rest = arguments
        values = dict(*rest, **attributes)
        for name in values:
            _check_attribute(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


class ChatDict:
    """`dict`, of which transformers lets a template have nothing but the call and `fromkeys`."""

    def __call__(self, *arguments: Any, **values: Any) -> dict[Any, Any]:
        return dict(*arguments, **values)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        return dict.fromkeys(*arguments)


# Calls of these give what they are given.
_HANDING_ON: frozenset[type] = frozenset({BlockReference, ChatDict, LoopContext, Joiner, type})


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}: names that begin with an underscore are not allowed")


def _called(macro: Macro, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """`macro(*args, **kwargs)`: its function at once, where Jinja would find that no argument needs a look."""
    kwargs.pop("_loop_vars", None)
    kwargs.pop("_block_vars", None)
    absent = macro._argument_count - len(args)
    if kwargs or absent < 0 or macro.caller or macro.catch_kwargs or macro.catch_varargs or context.eval_ctx.autoescape:
        return macro(context.eval_ctx, *args, **kwargs)
    return macro._func(*args, *(missing,) * absent)


class _Filters(dict[str, Callable[..., Any]]):
    """The filters of a render: compiled code finds the guards among them, a template that asks for a name does not."""

    __slots__ = ("guards",)
    guards: Mapping[str, Callable[..., Any]]

    def __missing__(self, name: str) -> Callable[..., Any]:
        return self.guards[name]


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """transformers' environment with bounded operations, and short cuts for what templates look up and call most.

    What it compiles is Jinja's own code, guarded; what runs it is a copy that belongs to one render (`of_render`).
    """

    context_class = RenderContext
    intercepted_binops = frozenset(("-", "*", "/", "//", "%", "**"))
    intercepted_unops = frozenset(("-",))
    operations: Operations
    steps: Iterator[None]

    def __init__(
        self, filters: Mapping[str, Callable[..., Any]] = MappingProxyType({"tojson": marked_json.dump_plain})
    ) -> None:
        extensions = [GenerationBlock, TokenLimit, loopcontrols]
        # The guards are of use where they stand.
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions, cache_size=0, optimized=False)
        everything = {**self.filters, **filters}
        self._bounded = {name: bounded_filter(name, function) for name, function in everything.items()}
        self.filters = {**self._bounded, **GUARDS}
        tests: Mapping[str, Any] = self.tests
        self.tests = {name: bounded_test(name, test) for name, test in tests.items()}
        self.tests.update(filter=is_filter, test=is_test)
        self.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, lipsum=lipsum)
        self.globals.update(dict=ChatDict(), namespace=ChatNamespace)

    def tree(self, text: str) -> nodes.Template:
        """The syntax tree that is compiled."""
        return guard(self.parse(text))

    def of_render(self, operations: Operations) -> Self:
        """This environment as one render sees it: its filters hold the guards, for compiled code alone."""
        environment = object.__new__(type(self))
        environment.__dict__.update(self.__dict__)
        environment.operations = operations
        environment.steps = operations.steps
        environment.concat = operations.joined  # type: ignore[method-assign]
        environment.filters = _Filters(self._bounded)
        environment.filters.guards = guards_of(operations)
        return environment

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return self.operations.operate(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return self.operations.meter.keep(super().call_unop(context, operator, arg))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute` under the sandbox's rules, which need not be asked where their answer is known.

        What is no method of dict is looked up in a message or tool as an item by those rules too. All public attributes
        of a loop, of a namespace and of texts are safe, but for a text's `format`, and so is what reads a dict.
        """
        kind = type(obj)
        if kind in _DICTS:
            if attribute not in DICT_ATTRIBUTES:
                value = _find(obj, attribute, missing)
                if value is missing:
                    return self.undefined(obj=obj, name=attribute)
                # A field that was asked for before is tracked already.
                return obj._tracked(attribute, value) if kind is TrackedDict and type(value) in UNTRACKED else value
            if attribute in _READING:
                return getattr(obj, attribute)
        if kind is ChatNamespace and attribute[0] != "_":
            value = object.__getattribute__(obj, "_Namespace__attrs").get(attribute, missing)
            if value is not missing and not callable(value):
                return value
        if (kind is LoopContext and attribute in _LOOP_ATTRIBUTES) or (
            (kind is str or kind is Marked) and attribute in STRING_METHODS
        ):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]` under the sandbox's rules, with the same short cut for messages and tools."""
        if type(obj) in _DICTS and type(argument) is str:
            if argument in obj:
                return obj[argument]
            if argument not in DICT_ATTRIBUTES:
                return self.undefined(obj=obj, name=argument)
        elif type(argument) not in FLAT:
            self.operations.walk(argument)
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        return None if super().wrap_str_format(value) is None else bounded_format(self, value)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as Jinja's own
        """`__obj(*args, **kwargs)`, bounded unless it is a macro, whose own operations are.

        The sandbox need not be asked about macros, nor about methods of built-in types that it has let a template have.
        """
        kind = type(__obj)
        if kind is Macro:
            return _called(__obj, __context, args, kwargs)
        operations = __self.operations
        if kind is BuiltinMethodType or (
            kind is MethodType and isinstance(__obj.__self__, (str, type, ChatDict, TrackedDict))
        ):
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return bounded_method(operations, __obj, args, kwargs)
        if kind is BlockReference:
            return bounded_block(operations, __obj)
        if kind is MethodType and isinstance(__obj.__self__, LoopContext):
            operations.weigh(args)
        elif kind is ChatDict or __obj is ChatNamespace:
            bound_pairs(operations, args)
        return operations.meter.keep(super().call(__context, __obj, *args, **kwargs))


class MarkingEnvironment(ChatEnvironment):
    """The same environment for a marked render: every way of joining texts is one that keeps marks."""

    code_generator_class = MarkingCodeGenerator
    text_type = Marked
    generation_origin = GENERATION
    dict_type = TrackedDict
    find = staticmethod(dict[str, Any].get)
    origin_type = Origin

    def __init__(self) -> None:
        super().__init__(FILTERS)
        self._bounded = {name: recording_filter(name, function) for name, function in self._bounded.items()}
        self.filters.update(self._bounded)
        self.globals["strftime_now"] = marked_strftime_now

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as Jinja's own
        if type(__obj) is Macro:
            return _called(__obj, __context, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        if type(result) in _MARKED or _hands_on(__obj):
            return result
        if loses(owner := getattr(__obj, "__self__", None), result):
            given = [value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")]
            assert isinstance(__context, RenderContext)
            __context.cursor.lose(__obj.__name__.removeprefix("marked_"), owner, args, given)
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        result = super().call_binop(context, operator, left, right)
        if type(left) is int and type(right) is int:
            return result
        if isinstance(result, (str, bytes, int, float)) and loses(left, result):
            assert isinstance(context, RenderContext)
            context.cursor.lose(operator, left, right)
        return result

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        if type(arg) is not int:
            assert isinstance(context, RenderContext)
            context.cursor.lose(operator, arg)
        return super().call_unop(context, operator, arg)

    def tree(self, text: str) -> nodes.Template:
        return self.parse(text)  # the generator puts the guards in, once it has read the tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return super().is_safe_attribute(obj, attr, value) and not _is_ours(obj, attr)

    def unsafe_undefined(self, obj: Any, attribute: str) -> jinja2.Undefined:
        if _is_ours(obj, attribute):
            return self.undefined(obj=obj, name=attribute)
        return super().unsafe_undefined(obj, attribute)


def _hands_on(called: Any) -> bool:
    """Whether a call gives what it is given, what its owner holds, or a measure of it."""
    if type(called) in _HANDING_ON:
        return True
    owner = getattr(called, "__self__", None)
    if isinstance(owner, (str, type)):
        return called.__name__ in _MEASURING
    return isinstance(owner, (list, tuple, Mapping, Set, ValuesView, LoopContext, Cycler, ChatDict))


def _is_ours(obj: Any, attribute: str) -> bool:
    """Whether a marked text has an attribute that the text which the template is given does not have."""
    return type(obj) is Marked and not hasattr(str, attribute)


_PLAIN = ChatEnvironment()
_MARKING = MarkingEnvironment()


@dataclass(frozen=True, slots=True)
class _Compilation:
    """What is compiled; within which limits makes no difference to what comes out."""

    text: str
    marking: bool
    limits: Limits = field(compare=False)


@lru_cache(maxsize=256)
def _compile(compilation: _Compilation) -> CodeType:
    environment = _MARKING if compilation.marking else _PLAIN
    source = source_of(environment.tree(compilation.text), environment, compilation.limits)
    return compile(source, "<template>", "exec")


def load(code: CodeType, operations: Operations, *, marking: bool) -> dict[str, Any]:
    """The names that a compiled template defines, for one render: `root`, `blocks`, and the `environment` they run in.

    Its functions refer to this dict, which is to be cleared behind the render.
    """
    environment = (_MARKING if marking else _PLAIN).of_render(operations)
    # As `Template.from_code` does it.
    names: dict[str, Any] = {"environment": environment, "__file__": code.co_filename}
    exec(code, names)
    return names


def compile_template(text: str, name: str, *, marking: bool, limits: Limits) -> CodeType:
    """The compiled template, made within `limits`, from a cache keyed by its text.

    Raises `TemplateError` if it is no valid template and `TemplateLimit` if it is too long or takes too much; `name`
    goes into the error.
    """
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise TemplateLimit(name, f"has {len(text):,} characters, more than {MAX_TEMPLATE_CHARACTERS:,}")
    try:
        return _compile(_Compilation(text, marking, limits))
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(name, f"line {error.lineno}: {error.message}") from error
    except LimitReached as limit:
        raise TemplateLimit(name, str(limit)) from limit
    except ValueError as error:  # a number of more digits than Python reads
        raise TemplateError(name, str(error)) from error
    except SyntaxError as error:
        # Python refuses what Jinja made of it: "too many" levels of nesting, or a break outside of a loop.
        kind = TemplateLimit if error.msg.startswith("too many") else TemplateError
        raise kind(name, f"cannot be compiled: {error.msg}") from error
    except (RecursionError, MemoryError, OverflowError) as error:
        raise TemplateLimit(name, f"too deeply nested to compile ({type(error).__name__})") from error


@lru_cache(maxsize=256)
def constants_of(text: str) -> frozenset[str]:
    """The texts that the template `text`, which was compiled before, states in its expressions."""
    found = _PLAIN.parse(text).find_all(nodes.Const)
    return frozenset(node.value for node in found if isinstance(node.value, str))


def variables_read(text: str, name: str) -> frozenset[str]:
    """Names of the variables that the template reads from its context."""
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise TemplateLimit(name, f"has {len(text):,} characters, more than {MAX_TEMPLATE_CHARACTERS:,}")
    from jinja2.meta import find_undeclared_variables

    return frozenset(find_undeclared_variables(_PLAIN.parse(text)))
