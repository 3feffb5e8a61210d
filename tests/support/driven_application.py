"""An application with a database of its own, driven by a test that may restart it."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fastapi.testclient import TestClient
from httpx2 import Response

from app.domain.access import Scope
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock

JSON_TYPE: Final = "application/json"
_ANSWER_S: Final = 0.001


class DrivenApplication:
    """An application that demands keys, on a copy of a migrated SQLite database."""

    def __init__(self, template: Path) -> None:
        self._left = ExitStack()
        folder = Path(self._left.enter_context(TemporaryDirectory(dir=template.parent)))
        shutil.copy(template, folder / "trainfare.db")
        self.settings = Settings(
            data_dir=folder, require_keys=True, database_patience_s=60, request_timeout_s=600
        )
        self.clock = FakeClock()
        database = Database(self.settings.url, pool_size=4)
        self._left.callback(database.close)
        self.context = ServiceContext(database, self.settings, self.clock)
        self._start()

    def _start(self) -> None:
        self._running = ExitStack()
        self._services = Services(self.context)
        self._running.callback(self._services.close)
        application = build_app(self.settings, self._services)
        self._client = self._running.enter_context(TestClient(application))

    def restart(self) -> None:
        """Replace the application by one that knows what the database holds."""
        self._running.close()
        self._start()

    def close(self) -> None:
        """End the application, and remove its database."""
        self._running.close()
        self._left.close()

    def new_token(self, project: str) -> str:
        """Return a key of a project with all rights."""
        return self._services.access.create_key("key", [Scope.ADMIN], project=project)[1]

    def let_knowledge_age(self) -> None:
        """Advance the clock until no question is answered by what was known before."""
        self.clock.advance(2 * self.settings.regressor_refresh_s)

    def ask(
        self,
        token: str,
        method: str,
        path: str,
        content: bytes | None,
        content_type: str,
        *,
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> Response:
        """Return an answer: never a failure, and each refusal with its code."""
        self.clock.advance(_ANSWER_S)
        sent = {
            "Authorization": f"Bearer {token}",
            "Content-Type": content_type,
            **(headers or {}),
        }
        answer = self._client.request(method, path, content=content, headers=sent, params=params)
        assert answer.status_code < 500, answer.text
        assert answer.is_success or answer.json()["code"], answer.text
        return answer
