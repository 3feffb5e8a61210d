"""HTTP requests that wait for a service as long as a slow machine needs."""

from functools import partial
from typing import Final

import httpx2

PATIENCE_S: Final = 90.0

get = partial(httpx2.get, timeout=PATIENCE_S)
post = partial(httpx2.post, timeout=PATIENCE_S)
put = partial(httpx2.put, timeout=PATIENCE_S)
patch = partial(httpx2.patch, timeout=PATIENCE_S)
delete = partial(httpx2.delete, timeout=PATIENCE_S)
