"""Documents that render and lead somewhere: tables are tables; links, paths and modules exist."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_DOCUMENTS = [
    *sorted(_ROOT.glob("*.md")),
    *sorted((_ROOT / "docs").rglob("*.md")),
    *sorted((_ROOT / "client").glob("*.md")),
    *sorted((_ROOT / "examples").glob("*.md")),
]
_PRESENT = [path for path in _DOCUMENTS if path.name != "CHANGELOG.md"]  # it keeps old names
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FOLDERS = "app|models|tests|benchmarks|client|examples|docs|deploy|migrations|templates"
# kubectl calls deployments deploy/NAME
_PATH = re.compile(rf"(?<![\w/.-])(?!deploy/trainfare-)(?:{_FOLDERS})/[\w./-]*\w")
_MODULE = re.compile(r"(?<![\w/.-])(?:app|models|tests|benchmarks|trainfare_client)(?:\.\w+)+")
_NAMES = [str(path.relative_to(_ROOT)) for path in _DOCUMENTS]


def _lines(path: Path) -> list[str]:
    """Return the lines of a document without its blocks of code and its quoted words."""
    lines, is_code = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        lines.append("" if is_code or is_fence else re.sub(r"`[^`]*`", "code", line))
    return lines


def _tables(lines: list[str]) -> Iterator[list[str]]:
    for is_table, group in itertools.groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            yield list(group)


def _anchors(path: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", _DOCUMENTS, ids=_NAMES)
def test_rows_of_a_table_have_the_columns_of_its_head(path: Path) -> None:
    for table in _tables(_lines(path)):
        assert re.fullmatch(r"(\| ?:?-+:? ?)+\|", "".join(table[1:2])), table[0]
        assert len({row.replace(r"\|", "").count("|") for row in table}) == 1, table[0]


@pytest.mark.parametrize("path", _DOCUMENTS, ids=_NAMES)
def test_links_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall("\n".join(_lines(path))):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, heading = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not heading or heading in _anchors(target), link


def _exists(module: str) -> bool:
    """Whether a dotted name is a module, or a name that occurs in one."""
    root = _ROOT / "client" if module.startswith("trainfare_client.") else _ROOT
    *parents, last = module.split(".")
    package, source = root.joinpath(*parents), root.joinpath(*parents).with_suffix(".py")
    if (package / last).is_dir() or (package / f"{last}.py").is_file():
        return True
    source = source if source.is_file() else package / "__init__.py"
    return source.is_file() and re.search(rf"\b{last}\b", source.read_text("utf-8")) is not None


@pytest.mark.parametrize("path", _PRESENT, ids=lambda path: str(path.relative_to(_ROOT)))
def test_named_files_and_modules_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert [name for name in _PATH.findall(text) if not (_ROOT / name).exists()] == []
    assert [name for name in _MODULE.findall(text) if not _exists(name)] == []


def test_map_of_the_library_names_each_module_once() -> None:
    text = (_ROOT / "docs/regressors/map.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(models[/\w]*)` \| (.*) \|$", text, re.MULTILINE)
    named = {
        folder: sorted({*re.findall(r"`(\w+)`", words)} - {"fit_portfolio"})
        for folder, words in rows
    }
    modules = {
        str(folder.relative_to(_ROOT)): sorted(
            path.stem for path in folder.glob("*.py") if path.stem != "__init__"
        )
        for folder in sorted({path.parent for path in (_ROOT / "models").rglob("*.py")})
    }

    assert len(rows) == len(named)
    assert named == modules
