"""Examines the service's dependencies: `make sbom`, `make audit`.

python -m tests.support.dependencies sbom FILE     a CycloneDX document of the locked packages
python -m tests.support.dependencies audit         known weaknesses, and licences
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements.lock"
_ADVISORY_TIMEOUT_S: Final = 10
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
# Licences that would bind anyone who offers the service to others. The lesser GPL does not bind
# users of a library.
_REFUSED: Final = re.compile(
    r"(?<!lesser )(?<!l)\b(a?gpl|gnu (affero )?general public)", re.IGNORECASE
)


def pins(lock: Path = LOCK) -> dict[str, str]:
    """Return the pinned versions in a lock file by package."""
    return dict(_PINNED.findall(lock.read_text()))


def write_sbom(target: Path, lock: Path = LOCK) -> None:
    """Write the software bill of materials of a lock file."""
    command = ["-W", "ignore", "-m", "cyclonedx_py", "requirements", str(lock)]
    metadata_options = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
    output_options = ["--output-reproducible", "--of", "JSON", "--sv", "1.6", "-o", str(target)]
    subprocess.run([sys.executable, *command, *metadata_options, *output_options], check=True)


def read_advisories(lock: Path = LOCK) -> Mapping[str, Any] | None:
    """Return the advisory database's report on a lock file, None if it does not answer."""
    command = ["-m", "pip_audit", "-r", str(lock), "--disable-pip", "--require-hashes"]
    output_options = [
        "-f",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        str(_ADVISORY_TIMEOUT_S),
    ]
    process = subprocess.run(
        [sys.executable, *command, *output_options], check=False, capture_output=True, text=True
    )
    try:
        report: Mapping[str, Any] = json.loads(process.stdout)
    except ValueError:
        return None
    return report


def judge_advisories(report: Mapping[str, Any] | None) -> tuple[bool, list[str]]:
    """Return whether the packages have no known vulnerabilities, and the lines to print.

    A report that knows no package at all means that the database cannot be reached: package mirrors
    answer like this.
    """
    packages = [] if report is None else report["dependencies"]
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        return True, ["Advisories: not run: no advisory database reachable."]
    weak = [(package, entry) for package in audited for entry in package["vulns"]]
    lines = [
        f"Advisories: {len(audited)} of {len(packages)} packages looked up, {len(weak)} known."
    ]
    lines += [
        f"  {package['name']} {package['version']}: {entry['id']},"
        f" fixed in {', '.join(entry['fix_versions']) or 'no version'}"
        for package, entry in weak
    ]
    return not weak, lines


def licence_of(package: str) -> str | None:
    """Return the licence that an installed package declares, None if it is not installed."""
    try:
        package_metadata = metadata(package)
    except PackageNotFoundError:
        return None
    classifiers = [
        line.rpartition("::")[2].strip()
        for line in package_metadata.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    # The free text may be the whole licence; its first line is then the name.
    text = _first(package_metadata.get_all("License")).strip().partition("\n")[0]
    return _first(package_metadata.get_all("License-Expression")) or "; ".join(classifiers) or text


def _first(values: list[str] | None) -> str:
    return values[0] if values else ""


def judge_licences(licences: Mapping[str, str | None]) -> tuple[bool, list[str]]:
    """Return whether all licences are known and allowed, and the lines to print."""
    absent = [name for name, licence in licences.items() if licence is None]
    bad = [
        f"  {name}: {licence or 'tells no licence'}"
        for name, licence in licences.items()
        if licence is not None and (not licence or is_refused(licence))
    ]
    n_examined = len(licences) - len(absent)
    line = f"Licences: {n_examined} packages looked at, {len(bad)} not allowed"
    return not bad, [f"{line}; {len(absent)} of other systems are not installed here.", *bad]


def is_refused(licence: str) -> bool:
    """Whether a licence offers no alternative to a refused one."""
    choices = re.split(r"\sor\s", licence, flags=re.IGNORECASE)
    return all(_REFUSED.search(choice) for choice in choices)


def audit() -> int:
    """Print the findings about the packages; return 1 if there are any."""
    verdicts = [
        judge_advisories(read_advisories()),
        judge_licences({name: licence_of(name) for name in pins()}),
    ]
    _print_lines(line for _, lines in verdicts for line in lines)
    return 0 if all(is_good for is_good, _ in verdicts) else 1


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def main(arguments: list[str]) -> int:
    """Run the command given by the arguments."""
    if arguments[0] == "sbom":
        write_sbom(Path(arguments[1]))
        return 0
    return audit()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
