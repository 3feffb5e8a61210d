"""A Spark application whose driver is killed while a job runs."""

import os
import signal
import sys
import threading
import time
from typing import Any

from pyspark.sql import SparkSession


def wait(number: Any) -> Any:
    """Take a while."""
    time.sleep(2 if number < 2 else 60)
    return number


session = (
    SparkSession.builder.master("local[2]")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", sys.argv[1])
    .config("spark.eventLog.compress", sys.argv[2])
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
machine = session.sparkContext._jvm.ProcessHandle.current().pid()
threading.Timer(5, lambda: os.kill(machine, signal.SIGKILL)).start()
session.sparkContext.parallelize(range(4), 4).map(wait).count()
