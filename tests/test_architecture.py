"""What may import what, and the promises every package makes about its surface."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("spanparse", "planner", "runtime")
MODULES = sorted(SRC.rglob("*.py"))
MAX_LINES = 400


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, at_import_time: bool = False) -> set[str]:
    """The packages of ours that a module imports: anywhere in it, or only while it is being imported itself."""
    found = set()
    todo: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while todo:
        node = todo.pop()
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        if at_import_time and lazy:
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found & set(PACKAGES)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that running `statement` loads in a fresh interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in result.stdout.split()}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_arrows(path: Path) -> None:
    package = name_of(path).split(".")[0]
    if package == "planner":
        assert imports(path) <= {"planner"}
    elif package == "spanparse" and not name_of(path).startswith("spanparse.cli"):
        assert imports(path) <= {"spanparse"}
    elif package == "spanparse":
        assert imports(path, at_import_time=True) <= {"spanparse"}


def module_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """What each of these modules imports of the others, in functions and for types only too; `sources` by name."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                # What is imported of a package is one of its modules, or a name that the package itself gives.
                deeper = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                found |= {deeper[name] if deeper[name] in sources else node.module for name in deeper}
        graph[name] = found & sources.keys() - {name}
    return graph


def within(package: str, graph: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """What stands right in a package, modules and packages, and what each imports of its neighbours."""
    neighbours: dict[str, set[str]] = {}
    depth = package.count(".") + 2
    for name, imported in graph.items():
        if name.startswith(f"{package}."):
            here = ".".join(name.split(".")[:depth])
            ends = {".".join(other.split(".")[:depth]) for other in imported if other.startswith(f"{package}.")}
            neighbours.setdefault(here, set()).update(ends - {here})
    return neighbours


def cycles(graph: Mapping[str, Iterable[str]]) -> Iterator[frozenset[str]]:
    """The largest sets of nodes that all reach each other."""
    reached = {}
    for start in graph:
        todo, seen = [start], set()
        while todo:
            new = set(graph.get(todo.pop(), ())) - seen
            seen |= new
            todo += new
        reached[start] = seen
    yield from {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}


def test_each_module_imports_only_what_lies_below_it() -> None:
    graph = module_graph({name_of(path): path.read_text("utf-8") for path in MODULES})
    packages = [name_of(path) for path in MODULES if path.stem == "__init__"]
    found = {*cycles(graph), *(cycle for package in packages for cycle in cycles(within(package, graph)))}
    assert found == set()


def test_imports_in_functions_and_for_types_close_a_cycle_too() -> None:
    sources = {
        "p": "",
        "p.a": "def f():\n    from p.x import b",
        "p.x": "",
        "p.x.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.c",
        "p.c": "from p.a import f",
        "p.x.d": "from p.a import f",
        "p.e": "import p.a",
    }
    graph = module_graph(sources)
    assert [*cycles(graph)] == [{"p.a", "p.x.b", "p.c"}]
    del sources["p.c"]
    graph = module_graph(sources)
    # No module reaches itself, and yet neither of the two lies below the other.
    assert not [*cycles(graph)]
    assert [*cycles(within("p", graph))] == [{"p.a", "p.x"}]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_outgrows_its_noun(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


def test_importing_planner_loads_only_the_standard_library() -> None:
    assert loaded_by("import planner") <= {*sys.stdlib_module_names, "planner"}


def test_the_command_line_starts_without_the_other_packages() -> None:
    assert not loaded_by("import spanparse.cli.app") & {"planner", "runtime", "llama_cpp", "numpy", "tokenizers"}


def test_naming_tiny_models_needs_neither_numpy_nor_llama_cpp() -> None:
    assert not loaded_by("import runtime.tiny") & {"llama_cpp", "numpy", "gguf"}


def packages() -> list[str]:
    nested = [
        module.name
        for package in PACKAGES
        for module in pkgutil.walk_packages([str(SRC / package)], f"{package}.")
        if module.ispkg
    ]
    return [*PACKAGES, *nested]


@pytest.mark.parametrize("name", packages())
def test_every_package_lists_its_public_names_in_order(name: str) -> None:
    package = importlib.import_module(name)
    # The order that ruff keeps: constants, classes, functions.
    assert list(package.__all__) == sorted(package.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
    for public in package.__all__:
        assert hasattr(package, public)
