"""The manifests in a namespace of the trial's own, with its images, its secrets, and its end."""

import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

import yaml

from tests.containers.asking import ROOT

_NAME: Final = "trainfare-trial"
_LONGEST_S: Final = 900
"""Of one command: the first one pulls the image."""


class Images(NamedTuple):
    """The images of the service and of fits on a Ray cluster, each with its tag."""

    service: str
    ray: str | None


@dataclass(frozen=True, slots=True)
class Installation:
    """The manifests of all layers, changed as the guide says.

    Attributes
    ----------
    folder
        Holds a copy of the layers, and for each one a layer above it with the trial's names.
    images
        The images of the containers.
    database_url
        The database, as pods reach it.
    """

    folder: Path
    images: Images
    database_url: str

    @classmethod
    @contextmanager
    def started(cls, images: Images, database_url: str) -> Iterator[Self]:
        """Give an installation that has its secrets; its namespace is removed at the end."""
        with TemporaryDirectory() as folder:
            installation = cls(Path(folder) / "kubernetes", images, database_url)
            shutil.copytree(ROOT / "deploy" / "kubernetes", installation.folder)
            installation.run("create", "namespace", _NAME)
            try:
                installation.add_secret("trainfare", "TRAINFARE_DATABASE_URL", database_url)
                installation.add_secret("trainfare-ray", "token", secrets.token_hex(32))
                yield installation
            finally:
                installation.run("delete", "namespace", _NAME)

    def add_secret(self, name: str, key: str, value: str) -> None:
        """Create a secret with one value."""
        self.run("create", "secret", "generic", name, f"--from-literal={key}={value}")

    def apply(self, layer: str) -> None:
        """Apply a layer with the images and the namespace of the trial."""
        folder = self.folder / f"trial-{layer}"
        folder.mkdir(exist_ok=True)
        named = {"trainfare": self.images.service, "trainfare-ray": self.images.ray}
        images = [
            {"name": name, "newName": image.rpartition(":")[0], "newTag": image.rpartition(":")[2]}
            for name, image in named.items()
            if image is not None
        ]
        document = {"namespace": _NAME, "resources": [f"../{layer}"], "images": images}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
        self.run("apply", "-k", str(folder))

    def migrate(self, layer: str) -> str:
        """Apply a layer as the runbook does, and return what the migration said."""
        self.run("delete", "job", "trainfare-migrate", "--ignore-not-found")
        self.apply(layer)
        self.run("wait", "--for=condition=complete", "--timeout=10m", "job/trainfare-migrate")
        return self.run("logs", "job/trainfare-migrate")

    def restore(self, backup: bytes) -> str:
        """Restore a backup in a pod of its own as the runbook does, and return what it said."""
        settings = {"TRAINFARE_DATABASE_URL": self.database_url, "TRAINFARE_PORT": "8000"}
        variables = [f"--env={name}={value}" for name, value in settings.items()]
        pod = ("run", "restore", "--rm", "--stdin", "--restart=Never")
        command = (*pod, f"--image={self.images.service}", *variables, "--", "restore")
        return self.pipe(*command, "--overwrite", "-", data=backup).decode()

    def await_rollout(self, *deployments: str) -> None:
        """Wait until all replicas of the deployments are new and ready."""
        for deployment in deployments:
            self.run("rollout", "status", f"deployment/{deployment}", "--timeout=10m")

    def run(self, *arguments: str) -> str:
        """Run one command of kubectl to its end and return what it printed.

        Raises
        ------
        AssertionError
            If it fails, with what it said.
        """
        return self.pipe(*arguments).decode()

    def pipe(self, *arguments: str, data: bytes = b"") -> bytes:
        """Run one command of kubectl, with bytes on its standard input and output.

        Raises
        ------
        AssertionError
            As `run` does.
        """
        ended = subprocess.run(
            _command(*arguments), input=data, capture_output=True, timeout=_LONGEST_S, check=False
        )
        message = ended.stderr.decode(errors="replace")[-2000:]
        assert ended.returncode == 0, f"{' '.join(arguments)}: {message}"
        return ended.stdout

    @contextmanager
    def running(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Give a command of kubectl that is under way; it is ended with the context."""
        process = subprocess.Popen(_command(*arguments), stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.communicate()

    @contextmanager
    def forwarded(self) -> Iterator[str]:
        """Give an address on this machine at which one replica of the service answers."""
        with self.running("port-forward", "service/trainfare", ":80") as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:\d+", line)
            assert found is not None, line
            yield f"http://{found[0]}"

    def state(self) -> str:
        """Return what there is, and the last lines that each container wrote."""
        commands = (
            ("get", "all", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--selector=app.kubernetes.io/name=trainfare", "--prefix", "--tail=30"),
        )
        return "\n".join(
            subprocess.run(_command(*command), capture_output=True, text=True, check=False).stdout
            for command in commands
        )


def _command(*arguments: str) -> list[str]:
    return ["kubectl", f"--namespace={_NAME}", *arguments]
