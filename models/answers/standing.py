"""How questions stand to what was measured, apart from their forecasts."""

from collections.abc import Mapping

from models.answers.departures import Departure, MeasuredBounds
from models.features.encoded import Encoded
from models.once import once
from models.tables import BoolArray, FeatureTable, IntArray


class Standing:
    """Where questions leave what was measured.

    It keeps nothing of a portfolio that is large, neither its members nor its runs, so that it can
    be kept for thousands of portfolios.

    Parameters
    ----------
    bounds
        What was measured.
    features
        The questions, with open nodes filled in.
    encoded
        The same, encoded.
    """

    def __init__(self, bounds: MeasuredBounds, features: FeatureTable, encoded: Encoded) -> None:
        self._bounds, self.features, self._encoded = bounds, features, encoded

    def about(self, rows: IntArray) -> "Standing":
        """Return the same of some of the questions."""
        return Standing(self._bounds, self.features.take(rows), self._encoded.take(rows))

    @once
    def within_range(self) -> BoolArray:
        """Which rows are within all that was measured, shape (n,); cheaper than `departures`."""
        return self._bounds.within(self.features, self._encoded)

    @once
    def departures(self) -> Mapping[int, Departure]:
        """Where the rows that leave what was measured do so; cheaper than `Inquiry.supports`."""
        return self._bounds.departures(self.features, self._encoded)
