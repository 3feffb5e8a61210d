"""What imports say where sources or services are unusual."""

from pathlib import Path

from trainfare_client.importers.naming import run_key

from client.tests.importing import Importing, written


def test_key_that_is_too_long_or_unprintable_is_a_digest_of_itself() -> None:
    long, unprintable = run_key("slurm", "x" * 1000), run_key("slurm", "a\nb")

    assert run_key("slurm", "x" * 1000) == long
    assert len(long) < 100
    assert long.startswith("slurm:")
    assert unprintable.isprintable()
    assert len({long, unprintable, run_key("slurm", "x" * 1001)}) == 3


def test_service_that_is_none_is_told_without_rows(
    importing: Importing, service_url: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", "workload,duration_seconds\nw,2.5\n")

    result = importing("csv", file, "--url", f"{service_url}/elsewhere")

    assert result.exit_code != 0
    assert "404" in result.err
