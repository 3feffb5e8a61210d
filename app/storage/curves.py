"""Which runs lie along the axis of a curve, as conditions on their rows."""

from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.configurations import ParameterValue
from app.domain.curves import Axis, RunsAlong
from app.domain.flat_fields import PARAMETER
from app.storage.dialects import is_sqlite
from app.storage.tables import RunRow


def lie_along(session: Session, wanted: RunsAlong) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions for runs that have the given features and lie along the axis."""
    parameters: dict[str, ParameterValue] = {}
    for name, value in wanted.features.items():
        if name.startswith(PARAMETER):
            parameters[name.removeprefix(PARAMETER)] = value
        else:
            yield getattr(RunRow, name) == value
    if wanted.gpu_types is not None:
        is_implied = sa.and_(RunRow.gpu_type.is_(None), RunRow.instance_type.in_(wanted.machines))
        yield sa.or_(RunRow.gpu_type.in_(wanted.gpu_types), is_implied)
    yield from _have_parameters(session, parameters)
    yield _lies_on(session, wanted.axis)


def _have_parameters(
    session: Session, wanted: Mapping[str, ParameterValue]
) -> Iterator[sa.ColumnElement[bool]]:
    if not is_sqlite(session):
        # Imported where it is used: processes on SQLite do not need it.
        from sqlalchemy.dialects.postgresql import JSONB  # noqa: PLC0415

        if wanted:
            yield sa.type_coerce(RunRow.parameters, JSONB).contains(dict(wanted))
        return
    for name, value in wanted.items():
        member = sa.func.json_each(RunRow.parameters).table_valued("key", "value")
        has_value = member.c.key == name, member.c.value == value
        yield sa.exists(sa.select(1).select_from(member).where(*has_value))


def _lies_on(session: Session, axis: Axis) -> sa.ColumnElement[bool]:
    bounds = sa.literal(axis.start, sa.Double), sa.literal(axis.stop, sa.Double)
    if not axis.name.startswith(PARAMETER):
        return sa.cast(getattr(RunRow, axis.name), sa.Double).between(*bounds)
    name = axis.name.removeprefix(PARAMETER)
    if is_sqlite(session):
        member = sa.func.json_each(RunRow.parameters).table_valued("key", "value", "type")
        is_number = member.c.key == name, member.c.type != "text"
        within = sa.select(1).select_from(member).where(*is_number, member.c.value.between(*bounds))
        return sa.exists(within)
    value = RunRow.parameters[name]
    number = sa.cast(sa.cast(value, sa.Text), sa.Double)
    return sa.case((sa.func.jsonb_typeof(value) == "number", number)).between(*bounds)
