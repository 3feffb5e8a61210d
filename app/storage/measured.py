"""Reads what a workload's usable runs were measured on, feature by feature."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.domain.configurations import CATEGORY_FEATURES, NUMERIC_FEATURES
from app.domain.energy import MeasuredPower
from app.domain.workloads import CategoryLevels, MeasuredFeatures, NumberRange
from app.storage.tables import RunRow

MAX_LEVELS: Final = 100
"""How many values of one category are told."""
_PARAMETER: Final = "param."
_MAX_RUNS_WITH_POWER: Final = 10_000


def measured_features(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> MeasuredFeatures:
    """Return the range or the values of every feature over the runs that meet `usable`."""
    found: dict[str, NumberRange | CategoryLevels] = dict(_ranges(session, usable))
    for name in CATEGORY_FEATURES:
        levels = _levels(session, getattr(RunRow, name), usable)
        if levels is not None:
            found[name] = levels
    return found | _parameters(session, usable)


def _ranges(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> list[tuple[str, NumberRange]]:
    columns = [getattr(RunRow, name) for name in NUMERIC_FEATURES]
    figures = [
        figure
        for column in columns
        for figure in (sa.func.min(column), sa.func.max(column), sa.func.count(column))
    ]
    row = list(session.execute(sa.select(*figures).where(*usable)).one())
    triples = zip(row[::3], row[1::3], row[2::3], strict=True)
    return [
        (name, NumberRange(float(low), float(high), count))
        for name, (low, high, count) in zip(NUMERIC_FEATURES, triples, strict=True)
        if count
    ]


def _levels(
    session: Session,
    column: InstrumentedAttribute[str | None],
    usable: Sequence[sa.ColumnElement[bool]],
) -> CategoryLevels | None:
    count = sa.func.count()
    rows = session.execute(
        sa.select(column, count)
        .where(*usable, column.is_not(None))
        .group_by(column)
        .order_by(count.desc(), column)
    ).all()
    return _to_levels([(str(value), number) for value, number in rows])


def _to_levels(counted: list[tuple[str, int]]) -> CategoryLevels | None:
    if not counted:
        return None
    most_frequent = [value for value, _ in counted[:MAX_LEVELS]]
    return CategoryLevels(tuple(sorted(most_frequent)), sum(number for _, number in counted))


def _parameters(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> dict[str, NumberRange | CategoryLevels]:
    members = _members(session, usable)
    numeric = sa.select(
        members.c.name,
        sa.func.min(members.c.number),
        sa.func.max(members.c.number),
        sa.func.count(),
    )
    ranges = session.execute(numeric.where(members.c.number.is_not(None)).group_by("name"))
    count = sa.func.count()
    texts = sa.select(members.c.name, members.c.text, count).where(members.c.text.is_not(None))
    rows = session.execute(texts.group_by("name", "text").order_by(count.desc(), members.c.text))
    levels: dict[str, list[tuple[str, int]]] = {}
    for name, text, number in rows:
        levels.setdefault(name, []).append((text, number))
    found: dict[str, NumberRange | CategoryLevels] = {
        _PARAMETER + name: NumberRange(low, high, number) for name, low, high, number in ranges
    }
    for name, counted in levels.items():
        if (known := _to_levels(counted)) is not None:
            found[_PARAMETER + name] = known
    return dict(sorted(found.items()))


def _members(session: Session, usable: Sequence[sa.ColumnElement[bool]]) -> sa.Subquery:
    """Return one row for each parameter of each run: its name, its number or its text."""
    if session.get_bind().dialect.name == "sqlite":
        each = sa.func.json_each(RunRow.parameters).table_valued("key", "value", "type")
        is_text = each.c.type == "text"
        text: sa.ColumnElement[Any] = each.c.value
        number: sa.ColumnElement[Any] = each.c.value
    else:
        each = sa.func.jsonb_each(RunRow.parameters).table_valued("key", "value")
        is_text = sa.func.jsonb_typeof(each.c.value) == "string"
        text = each.c.value.op("#>>")(sa.text("'{}'"))
        number = sa.cast(sa.cast(each.c.value, sa.Text), sa.Double)
    return (
        sa.select(
            each.c.key.label("name"),
            sa.case((is_text, text)).label("text"),
            sa.case((~is_text, number)).label("number"),
        )
        .select_from(sa.join(RunRow, each, sa.true()))
        .where(*usable, RunRow.parameters.is_not(None))
        .subquery()
    )


def measured_power(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> dict[str | None, MeasuredPower]:
    """Return what the newest runs that meet `usable` tell of power, by GPU type.

    Watts are all energy over all seconds of workers, so that long runs count for more; the
    utilisation likewise.
    """
    rows = session.execute(
        sa.select(RunRow.gpu_type, RunRow.duration_seconds, RunRow.workers, RunRow.resources)
        .where(*usable, RunRow.resources.is_not(None))
        .order_by(RunRow.id.desc())
        .limit(_MAX_RUNS_WITH_POWER)
    )
    sums: defaultdict[str | None, list[float]] = defaultdict(lambda: [0.0] * 4)
    for gpu_type, seconds, workers, resources in rows:
        measured = resources or {}
        energy, share = measured.get("energy_joules"), measured.get("gpu_utilization")
        figures = sums[gpu_type]
        if energy is not None:
            figures[0] += energy
            figures[1] += seconds * workers
        if share is not None:
            figures[2] += share * seconds * workers
            figures[3] += seconds * workers
    return {
        gpu_type: MeasuredPower(_share(energy, of_energy), _share(busy, of_busy))
        for gpu_type, (energy, of_energy, busy, of_busy) in sums.items()
        if of_energy or of_busy
    }


def _share(amount: float, seconds: float) -> float | None:
    """Return a mean that is positive, None where nothing was measured."""
    return amount / seconds if seconds and amount > 0.0 else None
