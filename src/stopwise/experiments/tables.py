"""Tables of results as readable JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stopwise.atomic import atomic_write


def write_table(path: Path, table: Mapping[str, Any], *, keep: bool = False) -> None:
    """Write a table to a file atomically.

    Parameters
    ----------
    path
        The file.
    table
        Plain JSON values.
    keep
        Whether to keep the entries of an existing file that are not in `table`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.json"
    >>> write_table(path, {"a2": 1, "a1": 2})
    >>> write_table(path, {"a1": 3}, keep=True)
    >>> json.loads(path.read_text())
    {'a2': 1, 'a1': 3}
    """
    existing = json.loads(path.read_text()) if keep and path.exists() else {}
    with atomic_write(path) as [temporary]:
        temporary.write_text(json.dumps(existing | dict(table), indent=1, allow_nan=False) + "\n")
