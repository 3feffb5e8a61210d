"""What the service is made of is written down, and judged by what is known of it."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.dependencies import (
    is_refused,
    judge_advisories,
    judge_licences,
    licence_of,
    pins,
    write_sbom,
)

pytestmark = pytest.mark.lengthy


def test_bill_of_materials_is_valid_and_names_every_locked_package(tmp_path: Path) -> None:
    target = tmp_path / "sbom.json"

    write_sbom(target)

    text = target.read_text()
    document = json.loads(text)
    versions = {
        component["name"].lower(): component["version"] for component in document["components"]
    }
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert versions.items() >= pins().items()
    assert document["metadata"]["component"]["name"] == "trainfare"
    locked = [
        component for component in document["components"] if component["name"].lower() in pins()
    ]
    assert all(component["externalReferences"][0]["hashes"] for component in locked)


def test_known_weakness_is_told_and_fails() -> None:
    entry = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    report = {
        "dependencies": [
            {"name": "sound", "version": "1", "vulns": []},
            {"name": "weak", "version": "1.0", "vulns": [entry]},
            {"name": "own", "skip_reason": "not on the index"},
        ]
    }

    is_good, lines = judge_advisories(report)

    assert not is_good
    assert lines == [
        "Advisories: 2 of 3 packages looked up, 1 known.",
        "  weak 1.0: PYSEC-1, fixed in 2.0",
    ]


@pytest.mark.parametrize(
    "report", [None, {"dependencies": [{"name": "a", "skip_reason": "Dependency not found"}]}]
)
def test_database_out_of_reach_is_told_and_fails_nothing(report: dict[str, object] | None) -> None:
    is_good, lines = judge_advisories(report)

    assert is_good
    assert lines == ["Advisories: not run: no advisory database reachable."]


def test_licences_of_what_runs_are_allowed() -> None:
    is_good, lines = judge_licences({name: licence_of(name) for name in pins()})

    assert is_good, lines


def test_licence_that_binds_or_is_missing_is_named() -> None:
    is_good, lines = judge_licences({"a": "AGPL-3.0-only", "b": "", "c": "MIT", "d": None})

    assert not is_good
    assert lines == [
        "Licences: 3 packages looked at, 2 not allowed; 1 of other systems are not installed here.",
        "  a: AGPL-3.0-only",
        "  b: tells no licence",
    ]


@pytest.mark.parametrize(
    ("licence", "refused"),
    [
        ("GPL-3.0-or-later", True),
        ("GNU General Public License v3", True),
        ("GNU Affero General Public License v3", True),
        ("GPL-2.0 OR MIT", False),
        ("LGPL-3.0-only", False),
        ("GNU Lesser General Public License v3", False),
        ("Apache-2.0", False),
    ],
)
def test_only_licences_without_a_choice_are_refused(licence: str, *, refused: bool) -> None:
    assert is_refused(licence) is refused
