"""Reads the feature values of a workload's usable runs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.configurations import CATEGORY_FEATURES, NUMERIC_FEATURES
from app.domain.energy import MeasuredPower
from app.domain.flat_fields import PARAMETER
from app.domain.identifiers import WorkloadId
from app.domain.workloads import CategoryLevels, MeasuredFeatures, NumberRange
from app.storage.dialects import is_sqlite
from app.storage.run_rows import IS_USABLE
from app.storage.tables import RunRow

MAX_LEVELS: Final = 100
"""The most values listed for one category."""
_MAX_RUNS_WITH_POWER: Final = 10_000
_MAX_JOULES: Final = 1e100
"""Beyond this, which no run can have used, PostgreSQL's sums would overflow."""
_SAMPLE_SIZE: Final = 500


def measured_features(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> MeasuredFeatures:
    """Return the range or the values of every feature, over the runs that meet `usable`."""
    return _columns(session, usable) | _parameters(session, usable)


def _columns(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> dict[str, NumberRange | CategoryLevels]:
    """Read all features that are columns in one pass: ranges per combination of categories."""
    categories = [getattr(RunRow, name) for name in CATEGORY_FEATURES]
    figures = [
        figure
        for column in (getattr(RunRow, name) for name in NUMERIC_FEATURES)
        for figure in (sa.func.min(column), sa.func.max(column), sa.func.count(column))
    ]
    query = sa.select(*categories, sa.func.count(), *figures).where(*usable).group_by(*categories)
    levels: dict[str, Counter[str]] = {name: Counter() for name in CATEGORY_FEATURES}
    ranges: dict[str, NumberRange] = {}
    for row in session.execute(query):
        n_runs, measured = row[len(categories)], row[len(categories) + 1 :]
        for name, value in zip(CATEGORY_FEATURES, row, strict=False):
            if value is not None:
                levels[name][value] += n_runs
        ranges_and_counts = zip(measured[::3], measured[1::3], measured[2::3], strict=True)
        for name, (low, high, count) in zip(NUMERIC_FEATURES, ranges_and_counts, strict=True):
            if count:
                ranges[name] = _widened(ranges.get(name), float(low), float(high), count)
    features: dict[str, NumberRange | CategoryLevels] = {
        name: ranges[name] for name in NUMERIC_FEATURES if name in ranges
    }
    return features | {name: _to_levels(levels[name]) for name in levels if levels[name]}


def _widened(known: NumberRange | None, low: float, high: float, runs: int) -> NumberRange:
    if known is None:
        return NumberRange(low, high, runs)
    return NumberRange(min(known.minimum, low), max(known.maximum, high), known.runs + runs)


def _to_levels(counted: Mapping[str, int]) -> CategoryLevels:
    most_frequent = sorted(counted, key=lambda value: (-counted[value], value))[:MAX_LEVELS]
    return CategoryLevels(tuple(sorted(most_frequent)), sum(counted.values()))


def _parameters(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> dict[str, NumberRange | CategoryLevels]:
    """Read all parameters in one pass; the numbers of one come as a row without text.

    Where runs share parameter sets, each distinct set is unpacked once.
    """
    members = _members(session, usable)
    rows = session.execute(
        sa.select(
            members.c.name,
            members.c.text,
            sa.func.min(members.c.number),
            sa.func.max(members.c.number),
            sa.func.sum(members.c.runs),
        ).group_by(members.c.name, members.c.text)
    )
    features: dict[str, NumberRange | CategoryLevels] = {}
    levels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, text, low, high, number in rows:
        if text is None:
            features[PARAMETER + name] = NumberRange(low, high, int(number))
        else:
            levels[PARAMETER + name][text] = int(number)
    features |= {name: _to_levels(counted) for name, counted in levels.items()}
    return dict(sorted(features.items()))


def _parameter_sets(session: Session, usable: Sequence[sa.ColumnElement[bool]]) -> sa.Subquery:
    """Return sets of parameters with their numbers of runs, grouped if runs share sets."""
    conditions = (*usable, RunRow.parameters.is_not(None))
    newest = (
        sa.select(RunRow.parameters)
        .where(*conditions)
        .order_by(RunRow.id.desc())
        .limit(_SAMPLE_SIZE)
    )
    sample = newest.subquery().c.parameters
    n_distinct, n_sampled = session.execute(
        sa.select(sa.func.count(sample.distinct()), sa.func.count())
    ).one()
    if 2 * n_distinct > n_sampled:
        # Grouping sets that are all different takes longer than unpacking each of them.
        return (
            sa.select(RunRow.parameters, sa.literal(1).label("runs")).where(*conditions).subquery()
        )
    runs = sa.func.count().label("runs")
    return (
        sa.select(RunRow.parameters, runs).where(*conditions).group_by(RunRow.parameters).subquery()
    )


def _members(session: Session, usable: Sequence[sa.ColumnElement[bool]]) -> sa.Subquery:
    """Return for each parameter of each set its name, its number or text, and the runs."""
    sets = _parameter_sets(session, usable)
    if is_sqlite(session):
        entries = sa.func.json_each(sets.c.parameters).table_valued("key", "value", "type")
        is_text = entries.c.type == "text"
        text: sa.ColumnElement[Any] = entries.c.value
        number: sa.ColumnElement[Any] = entries.c.value
    else:
        entries = sa.func.jsonb_each(sets.c.parameters).table_valued("key", "value")
        is_text = sa.func.jsonb_typeof(entries.c.value) == "string"
        text = entries.c.value.op("#>>")(sa.text("'{}'"))
        number = sa.cast(sa.cast(entries.c.value, sa.Text), sa.Double)
    return (
        sa.select(
            entries.c.key.label("name"),
            sa.case((is_text, text)).label("text"),
            sa.case((~is_text, number)).label("number"),
            sets.c.runs,
        )
        .select_from(sa.join(sets, entries, sa.true()))
        .subquery()
    )


def _power_sums() -> sa.Select[*tuple[Any, ...]]:
    """Return the query of joules, busy worker-seconds and their weights by kind of machine."""
    joules = RunRow.resources["energy_joules"].as_float()
    newest = (
        sa.select(
            RunRow.gpu_type,
            RunRow.instance_type,
            (RunRow.duration_seconds * RunRow.workers).label("worker_s"),
            sa.case((joules < _MAX_JOULES, joules)).label("joules"),
            RunRow.resources["gpu_utilization"].as_float().label("share"),
        )
        .where(
            RunRow.workload_id == sa.bindparam("workload_id"),
            *IS_USABLE,
            RunRow.resources.is_not(None),
        )
        .order_by(RunRow.id.desc())
        .limit(_MAX_RUNS_WITH_POWER)
        .subquery()
    ).c
    figures = (
        newest.joules,
        sa.case((newest.joules.is_not(None), newest.worker_s)),
        newest.share * newest.worker_s,
        sa.case((newest.share.is_not(None), newest.worker_s)),
    )
    kinds = (newest.gpu_type, newest.instance_type)
    return sa.select(*kinds, *map(sa.func.sum, figures)).group_by(*kinds)


_POWER_SUMS: Final = _power_sums()
"""Built once: that takes longer than to execute it on few runs."""


def measured_power(
    session: Session, workload_id: WorkloadId
) -> dict[tuple[str | None, str | None], MeasuredPower]:
    """Return the power that a workload's newest usable runs measured, by GPU type.

    For runs without a GPU type, by their instance type; the other of the two is None.

    Watts are total energy over total worker-seconds, so that long runs weigh more; likewise
    the utilisation.
    """
    sums: defaultdict[tuple[str | None, str | None], list[float]] = defaultdict(lambda: [0.0] * 4)
    rows = session.execute(_POWER_SUMS, {"workload_id": workload_id})
    for gpu_type, instance_type, *measured in rows:
        machine = instance_type if gpu_type is None else None
        for hardware in {(gpu_type, None), (gpu_type, machine)}:
            sums[hardware] = [
                total + (amount or 0.0)
                for total, amount in zip(sums[hardware], measured, strict=True)
            ]
    return {
        hardware: MeasuredPower(
            _mean(energy, energy_worker_s), _mean(busy_worker_s, usage_worker_s)
        )
        for hardware, (energy, energy_worker_s, busy_worker_s, usage_worker_s) in sums.items()
        if energy_worker_s or usage_worker_s
    }


def _mean(amount: float, seconds: float) -> float | None:
    """Return a positive mean, None where nothing was measured."""
    return amount / seconds if seconds and amount > 0.0 else None


def measured_hardware(
    session: Session, usable: Sequence[sa.ColumnElement[bool]]
) -> dict[tuple[str | None, str | None], float | None]:
    """Return the pairs of GPU type and instance type of the runs that meet `usable`.

    Each with the most workers on one node, None where no run states its nodes.
    """
    per_node = sa.cast(RunRow.workers, sa.Double) / RunRow.nodes
    density = sa.func.max(sa.type_coerce(per_node, sa.Double))
    kinds = (RunRow.gpu_type, RunRow.instance_type)
    rows = session.execute(sa.select(*kinds, density).where(*usable).group_by(*kinds)).all()
    ordered = sorted(rows, key=lambda row: (row[0] or "", row[1] or ""))
    return {(gpu, instance): most for gpu, instance, most in ordered}
