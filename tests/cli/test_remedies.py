"""Remedies in the words of the command line."""

import pytest

from app.cli.remedies import in_cli_words
from app.domain.errors import NoRegressorError


@pytest.mark.parametrize(
    ("api", "cli"),
    [
        ("give pricing.price_per_hour or", "give price_per_hour or"),
        ("Name search.gpu_types.", "Name gpu_type."),
        ("Shorten search.workers.", "Shorten workers."),
        ("with param.search.depth 3", "with param.search.depth 3"),
        ("?on_invalid=skip takes the good runs.", "--skip-invalid takes the good runs."),
        (
            "Send `Authorization: Bearer KEY`; an operator makes keys.",
            "Give it with --api-key (TRAINFARE_API_KEY); an operator makes keys.",
        ),
        (
            "Leave the `Authorization` header out: no key is demanded.",
            "Leave --api-key (TRAINFARE_API_KEY) out: no key is demanded.",
        ),
        ("Ask for a fit: POST /v1/workloads/a.b/fits", "Ask for a fit: `trainfare fit a.b`"),
        (
            "send it with the header Content-Type: application/json, or application/x-ndjson where",
            "name it .json, or .ndjson where",
        ),
        ("once, and send it with the header Content-Encoding: gzip.", "once, and name it .gz."),
        (NoRegressorError.remedy, "Upload succeeded runs, then type `trainfare fit WORKLOAD`."),
        ("Upload runs of it (POST /v1/runs).", "Upload runs of it (`trainfare upload FILE`)."),
    ],
)
def test_remedies_are_told_in_the_words_of_the_command_line(api: str, cli: str) -> None:
    assert in_cli_words(api) == cli
