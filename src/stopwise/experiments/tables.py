"""Tables of results as readable JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stopwise.atomic import written_aside


def write_table(path: Path, table: Mapping[str, Any], *, keep: bool = False) -> None:
    """Write a table; `keep` what stood there under names it does not have.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.json"
    >>> write_table(path, {"a2": 1, "a1": 2})
    >>> write_table(path, {"a1": 3}, keep=True)
    >>> json.loads(path.read_text())
    {'a2': 1, 'a1': 3}
    """
    before = json.loads(path.read_text()) if keep and path.exists() else {}
    with written_aside(path) as [aside]:
        aside.write_text(json.dumps(before | dict(table), indent=1) + "\n")
