"""Prints profiling plans and sessions for people and programs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.cli.output import out, print_json, print_note, print_table
from app.cli.profiling.log import Event, Session, scenario_of
from app.cli.profiling.training import RunOutcome, fields_of
from app.cli.wording import interval, percent
from app.domain.wording import say_seconds, say_share

Document = Mapping[str, Any]
_MAX_MULTIPLE: Final = 1000


def describe(document: Document) -> str:
    """Return a short description of the values that a run sets."""
    return ", ".join(f"{name} {value}" for name, value in fields_of(scenario_of(document)).items())


def say_width(width: float) -> str:
    """Return a width as a percentage of the median, a large one as a multiple.

    Examples
    --------
    >>> say_width(0.25), say_width(104.2), say_width(1e13)
    ('25%', '104 times', 'over 1000 times')
    """
    if width > _MAX_MULTIPLE:
        return f"over {_MAX_MULTIPLE} times"
    return percent(width) if width < 1 else f"{width:.3g} times"


def show_next(plan: Document, planned: Document) -> None:
    """Print which run is next and why."""
    price, now = planned["price"], say_width(plan["width"])
    cost = "" if price is None else f" for about {price} {plan['currency']}"
    print_note(
        f"Next: {describe(planned)}{cost}. The interval's width is {now} the median, and should"
        f" become {say_width(planned['width'])}."
    )


def show_outcome(number: int, planned: Document, outcome: RunOutcome, output: Path) -> None:
    """Print how a run ended, and where its output is if it did not succeed."""
    duration = say_seconds(outcome.duration_seconds)
    is_success = outcome.status == "succeeded"
    hint = "" if is_success else f" (exit code {outcome.exit_code}; see {output})"
    print_note(f"Run {number}: {describe(planned)}: {outcome.status} after {duration}{hint}.")


def show_session(session: Session, targets: Sequence[Document], *, as_json: bool) -> None:
    """Print what an ended session has measured, and the current forecasts of the targets."""
    assert session.stopped is not None
    if as_json:
        stop = {name: session.stopped[name] for name in ("reason", "message")}
        print_json(
            {
                "workload": session.workload,
                "session_id": session.session_id,
                "runs": session.finished,
                "skipped": session.skipped,
                "stop": stop,
                "targets": targets,
            }
        )
        return
    print_table([_row(event) for event in session.finished])
    for target in targets:
        if target["now"] is not None:
            band = target["now"]
            out.print(
                f"{describe(target)}: {say_seconds(band['median'])}"
                f" ({say_share(band['confidence'])} interval {interval(band)})",
                markup=False,
            )
    print_note(session.stopped["message"])


def _row(event: Event) -> dict[str, object]:
    return {
        "run": event["external_id"].rpartition("-")[2],
        "configuration": describe(event),
        "status": event["status"],
        "duration": say_seconds(event["duration_seconds"]),
    }


def show_dry_run(
    plan: Document, commands: Sequence[tuple[Document, str]], *, as_json: bool
) -> None:
    """Print a plan and the commands that it would run."""
    if as_json:
        print_json(plan)
        return
    print_table(
        [
            {
                "run": planned["order"],
                "configuration": describe(planned),
                "price": planned["price"],
                "width after": say_width(planned["width"]),
                "command": line,
            }
            for planned, line in commands
        ]
    )
    print_note(plan["stop"]["message"])
