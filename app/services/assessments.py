"""The use cases of judging runs against what the published regressor forecasts for them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from app.domain.errors import DomainError, NoRegressorError, UnknownWorkloadError
from app.domain.identifiers import ProjectId, Slug
from app.domain.runs import Assessment, Run, RunStatus, Verdict
from app.services.answers import features_of
from app.services.context import ServiceContext
from app.services.questions import to_question
from app.services.serving import RegressorCache, ServedRegressor

SIGNIFICANCE: Final = 0.05
"""A run less likely than this under the forecast, on either side, is slower or faster."""

_CONFIDENCE: Final = 0.9


class AssessmentService:
    """Judges runs against the regressor that is published when they are judged."""

    def __init__(self, context: ServiceContext, regressors: RegressorCache) -> None:
        self._context = context
        self._regressors = regressors

    def assess(self, project_id: ProjectId, runs: Sequence[Run]) -> list[Assessment]:
        """Return one assessment for each run, in order; unknown with its reason where need be."""
        groups: defaultdict[Slug, list[int]] = defaultdict(list)
        for index, run in enumerate(runs):
            groups[run.workload].append(index)
        verdicts: dict[int, Assessment] = {}
        for slug, rows in groups.items():
            asked = [runs[row] for row in rows]
            verdicts.update(zip(rows, self._assess_group(project_id, slug, asked), strict=True))
        return [verdicts[index] for index in range(len(runs))]

    def _assess_group(
        self, project_id: ProjectId, slug: Slug, runs: Sequence[Run]
    ) -> list[Assessment]:
        try:
            served = self._regressors.get(project_id, slug)
        except (UnknownWorkloadError, NoRegressorError):
            # The workload may come into being by the very upload that is judged.
            return [_unknown(f"Workload {slug!r} has no published regressor yet.") for _ in runs]
        except DomainError as error:
            return [_unknown(str(error)) for _ in runs]
        return _judge(runs, served)


def _unknown(reason: str) -> Assessment:
    return Assessment(Verdict.UNKNOWN, reason=reason)


def _judge(runs: Sequence[Run], served: ServedRegressor) -> list[Assessment]:
    answers: dict[int, Assessment] = {}
    rows, scenarios = [], []
    for row, run in enumerate(runs):
        if run.status is not RunStatus.SUCCEEDED:
            answers[row] = _unknown(f"The run did not succeed ({run.status}).")
            continue
        try:
            scenarios.append(to_question(run.scenario, served))
            rows.append(row)
        except DomainError as error:
            answers[row] = _unknown(str(error))
    forecast = served.portfolio.predict(features_of(scenarios, served))
    seconds = np.array([runs[row].duration_seconds for row in rows])
    below = forecast.probability_below(seconds) if rows else np.empty(0)
    lower, upper = forecast.interval(_CONFIDENCE)
    figures = zip(rows, below, forecast.median(), lower, upper, strict=True)
    for row, chance, median, low, high in figures:
        p_value = 2.0 * min(chance, 1.0 - chance)
        answers[row] = Assessment(
            verdict=_verdict(chance, p_value),
            expected_median_seconds=float(f"{median:.7g}"),
            expected_lower_seconds=float(f"{low:.7g}"),
            expected_upper_seconds=float(f"{high:.7g}"),
            ratio=float(f"{runs[row].duration_seconds / median:.6g}"),
            p_value=float(f"{p_value:.6g}"),
        )
    return [answers[row] for row in range(len(runs))]


def _verdict(chance: float, p_value: float) -> Verdict:
    if p_value >= SIGNIFICANCE:
        return Verdict.AS_EXPECTED
    return Verdict.SLOWER if chance > 1.0 / 2.0 else Verdict.FASTER
