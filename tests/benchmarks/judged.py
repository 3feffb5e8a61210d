"""A task as it was judged, for tests that change what they are about."""

from benchmarks.accuracy.judging import Judgement, Points

JUDGED = Judgement(
    task="a/w/interpolation-random",
    data_set="a",
    kind="interpolation",
    axis="random",
    n_train=10,
    n_test=4,
    mape=0.05,
    off_by_20=0.0,
    coverage_80=0.8,
    coverage_90=0.9,
    width_90=0.3,
    score_90=0.4,
    own_estimate=0.05,
    held_out_error=0.05,
    fit_seconds=0.1,
    noise_floor=0.02,
    peer_mape=0.1,
    points=Points((1.0,), (1.0,), (0.9,), (1.1,), (0.05,)),
)
