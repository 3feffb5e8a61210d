"""No file has more than 400 lines, no body of a function more than 50."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "benchmarks", "client", "examples", "migrations", "models", "tests")
LONGEST_FILE, LONGEST_BODY = 400, 50
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_and_functions_are_short(folder: str) -> None:
    files = [path for path in FILES if path.is_relative_to(ROOT / folder)]
    texts = {path: path.read_text(encoding="utf-8") for path in files}

    long_files = [path for path, text in texts.items() if text.count("\n") > LONGEST_FILE]
    long_functions = [
        f"{path}:{node.lineno} {node.name}"
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if lines_of_body(node) > LONGEST_BODY
    ]

    assert files
    assert not long_files
    assert not long_functions
