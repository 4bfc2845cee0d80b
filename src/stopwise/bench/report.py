"""Write the results of the benchmark to a JSON file, with the machine and the package versions."""

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
    """Write the figures and the machine to a JSON file."""
    rows = [{**asdict(figure), "name": name, "title": figure.name} for name, figure in figures.items()]
    with atomic_write(path) as [temporary]:
        temporary.write_text(
            json.dumps({"figures": rows, "machine": machine()}, indent=2) + "\n", encoding="utf-8"
        )


def _processor() -> str:
    """Return the name of the processor, if the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
