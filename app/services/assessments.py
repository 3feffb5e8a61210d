"""The use cases of judging runs by what the published regressor forecasts for them."""

from collections import defaultdict
from collections.abc import Sequence

from app.domain.errors import DomainError, NoRegressorError, UnknownWorkloadError
from app.domain.identifiers import ProjectId, Slug
from app.domain.runs import ASSESSED_CONFIDENCE, Assessment, Run, Verdict
from app.pricing.resolution import PriceBook
from app.services.judging.runs import judge_runs, need_prices
from app.services.prices import PriceService
from app.services.served_regressors import ServedRegressor
from app.services.serving import PreparedRegressors, RegressorCache


class AssessmentService:
    """Judges runs by the regressor that is published at the time."""

    def __init__(self, regressors: RegressorCache, prices: PriceService) -> None:
        self._regressors = regressors
        self._prices = prices

    def assess(self, project_id: ProjectId, runs: Sequence[Run]) -> list[Assessment]:
        """Return one assessment per run, in order; with the reason where it is unknown."""
        groups: defaultdict[Slug, list[int]] = defaultdict(list)
        for index, run in enumerate(runs):
            groups[run.workload].append(index)
        keys = [(slug, None) for slug in groups]
        regressors = self._regressors.prepare(project_id, keys)
        verdicts: dict[int, Assessment] = {}
        for slug, _ in regressors.in_memory_first(keys):
            rows = groups[slug]
            group = [runs[row] for row in rows]
            verdicts.update(zip(rows, self._assess_group(regressors, slug, group), strict=True))
        return [verdicts[index] for index in range(len(runs))]

    def _assess_group(
        self, regressors: PreparedRegressors, slug: Slug, runs: Sequence[Run]
    ) -> list[Assessment]:
        try:
            served = regressors.get(slug, None)
            book = self._prices.book(regressors.project_id) if need_prices(runs) else None
        except (UnknownWorkloadError, NoRegressorError):
            # The workload may only be created by the upload that is judged.
            return [_unknown(f"Workload {slug!r} has no published regressor yet.") for _ in runs]
        except DomainError as error:
            return [_unknown(str(error)) for _ in runs]
        return _judge(runs, served, book)


def _unknown(reason: str) -> Assessment:
    return Assessment(Verdict.UNKNOWN, reason=reason)


def _judge(
    runs: Sequence[Run], served: ServedRegressor, book: PriceBook | None
) -> list[Assessment]:
    judged = judge_runs(runs, served, book)
    assessments = {row: _unknown(reason) for row, reason in judged.refusals.items()}
    forecast = judged.forecast
    lower, upper = forecast.interval(ASSESSED_CONFIDENCE)
    figures = zip(
        judged.rows, judged.probability_below(), forecast.median(), lower, upper, strict=True
    )
    for row, probability, median, low, high in figures:
        p_value = 2.0 * min(probability, 1.0 - probability)
        assessments[row] = Assessment(
            verdict=_verdict(probability, p_value),
            expected_median_seconds=float(f"{median:.7g}"),
            expected_lower_seconds=float(f"{low:.7g}"),
            expected_upper_seconds=float(f"{high:.7g}"),
            ratio=float(f"{runs[row].duration_seconds / median:.6g}"),
            p_value=float(f"{p_value:.6g}"),
        )
    return [assessments[row] for row in range(len(runs))]


def _verdict(probability: float, p_value: float) -> Verdict:
    if p_value >= 1.0 - ASSESSED_CONFIDENCE:
        return Verdict.AS_EXPECTED
    return Verdict.SLOWER if probability > 1.0 / 2.0 else Verdict.FASTER
