"""Results that are kept in a file, so that a benchmark can be stopped and continued."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zooming.agents.files.container import write_atomically


class Store:
    """Results by key in a file of JSON; what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        os.makedirs(path.parent, exist_ok=True)
        self.path = path
        self.results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a key, measured and kept if it is not there."""
        if key not in self.results:
            began = time.process_time()
            found = measure(*arguments)
            self.results[key] = {**found, "seconds": time.process_time() - began}
            write_atomically(self.path, json.dumps(self.results).encode())
        return self.results[key]
