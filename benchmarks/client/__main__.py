"""Times importing the client against importing the HTTP library that it uses.

    python -m benchmarks.client

Starts interpreters in turn and prints the medians minus that of an empty start, with their ratio.
"""

import statistics
import subprocess
import sys
import time
from typing import Final

ROUNDS: Final = 15
STATEMENTS: Final = {
    "empty": "pass",
    "import": "import trainfare_client",
    "client": "import trainfare_client; trainfare_client.Client()",
    "collector": "from trainfare_client import record",
    "httpx": "import httpx",
}


def seconds_of(statement: str) -> float:
    """Return the seconds of an interpreter that runs a statement, from start to end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Print one line per statement."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds_of(statement))
    median = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name in ("import", "client", "collector", "httpx"):
        excess_s = median[name] - median["empty"]
        ratio = excess_s / (median["httpx"] - median["empty"])
        print(f"{name:10} {1000 * excess_s:6.1f} ms  {ratio:.2f} of importing httpx")


if __name__ == "__main__":
    main()
