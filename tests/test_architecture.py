"""What may import what, and the promises every package makes about its surface."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
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
