"""The benchmark's exhaustive search finds what recommendations choose."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.lengthy
def test_what_is_recommended_is_the_best_that_can_run(tmp_path: Path) -> None:
    # A machine has 4 GPUs, so that 5 workers and more do not fit on one.
    lines = ["workload,gpu_type,instance_type,nodes,workers,dataset_size,duration_seconds"]
    lines += [
        f"small,T4,g4dn.12xlarge,{nodes},{workers},{size},{size / 7000 / workers + 0.001:.6f}"
        for nodes, workers in ((1, 1), (1, 2), (1, 4), (2, 8))
        for size in (1000, 2000, 4000)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(lines), encoding="utf-8")
    options = ["--regions", "1", "--workers", "8", "--rounds", "1", "--regressors", "log_linear"]

    table = subprocess.run(
        [sys.executable, "-m", "benchmarks.recommendations", str(tmp_path), *options],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    verdicts = re.findall(r"(yes|NO) +[|│]", table)
    assert verdicts == ["yes"] * 5
