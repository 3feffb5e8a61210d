"""Fuzzes the reader of CSV uploads with atheris: whatever comes, it reads or refuses.

`make fuzz` runs it for a minute; arguments are those of libFuzzer.
"""

import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["app.services.uploads", "csv"]):
    from app.domain.errors import DomainError
    from app.pricing.gpus import canonical_gpu_name
    from app.services.uploads.reading import read_upload
from app.services.uploads.terms import UploadFormat

_SEEDS = (
    b"workload,duration_seconds,workers\nresnet,12.5,4\nresnet,7,8\n",
    (
        b"workload,external_id,status,duration_seconds,started_at,gpu_type,nodes,workers,"
        b"dataset_size,cost_usd,param.precision,phase.setup_seconds,label.sha\n"
        b"w,a-1,succeeded,12,2026-11-01T10:00:00Z,V100,1,1,1e6,'3,fp16,1.5,'=1+1\n"
    ),
    b'\xef\xbb\xbfworkload;duration_seconds\r\n"a;b";1e308\r\n;\r\n"unended',
)


def read(data: bytes) -> None:
    """Read an upload; nothing but a refusal may come out."""
    try:
        upload = read_upload(BytesIO(data), UploadFormat.CSV, canonical_gpu_name)
    except DomainError:
        return
    assert len(upload.faults.bad_rows) <= upload.total_rows


def main() -> None:
    """Fuzz until the limits of the command line."""
    with TemporaryDirectory() as folder:
        for number, seed in enumerate(_SEEDS):
            (Path(folder) / str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, folder], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
