"""Write the results of the benchmark to a JSON file, with the machine and the package versions.

A figure in the file can have an entry `before`: its value in an earlier version, with the quartiles and the
absolute values. Later runs keep this entry, so that the file shows what has changed since then.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from stopwise.atomic import atomic_write
from stopwise.bench.measure import Figure
from stopwise.persistence.folder import versions


def machine() -> dict[str, Any]:
    """Return the properties of the machine and the package versions."""
    return {
        **versions(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processor": _processor(),
    }


def to_json(path: Path, figures: dict[str, Figure]) -> None:
    """Write the figures and the machine to a JSON file.

    If the file exists, its figures that are not measured again stay, and every `before` stays.
    """
    rows = _rows(path)
    for name, figure in figures.items():
        kept = {"before": rows[name]["before"]} if "before" in rows.get(name, {}) else {}
        rows[name] = {**asdict(figure), "name": name, "title": figure.name} | kept
    content = {"figures": list(rows.values()), "machine": machine()}
    with atomic_write(path) as [temporary]:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def values_before(path: Path) -> dict[str, tuple[str, float]]:
    """Return the version and the value of `before` of the figures in a JSON file; empty if there is no file.

    Parameters
    ----------
    path
        A file that `to_json` wrote.
    """
    found = {name: row["before"] for name, row in _rows(path).items() if "before" in row}
    return {name: (before["version"], before["value"]) for name, before in found.items()}


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of a file by name; none if there is no file."""
    if not path.exists():
        return {}
    try:
        rows = {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))["figures"]}
        for before in (row["before"] for row in rows.values() if "before" in row):
            float(before["value"]), str(before["version"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"`--json` must be a new file or one that `stopwise bench` wrote; {path} is something else. "
            "Choose another file."
        ) from None
    return rows


def _processor() -> str:
    """Return the name of the processor, if the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
