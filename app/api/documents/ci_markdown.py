"""A CI report as text: the one-sentence summary and the pull request comment."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from app.api.documents.markdown import as_code, as_text
from app.api.schemas.quantities import money_text
from app.domain.ci import CONFIDENCE, CiReport, CostChange, GateVerdict, JudgedRun, RunCost
from app.domain.wording import say_change, say_count, say_number, say_seconds, say_workers

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
        reasons = dict.fromkeys(run.reason for run in report.runs if run.reason)
        consequence = " The gate fails builds that cannot be judged." if report.exit_code else ""
        return f"Nothing could be judged: {' '.join(str(each) for each in reasons)}{consequence}"
    if report.verdict is GateVerdict.FAIL and worst is not None:
        return f"Slower than forecast: {_change(worst)} on {_hardware_text(worst)}."
    drifts = _drift_sentences(report)
    if drifts:
        return drifts[0]
    if report.verdict is GateVerdict.WARN and worst is not None:
        return f"Perhaps slower than forecast: {_change(worst)} on {_hardware_text(worst)}."
    n_unjudged = len(report.runs) - len(_judged(report))
    open_note = f"; {n_unjudged} more could not be judged" if n_unjudged else ""
    best = _best(report)
    if best is not None:
        return f"Faster than forecast: {_change(best)} on {_hardware_text(best)}{open_note}."
    return f"As forecast: {_outcomes(_judged(report))}{open_note}."


def _drift_sentences(report: CiReport) -> list[str]:
    """Return what to say of each workload whose durations have shifted."""
    sentences = []
    for slug, drift in report.drifts.items():
        since = "" if drift.since is None else f" since {drift.since.created_at:%Y-%m-%d}"
        change = say_change(drift.change_ratio - 1)
        runs = say_count(drift.changed_runs, "run")
        sentences.append(f"The durations of {slug} creep up: {change}{since}, over {runs}.")
    return sentences


def _judged(report: CiReport) -> list[JudgedRun]:
    return [run for run in report.runs if run.ratio is not None]


def _best(report: CiReport) -> JudgedRun | None:
    """Return the run with the largest gain if a report passed and all its runs were faster."""
    judged = _judged(report)
    if report.verdict is not GateVerdict.PASS or not all(_is_faster(run) for run in judged):
        return None
    return min(judged, key=lambda run: run.ratio or 0, default=None)


def _outcomes(judged: Sequence[JudgedRun]) -> str:
    """Return how many runs lie within, below and above their intervals."""
    faster = sum(_is_faster(run) for run in judged)
    slower = sum(_is_slower(run) for run in judged)
    counts = {
        "within what was expected": len(judged) - faster - slower,
        "faster": faster,
        "slower, by no more than the gate allows": slower,
    }
    return ", ".join(
        f"{say_count(count, 'run')} {outcome}" for outcome, count in counts.items() if count
    )


def comment(report: CiReport) -> str:
    """Return the pull request comment; its hidden marker lets a later comment replace it."""
    slugs = sorted({run.run.workload for run in report.runs})
    has_costs = any(run.cost is not None for run in report.runs)
    columns = [*_COLUMNS[:-1], *([("cost", "---:")] if has_costs else []), _COLUMNS[-1]]
    sentences = dict.fromkeys([summary(report), *_drift_sentences(report)])
    lines = [
        f"<!-- trainfare:ci {' '.join(slugs)} -->",
        f"### Training cost: {_heading(report)}",
        "",
        *(line for sentence in sentences for line in (as_text(sentence), "")),
        f"| {' | '.join(name for name, _ in columns)} |",
        f"| {' | '.join(alignment for _, alignment in columns)} |",
        *(_row(run, has_costs=has_costs) for run in report.runs[:_SHOWN_RUNS]),
    ]
    if len(report.runs) > _SHOWN_RUNS:
        n_hidden = len(report.runs) - _SHOWN_RUNS
        lines.append(f"| ... | {say_count(n_hidden, 'more run')} {'| ' * (len(columns) - 2)}|")
    if report.cost_change is not None:
        lines += ["", _cost_sentence(report.cost_change)]
    lines += ["", f"<sub>{as_text(_origin(report, slugs))}</sub>"]
    return "\n".join(lines) + "\n"


def _heading(report: CiReport) -> str:
    return "faster than forecast" if _best(report) is not None else _HEADINGS[report.verdict]


def _is_faster(judged: JudgedRun) -> bool:
    """Whether a run lies below its interval, not merely below its median."""
    lower_s = judged.expected_lower_seconds
    return lower_s is not None and judged.run.duration_seconds < lower_s


def _is_slower(judged: JudgedRun) -> bool:
    """Whether a run lies above its interval, not merely above its median."""
    upper_s = judged.expected_upper_seconds
    return upper_s is not None and judged.run.duration_seconds > upper_s


def _worst(runs: Sequence[JudgedRun]) -> JudgedRun | None:
    """Return the slowest run with the worst verdict."""
    order = [GateVerdict.FAIL, GateVerdict.WARN]
    judged = [run for run in runs if run.ratio is not None and run.verdict in order]
    return min(judged, key=lambda run: (order.index(run.verdict), -(run.ratio or 0)), default=None)


def _change(judged: JudgedRun) -> str:
    median = judged.expected_median_seconds
    expected = "" if median is None else f" instead of {say_seconds(median)}"
    observed = say_seconds(judged.run.duration_seconds)
    return f"{observed}{expected} ({say_change((judged.ratio or 1) - 1, decimals=0)})"


def _hardware_text(judged: JudgedRun) -> str:
    configuration = judged.run.scenario.configuration
    instance, gpu = configuration.instance_type, configuration.gpu_type
    return say_workers(configuration.workers, gpu) + (
        f" ({instance})" if instance and not gpu else ""
    )


def _configuration_text(judged: JudgedRun) -> str:
    work = judged.run.scenario.work
    quantities = {
        "dataset": work.dataset_size,
        "batch": work.batch_size,
        "epochs": work.epochs,
    }
    members = [
        f"{name} {say_number(value)}" for name, value in quantities.items() if value is not None
    ]
    return ", ".join([_hardware_text(judged), *members])


def _row(judged: JudgedRun, *, has_costs: bool) -> str:
    lower, upper = judged.expected_lower_seconds, judged.expected_upper_seconds
    median = judged.expected_median_seconds
    expected, change = judged.reason or "-", "-"
    if median is not None and lower is not None and upper is not None:
        band = f"{say_seconds(lower)} .. {say_seconds(upper)}"
        expected = f"{say_seconds(median)} ({band})"
        change = say_change((judged.ratio or 1) - 1)
    verdict = {GateVerdict.FAIL: "**fail**", GateVerdict.WARN: "**warn**"}.get(
        judged.verdict, judged.verdict.replace("_", " ")
    )
    name = judged.run.external_id or judged.run.run_id
    observed = say_seconds(judged.run.duration_seconds)
    run = f"{as_text(judged.run.workload)} {as_code(name)}"
    plain = [as_text(cell) for cell in (_configuration_text(judged), observed, expected, change)]
    costs = [_cost(judged.cost)] if has_costs else []
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
    return f"{per_run}, {per_month} at {say_count(change.runs_per_month, 'run')} a month."


def _origin(report: CiReport, slugs: Sequence[str]) -> str:
    request = report.request
    versions = sorted(
        {
            f"{run.run.workload} v{run.regressor_version}"
            for run in report.runs
            if run.regressor_version is not None
        }
    )
    parts = [f"Trainfare report {report.report_id}"]
    parts += [f"regressors: {', '.join(versions)}"] if versions else [", ".join(slugs)]
    parts += [f"commit {request.commit}"] if request.commit else []
    if request.branch:
        against = f" against {request.base_branch}" if request.base_branch else ""
        parts.append(f"branch {request.branch}{against}")
    return "; ".join(parts)
