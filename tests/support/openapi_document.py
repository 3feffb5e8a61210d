"""Writes the OpenAPI document that the service publishes: `make openapi`."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from app.api.openapi import describe
from app.main import build_app
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate

PATH: Final = Path(__file__).parents[2] / "app" / "api" / "openapi.json"


def encoded(document: dict[str, Any]) -> str:
    """Return the text of a document, a line for each of its values."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    with TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        database = Database(settings.url)
        migrate(database)
        database.close()
        PATH.write_text(encoded(describe(build_app(settings))), encoding="utf-8")


if __name__ == "__main__":
    main()
