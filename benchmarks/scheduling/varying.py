"""Variants of a generated trace, with one assumption changed at a time."""

from dataclasses import replace

from benchmarks.scheduling.traces import Statistics

_DAY_S = 86_400.0
_WEEK_S = 7 * _DAY_S


def variants(usual: Statistics) -> dict[str, Statistics]:
    """Return variants of the usual statistics, by what differs in them.

    Examples
    --------
    >>> variants(Statistics())["no early ends"].early_end
    0.0
    """
    return {
        "as it is": usual,
        "median and mean halved": replace(usual, median_s=103.0, mean_s=3326.0),
        "less spread: median 1,000 s": replace(usual, median_s=1000.0),
        "jobs up to a week": replace(usual, longest_s=_WEEK_S),
        "single GPUs only": replace(usual, gpu_counts=(1,), gpu_shares=(1.0,)),
        "no job above 8 GPUs": replace(
            usual, gpu_counts=(1, 2, 4, 8), gpu_shares=(0.5, 0.2, 0.15, 0.15)
        ),
        "no daily rhythm": replace(usual, rhythm=0.0),
        "strong daily rhythm": replace(usual, rhythm=1.0),
        "no early ends": replace(usual, early_end=0.0),
        "a third ends early": replace(usual, early_end=1 / 3),
        "no noise": replace(usual, noise=1e-3),
        "noise of 50%": replace(usual, noise=0.5),
    }
