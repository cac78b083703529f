"""The typed stubs match the extension module exactly."""

import ast
from pathlib import Path

import pytest

from hosting import KIND

pytestmark = pytest.mark.skipif(KIND != "tidegate", reason="the stubs are ours")
# Declared for type checkers; not part of dir().
DUNDERS = {"__init__"}


def public(names):
    return {name for name in names if not name.startswith("_") or name == "__version__"}


def test_the_stubs_match_the_module():
    from tidegate import _tidegate

    text = Path(_tidegate.__file__).with_name("_tidegate.pyi").read_text(encoding="utf-8")
    stubs = ast.parse(text).body
    classes = {part.name: part for part in stubs if isinstance(part, ast.ClassDef)}
    functions = {part.name for part in stubs if isinstance(part, ast.FunctionDef)}
    values = {part.target.id for part in stubs if isinstance(part, ast.AnnAssign)}
    assert public(dir(_tidegate)) == classes.keys() | functions | values
    for name, stub in classes.items():
        if issubclass(getattr(_tidegate, name), Exception):
            continue
        members = {part.name for part in stub.body if isinstance(part, ast.FunctionDef)}
        assert public(dir(getattr(_tidegate, name))) == members - DUNDERS, name


def test_the_package_is_typed_and_lists_its_names():
    import tidegate

    assert Path(tidegate.__file__).with_name("py.typed").exists()
    for name in tidegate.__all__:
        assert hasattr(tidegate, name), name
    assert tidegate.__version__.count(".") == 2
