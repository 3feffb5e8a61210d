"""A CI report as text: the one-sentence summary and the pull request comment."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from app.api.documents.markdown import as_code, as_text
from app.api.schemas.quantities import money_text
from app.domain.ci import CONFIDENCE, CiReport, CostChange, GateVerdict, JudgedRun, RunCost
from app.domain.wording import say_count, say_number, say_seconds

_HEADINGS: Final = {
    GateVerdict.PASS: "as forecast",
    GateVerdict.WARN: "worth a look",
    GateVerdict.FAIL: "slower than forecast",
    GateVerdict.INSUFFICIENT_DATA: "nothing to compare with yet",
}
_COLUMNS: Final = (
    ("run", "---"),
    ("configuration", "---"),
    ("observed", "---:"),
    (f"expected ({CONFIDENCE:.0%})", "---:"),
    ("change", "---:"),
    ("verdict", "---"),
)
_SHOWN_RUNS: Final = 50
_CENT: Final = Decimal("0.01")
_DIGITS: Final = 3


def summary(report: CiReport) -> str:
    """Return the verdict as one sentence."""
    worst = _worst(report.runs)
    if report.verdict is GateVerdict.INSUFFICIENT_DATA:
        reasons = dict.fromkeys(each.reason for each in report.runs if each.reason)
        return f"Nothing could be judged: {' '.join(str(reason) for reason in reasons)}"
    if report.verdict is GateVerdict.FAIL and worst is not None:
        return f"Slower than forecast: {_change(worst)} on {_place(worst)}."
    if report.drifts:
        slug, drift = next(iter(report.drifts.items()))
        since = "" if drift.since is None else f" since {drift.since.created_at:%Y-%m-%d}"
        change = f"{drift.change_ratio - 1:+.1%}"
        runs = say_count(drift.changed_runs, "run")
        return f"The durations of {slug} creep up: {change}{since}, over {runs}."
    if report.verdict is GateVerdict.WARN and worst is not None:
        return f"Perhaps slower than forecast: {_change(worst)} on {_place(worst)}."
    left = len(report.runs) - len(_judged(report))
    open_note = f"; {left} more could not be judged" if left else ""
    best = _best(report)
    if best is not None:
        return f"Faster than forecast: {_change(best)} on {_place(best)}{open_note}."
    return f"As forecast: {_outcomes(_judged(report))}{open_note}."


def _judged(report: CiReport) -> list[JudgedRun]:
    return [each for each in report.runs if each.ratio is not None]


def _best(report: CiReport) -> JudgedRun | None:
    """Return the run with the largest gain if a report passed and all its runs were faster."""
    judged = _judged(report)
    if report.verdict is not GateVerdict.PASS or not all(_is_faster(each) for each in judged):
        return None
    return min(judged, key=lambda each: each.ratio or 0, default=None)


def _outcomes(judged: Sequence[JudgedRun]) -> str:
    """Return how many runs lie within, below and above their intervals."""
    faster = sum(_is_faster(each) for each in judged)
    slower = sum(_is_slower(each) for each in judged)
    counts = {
        "within what was expected": len(judged) - faster - slower,
        "faster": faster,
        "slower, by no more than the gate allows": slower,
    }
    return ", ".join(f"{say_count(count, 'run')} {what}" for what, count in counts.items() if count)


def comment(report: CiReport) -> str:
    """Return the pull request comment; its hidden marker lets a later comment replace it."""
    slugs = sorted({each.run.workload for each in report.runs})
    has_costs = any(each.cost is not None for each in report.runs)
    columns = [*_COLUMNS[:-1], *([("cost", "---:")] if has_costs else []), _COLUMNS[-1]]
    lines = [
        f"<!-- trainfare:ci {' '.join(slugs)} -->",
        f"### Training cost: {_heading(report)}",
        "",
        as_text(summary(report)),
        "",
        f"| {' | '.join(name for name, _ in columns)} |",
        f"| {' | '.join(alignment for _, alignment in columns)} |",
        *(_row(each, has_costs=has_costs) for each in report.runs[:_SHOWN_RUNS]),
    ]
    if len(report.runs) > _SHOWN_RUNS:
        left = len(report.runs) - _SHOWN_RUNS
        lines.append(f"| ... | {say_count(left, 'more run')} {'| ' * (len(columns) - 2)}|")
    if report.cost_change is not None:
        lines += ["", _cost_sentence(report.cost_change)]
    lines += ["", f"<sub>{as_text(_origin(report, slugs))}</sub>"]
    return "\n".join(lines) + "\n"


def _heading(report: CiReport) -> str:
    return "faster than forecast" if _best(report) is not None else _HEADINGS[report.verdict]


def _is_faster(each: JudgedRun) -> bool:
    """Whether a run lies below its interval, not merely below its median."""
    least = each.expected_lower_seconds
    return least is not None and each.run.duration_seconds < least


def _is_slower(each: JudgedRun) -> bool:
    """Whether a run lies above its interval, not merely above its median."""
    most = each.expected_upper_seconds
    return most is not None and each.run.duration_seconds > most


def _worst(runs: Sequence[JudgedRun]) -> JudgedRun | None:
    """Return the slowest run with the worst verdict."""
    order = [GateVerdict.FAIL, GateVerdict.WARN]
    judged = [each for each in runs if each.ratio is not None and each.verdict in order]
    return min(
        judged, key=lambda each: (order.index(each.verdict), -(each.ratio or 0)), default=None
    )


def _change(each: JudgedRun) -> str:
    median = each.expected_median_seconds
    expected = "" if median is None else f" instead of {say_seconds(median)}"
    observed = say_seconds(each.run.duration_seconds)
    return f"{observed}{expected} ({(each.ratio or 1) - 1:+.0%})"


def _place(each: JudgedRun) -> str:
    configuration = each.run.scenario.configuration
    hardware = configuration.gpu_type or configuration.instance_type
    workers = configuration.workers
    return say_count(workers, "worker") if hardware is None else f"{workers} x {hardware}"


def _work(each: JudgedRun) -> str:
    work = each.run.scenario.work
    known = {
        "dataset": work.dataset_size,
        "batch": work.batch_size,
        "epochs": work.epochs,
    }
    said = [f"{name} {say_number(value)}" for name, value in known.items() if value is not None]
    return ", ".join([_place(each), *said])


def _row(each: JudgedRun, *, has_costs: bool) -> str:
    lower, upper = each.expected_lower_seconds, each.expected_upper_seconds
    median = each.expected_median_seconds
    expected, change = each.reason or "-", "-"
    if median is not None and lower is not None and upper is not None:
        band = f"{say_seconds(lower)} .. {say_seconds(upper)}"
        expected = f"{say_seconds(median)} ({band})"
        change = f"{(each.ratio or 1) - 1:+.1%}"
    verdict = {GateVerdict.FAIL: "**fail**", GateVerdict.WARN: "**warn**"}.get(
        each.verdict, each.verdict.replace("_", " ")
    )
    name = each.run.external_id or each.run.run_id
    observed = say_seconds(each.run.duration_seconds)
    run = f"{as_text(each.run.workload)} {as_code(name)}"
    plain = [as_text(cell) for cell in (_work(each), observed, expected, change)]
    costs = [_cost(each.cost)] if has_costs else []
    return f"| {' | '.join([run, *plain, *costs, verdict])} |"


def _cost(cost: RunCost | None) -> str:
    if cost is None:
        return "-"
    observed = signed_money(cost.observed).removeprefix("+")
    return f"{observed} {cost.currency} ({signed_money(cost.observed - cost.expected)})"


def signed_money(amount: Decimal) -> str:
    """Return a signed amount with two decimals, or with more where it is below a few cents.

    Examples
    --------
    >>> signed_money(Decimal("12.3456")), signed_money(Decimal("-0.0012345"))
    ('+12.35', '-0.00123')
    """
    digits = min(_CENT.adjusted(), amount.adjusted() - _DIGITS + 1) if amount else -2
    rounded = amount.quantize(Decimal(1).scaleb(digits))
    return f"{'-' if rounded < 0 else '+'}{money_text(abs(rounded))}"


def _cost_sentence(change: CostChange) -> str:
    per_run = f"Cost: {signed_money(change.per_run)} {change.currency} per run"
    if change.per_month is None:
        return f"{per_run}."
    per_month = f"{signed_money(change.per_month)} {change.currency} per month"
    return f"{per_run}, {per_month} at {change.runs_per_month} runs a month."


def _origin(report: CiReport, slugs: Sequence[str]) -> str:
    request = report.request
    versions = sorted(
        {
            f"{each.run.workload} v{each.regressor_version}"
            for each in report.runs
            if each.regressor_version is not None
        }
    )
    parts = [f"Trainfare report {report.report_id}"]
    parts += [f"regressors: {', '.join(versions)}"] if versions else [", ".join(slugs)]
    parts += [f"commit {request.commit}"] if request.commit else []
    if request.branch:
        against = f" against {request.base_branch}" if request.base_branch else ""
        parts.append(f"branch {request.branch}{against}")
    return "; ".join(parts)
