"""The file of a backup: whose it is, and what it must not replace."""

import os
import stat
from pathlib import Path

import pytest

from app.domain.backups import BackupError
from app.services.backups import BackupService, check_backup
from app.services.wiring import Services


def test_backup_is_for_its_owner_alone(services: Services, tmp_path: Path) -> None:
    BackupService(services.context).create(tmp_path / "all.tfb")

    assert stat.S_IMODE((tmp_path / "all.tfb").stat().st_mode) == 0o600
    assert list(tmp_path.glob(".all.tfb*")) == []


def test_backup_replaces_a_file_only_when_told_so(services: Services, tmp_path: Path) -> None:
    backups, path = BackupService(services.context), tmp_path / "all.tfb"
    path.write_text("precious")

    with pytest.raises(BackupError, match="exists"):
        backups.create(path)
    assert path.read_text() == "precious"

    assert backups.create(path, overwrite=True) == check_backup(path)


@pytest.mark.parametrize("name", ["none/all.tfb", "file/all.tfb", "n" * 255, "n" * 256])
def test_backup_where_no_file_can_be_is_refused(
    services: Services, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(BackupError, match="Cannot write"):
        BackupService(services.context).create(tmp_path / name)


def test_backup_replaces_no_pipe_or_device(services: Services, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BackupError, match="is no file") as refused:
        BackupService(services.context).create(tmp_path / "pipe", overwrite=True)

    assert "- is standard output" in refused.value.remedy
    assert (tmp_path / "pipe").is_fifo()
