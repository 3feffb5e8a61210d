"""Each page's block of Python runs as it stands, as a person would paste it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from trainfare_client import Client

_FOLDER = Path(__file__).parents[2] / "docs" / "integrations"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WORKLOADS = {
    "plain": ("nightly-report", 2),
    "pytorch": ("linear", 1),
    "lightning": ("lightning-line", 1),
    "hugging-face": ("hugging-line", 1),
    "accelerate": ("accelerated-line", 1),
    "ray-train": ("ray-line", 1),
    "scikit-learn": ("forest", 1),
    "python-client": ("documented", 9),
}


def test_every_page_is_tried() -> None:
    assert {page.stem for page in _FOLDER.glob("*.md")} - {"index"} >= set(_WORKLOADS)


@pytest.mark.parametrize("page", _WORKLOADS)
def test_block_runs_and_its_runs_arrive(page: str, client: Client, tmp_path: Path) -> None:
    workload, expected = _WORKLOADS[page]
    (block,) = _BLOCK.findall((_FOLDER / f"{page}.md").read_text())
    script = tmp_path / "pasted.py"
    script.write_text(block)

    answer = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "HOME": str(tmp_path), "RAY_ADDRESS": "local"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    assert len(list(client.runs.all(workload, status="succeeded"))) == expected
