"""What a caller should know before making the runs of a profiling plan."""

from collections.abc import Iterator

from app.domain.forecasts import ForecastWarning
from app.domain.profiling import ProfilingRequest
from app.domain.wording import say_enough, say_number, say_rounded
from app.services.profiling_plans.grounds import Ground, Outlook
from app.services.profiling_plans.spending import Spending


def plan_warnings(
    request: ProfilingRequest,
    ground: Ground,
    outlook: Outlook,
    spending: Spending,
    *,
    attainable: float,
) -> Iterator[ForecastWarning]:
    """Warn of what a plan cannot know, and of what none of its runs can show.

    Parameters
    ----------
    request, ground, outlook, spending
        The request and what is known about it.
    attainable
        The mean width of the targets' intervals that the scatter of runs leaves at best.
    """
    yield from spending.warnings()
    if ground.version is None:
        yield ForecastWarning(
            "cold_start",
            "No regressor is published: the plan rests on what holds for any training.",
            "Measure these runs, upload them, fit, and ask for the next plan.",
        )
    if not outlook.is_scaled:
        yield ForecastWarning(
            "scale_unknown",
            "Nothing was measured yet: durations and prices are unknown, a budget cannot be kept.",
            "Measure the first run of the plan, upload it, and ask again.",
        )
    for name, measured, target in ground.never_varied():
        yield ForecastWarning(
            "never_varied",
            f"All runs and candidates have {name} {say_number(measured)}, a target has"
            f" {say_number(target)}: no run of this plan shows the effect of another {name}.",
            f"Include another {name} in candidates or search.",
        )
    for name, level in ground.never_measured():
        yield ForecastWarning(
            "never_measured",
            f"No run and no candidate has {name} {level}, a target has: no run of this plan shows"
            " what it changes.",
            f"Include {name} {level} in candidates or search.",
        )
    if request.stop.width is not None and request.stop.width < attainable:
        yield ForecastWarning(
            "goal_unattainable",
            "Runs scatter so much that no plan narrows the intervals below"
            f" {say_rounded(attainable)} of the median.",
            f"Ask for a width above {say_enough(attainable)}.",
        )
