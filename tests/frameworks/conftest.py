"""These tests need the real frameworks, and run only in the environment that `./run test --frameworks` makes."""

from __future__ import annotations

import sys
from pathlib import Path

from cases import run  # noqa: F401  # a fixture

collect_ignore_glob = [] if Path(sys.prefix).name == "frameworks" else ["*_test.py"]
