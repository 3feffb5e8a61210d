"""Docstrings describe parameters by the names that they have."""

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("app", "benchmarks", "client", "models")
_PARAMETERS = re.compile(
    r"^Parameters\n-+\n(.*?)(?=\n\n\w[^\n]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE
)
_NAMES = re.compile(r"^\*{0,2}\w+(?:, \*{0,2}\w+)*$", re.MULTILINE)


def _described(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    section = _PARAMETERS.search(ast.get_docstring(node) or "")
    return set(re.findall(r"\w+", " ".join(_NAMES.findall(section[1])))) if section else set()


def _accepted(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of a function's parameters; of a class, also those of its fields."""
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        names = {each.id for each in fields if isinstance(each, ast.Name)}
        return names.union(*(_accepted(each) for each in made if each.name == "__init__"))
    arguments = [each for each in ast.walk(node.args) if isinstance(each, ast.arg)]
    return {each.arg for each in arguments}


@pytest.mark.parametrize("folder", _FOLDERS)
def test_described_parameters_exist(folder: str) -> None:
    nodes = [
        (f"{path.relative_to(_ROOT)}: {node.name}", node)
        for path in sorted((_ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    unknown = {place: _described(node) - _accepted(node) for place, node in nodes}
    assert {place: names for place, names in unknown.items() if names} == {}
