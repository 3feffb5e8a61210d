"""What runs with one number of epochs tell about another: all epochs take equally long."""

from dataclasses import dataclass, replace

import numpy as np

from models.features.encoder import Encoder
from models.features.layout import Layout
from models.members.mixture import Mixture
from models.tables import FloatArray

EPOCHS_RELEVANCE = 0.1
"""Factor on the deviations of exponents of epochs that never varied, and on their part of kernels.

Each epoch takes as long as the one before. The other thing that the exponent of a power law could
stand for, a start-up that happens once, is left to `Epochs`."""

START_UP_SD = 0.2
"""Log standard deviation of many epochs extrapolated from few, whose runs may hold a start-up.

It is the share of the start-up in a measured run; the deviation approaches it as epochs grow."""

_MAX_LOG_RATIO = 20.0
"""Log ratio of epochs beyond which a reading no longer changes, so that its powers stay finite."""


def with_tight_epochs(layout: Layout, X: FloatArray) -> Layout:
    """Return the layout with a nearly fixed exponent of the epochs where they never varied.

    Examples
    --------
    >>> layout = Layout(("workers", "epochs"), (), ())
    >>> with_tight_epochs(layout, np.array([[0.0, 1.1, 1.0], [0.7, 1.1, 0.0]])).relevances
    (1.0, 0.1)
    >>> with_tight_epochs(layout, np.array([[0.0, 1.1, 1.0], [0.7, 1.8, 0.0]])).relevances
    (1.0, 1.0)
    """
    if "epochs" not in layout.roles:
        return layout
    column = layout.roles.index("epochs")
    if np.ptp(X[:, column]) > 0:
        return layout
    factors = list(layout.relevances)
    factors[column] = EPOCHS_RELEVANCE
    return replace(layout, relevance=tuple(factors))


def start_up_sd(excess: FloatArray) -> FloatArray:
    """Return the deviation of the log duration at a distance in log epochs from measured ones.

    Examples
    --------
    >>> start_up_sd(np.log([1.0, 2.0, 100.0])).round(3).tolist()
    [0.0, 0.1, 0.198]
    """
    return np.asarray(-START_UP_SD * np.expm1(-excess), dtype=np.float64)


def log_growth(shares: FloatArray, exponents: FloatArray, log_factor: FloatArray) -> FloatArray:
    """Return by how much log durations grow if their terms grow as powers of a factor.

    This is ``log sum_k p_k f^(x_k)`` for each law and choice of exponents, shape (n, n_choices,
    n_laws).

    Parameters
    ----------
    shares
        p, shape (n, n_laws, n_terms).
    exponents
        x, shape (n_choices, n_laws, n_terms).
    log_factor
        Log of f for each row, shape (n,).

    Examples
    --------
    >>> shares, exponents = np.array([[[0.5, 0.5]]]), np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    >>> np.exp(log_growth(shares, exponents, np.log([3.0]))).round(9).tolist()
    [[[2.0], [3.0]]]
    """
    grown = shares[:, None] * np.exp(exponents * log_factor[:, None, None, None])
    return np.asarray(np.log(np.add.reduce(grown, axis=3)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Epochs:
    """What remains unknown about more or fewer epochs than were measured.

    Where all runs had the same number of epochs, a part of the duration that does not grow with the
    data may belong to the run (a start-up) or to every epoch (validation, a checkpoint). With p_k
    the shares of the terms in the answer, e_k and w_k <= 1 their exponents of epochs and data, and
    r the epochs asked over those measured, the answer is multiplied by ``sum_k p_k r^(w_k - e_k)``
    if more epochs act like more data, and by ``sum_k p_k r^(1 - e_k)`` if they act like as many
    repeated runs. Both readings are equally probable. In addition, the runs may hide a start-up.

    Parameters
    ----------
    feature, place
        Index of the epochs among the features and among the columns of encoded rows.
    data_place
        Column of the size of the data set; that of the epochs where no run tells the size.
    is_one
        Whether all runs had the same number of epochs.
    """

    feature: int
    place: int
    data_place: int
    is_one: bool

    @classmethod
    def of(cls, encoder: Encoder) -> "Epochs | None":
        """Return where a fit has its epochs, None if its runs tell none."""
        used = [feature for feature in encoder.numeric if feature.used]
        places = {feature.role: place for place, feature in enumerate(used)}
        place = places.get("epochs")
        if place is None:
            return None
        feature = used[place]
        return cls(
            encoder.numeric.index(feature),
            place,
            places.get("dataset_size", place),
            is_one=feature.low == feature.high,
        )

    def readings(self, X: FloatArray, mixture: Mixture, shares: FloatArray) -> FloatArray:
        """Return the logs of both factors of each answer, shape (n, 2).

        Parameters
        ----------
        X
            Encoded questions, shape (n, n_columns).
        mixture, shares
            The mixture that answers them, and its shares of the terms; see `Evaluation`.
        """
        log_ratio = np.minimum(np.maximum(X[:, self.place], -_MAX_LOG_RATIO), _MAX_LOG_RATIO)
        own, by_data = mixture.exponents(self.place), mixture.exponents(self.data_place)
        exponents = np.array([np.minimum(by_data, 1.0) - own, 1.0 - own])
        return log_growth(shares, exponents, log_ratio) @ mixture.law_weights
