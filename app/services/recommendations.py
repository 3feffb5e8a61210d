"""The use cases of choosing a configuration."""

from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.serving import RegressorCache


class RecommendationService:
    """Use cases of choosing a configuration."""

    def __init__(
        self, context: ServiceContext, regressors: RegressorCache, prices: PriceService
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices
