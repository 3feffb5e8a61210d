"""How probable an accident is, by the distance of a run from what others say."""

import numpy as np
import pytest

from models.runs.accidents import accident_probability


@pytest.mark.parametrize("sd", [0.02, 0.2, 1.0])
def test_a_larger_distance_is_never_a_smaller_reason_to_believe_in_an_accident(sd: float) -> None:
    distance = np.linspace(0, 40, 4001)
    above = accident_probability(distance, np.full(len(distance), sd**2))
    below = accident_probability(-distance, np.full(len(distance), sd**2))

    assert (np.diff(above) >= 0).all()
    assert above.tolist() == below.tolist()
