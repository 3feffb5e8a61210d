"""Finds values and names that look alike but differ, and names that tell a number or nothing."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from app.domain.flat_fields import PARAMETER
from app.domain.identifiers import Slug
from app.domain.spelling import bare, folded
from app.domain.workloads import Workload
from app.pricing.gpus import counted_gpu
from app.services.uploads.numbers import is_number
from app.services.uploads.parameters import says_absence
from app.services.uploads.reading import CheckedUpload
from app.services.uploads.terms import Oddity

_MAX_NAMED: Final = 10
_NAMING_FIELDS: Final = ("gpu_type", "instance_type", "provider", "region")
_MIXED_REMEDY: Final = (
    "If it should be a number, remove the workload, or use another parameter name, and send only"
    " numbers, with empty cells where there is none."
)
_MISWRITTEN_REMEDY: Final = (
    "If it should be a number, remove the workload, or use another parameter name, and send plain"
    " numbers: a point before decimals, no separators of thousands, no unit, 0.1 for 10%. If it is"
    " a category, declare it as one before its first use: PUT /v1/workloads/{workload}."
)
_RESPELLED_REMEDY: Final = (
    "Spell a value the same way in all runs and questions: DELETE /v1/runs/{run}, and send these"
    " again."
)
_RENAMED_REMEDY: Final = (
    "Name a parameter the same way in all runs and questions: DELETE /v1/runs/{run}, and send these"
    " again."
)


def note_odd_parameters(upload: CheckedUpload, workloads: Mapping[Slug, Workload]) -> None:
    """Warn of categories caused by a few words, of values and names that differ only in spelling.

    Parameters
    ----------
    upload
        The upload, whose oddities are extended.
    workloads
        The workloads of the upload as they were before it.
    """
    for slug, name in sorted(upload.uses.mixed(workloads))[:_MAX_NAMED]:
        rows = [
            (row, cell)
            for row, cell, is_typed in _cells(upload, slug, name)
            if not is_number(cell, is_typed=is_typed)
        ]
        if rows:
            message = (
                f"Parameter {name!r} of workload {slug!r} has numbers and words ({rows[0][1]!r}):"
                " it is a category from now on, and no value between or beyond can be forecast."
            )
            oddity = Oddity("numbers_and_words", message, _MIXED_REMEDY)
            upload.oddities.note(oddity, [row for row, _ in rows])
    for slug, name in sorted(upload.uses.miswritten(workloads))[:_MAX_NAMED]:
        _note_miswritten(upload, slug, name)
    for slug, name in sorted(upload.uses.respelled)[:_MAX_NAMED]:
        _note_respelled(upload, slug, name)
    for slug, names in islice(_similar_names(upload, workloads), _MAX_NAMED):
        _note_renamed(upload, slug, names)


def note_counted_gpus(upload: CheckedUpload) -> None:
    """Warn of GPU types whose names contain a number of GPUs: each counts as a type of its own."""
    rows: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for chunk in upload.chunks:
        names = chunk.texts.get("gpu_type", ())
        counted = {name: counted_gpu(name) for name in set(names) if name is not None}
        if any(counted.values()):
            for row, name in zip(chunk.rows.tolist(), names, strict=True):
                if name is not None and (count_and_gpu := counted[name]):
                    rows[name, *count_and_gpu].append(row)
    for (name, number, gpu), row_numbers in sorted(rows.items())[:_MAX_NAMED]:
        message = f"GPU type {name!r} includes a number: it counts as a type of its own."
        remedy = (
            f"Send gpu_type {gpu!r} and workers {number}: DELETE /v1/runs/{{run}}, and send the"
            " run again."
        )
        upload.oddities.note(Oddity("gpus_counted_in_name", message, remedy), row_numbers)


def note_absent_names(upload: CheckedUpload) -> None:
    """Warn of words for no value where a machine or a place is named: each counts as a name."""
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for chunk in upload.chunks:
        for field in _NAMING_FIELDS:
            names = chunk.texts.get(field, ())
            absent = {name for name in set(names) if name is not None and _says_nothing(name)}
            if absent:
                for row, name in zip(chunk.rows.tolist(), names, strict=True):
                    if name in absent:
                        rows[field, name].append(row)
    for (field, name), row_numbers in sorted(rows.items())[:_MAX_NAMED]:
        message = f"{field} {name!r} counts as a name of its own."
        remedy = (
            "Where there is none, leave it out (in CSV, leave the cell empty): DELETE"
            " /v1/runs/{run}, and send the run again."
        )
        upload.oddities.note(Oddity("word_for_no_value", message, remedy), row_numbers)


def _says_nothing(name: str) -> bool:
    return says_absence(name) or name.casefold() == "none"


def _note_miswritten(upload: CheckedUpload, slug: Slug, name: str) -> None:
    rows = [(row, cell) for row, cell, _ in _cells(upload, slug, name)]
    if rows:
        message = (
            f"Parameter {name!r} of workload {slug!r} has numbers that are not written as such"
            f" ({rows[0][1]!r}): it is a category from now on, and no value between or beyond can"
            " be forecast."
        )
        oddity = Oddity("numbers_and_words", message, _MISWRITTEN_REMEDY)
        upload.oddities.note(oddity, [row for row, _ in rows])


def _note_respelled(upload: CheckedUpload, slug: Slug, name: str) -> None:
    spellings: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, cell, _ in _cells(upload, slug, name):
        spellings[folded(str(cell))][str(cell)].append(row)
    for rows in spellings.values():
        usual, *others = sorted(rows, key=lambda spelling: -len(rows[spelling]))
        if others:
            shown = ascii if _look_the_same(rows) else repr
            spelled = ", ".join(map(shown, others))
            message = (
                f"Parameter {name!r} of workload {slug!r} has {spelled} beside {shown(usual)}: they"
                " count as different values."
            )
            oddity = Oddity("spelled_differently", message, _RESPELLED_REMEDY)
            upload.oddities.note(oddity, sorted(row for other in others for row in rows[other]))


def _similar_names(
    upload: CheckedUpload, workloads: Mapping[Slug, Workload]
) -> Iterator[tuple[Slug, dict[str, bool]]]:
    """Yield the parameters of a workload whose names differ only in spelling, if some are new.

    Each name comes with whether it is new, the others first.
    """
    used: dict[Slug, list[str]] = defaultdict(list)
    for slug, name in sorted(upload.uses.seen):
        used[slug].append(name)
    for slug, names in used.items():
        workload = workloads.get(slug)
        known = sorted(workload.declaration.parameters) if workload else []
        groups: dict[str, dict[str, bool]] = defaultdict(dict)
        for name in dict.fromkeys([*known, *names]):
            groups[bare(name)][name] = name not in known
        yield from ((slug, group) for group in groups.values() if _has_new_spelling(group))


def _has_new_spelling(group: Mapping[str, bool]) -> bool:
    return len(group) > 1 and any(group.values())


def _note_renamed(upload: CheckedUpload, slug: Slug, names: Mapping[str, bool]) -> None:
    rows = {
        name: [row for row, _, _ in _cells(upload, slug, name)]
        for name, is_new in names.items()
        if is_new
    }
    known = [name for name, is_new in names.items() if not is_new]
    usual, *others = [*known, *sorted(rows, key=lambda name: -len(rows[name]))]
    others = [name for name in others if name in rows]
    shown = ascii if _look_the_same(names) else repr
    message = (
        f"Workload {slug!r} has parameter {', '.join(map(shown, others))} beside {shown(usual)}:"
        " they count as different parameters."
    )
    numbers = sorted({row for name in others for row in rows[name]})
    upload.oddities.note(Oddity("spelled_differently", message, _RENAMED_REMEDY), numbers)


def _look_the_same(spellings: Collection[str]) -> bool:
    """Whether some of the spellings differ only in how their accents are encoded."""
    return len({unicodedata.normalize("NFC", spelling) for spelling in spellings}) < len(spellings)


def _cells(upload: CheckedUpload, slug: Slug, name: str) -> Iterator[tuple[int, str | float, bool]]:
    """Yield row, value and whether it is typed, for each row that has the parameter."""
    for chunk in upload.chunks:
        cells = chunk.parameters.get(PARAMETER + name, ())
        rows = chunk.rows.tolist() if cells else ()
        owners = chunk.texts["workload"] if cells else ()
        for row, owner, cell in zip(rows, owners, cells, strict=True):
            if owner == slug and cell is not None:
                yield row, cell, chunk.is_typed
