"""Write the tables of docs/results/performance.md from results/bench.json."""

import json
from pathlib import Path
from typing import Any

from pages import head, replace_table, row

ROOT = Path(__file__).parent.parent
PAGE, FIGURES = ROOT / "docs/results/performance.md", ROOT / "results/bench.json"
HEAD = ("figure", "median (quartiles)", "0.1.0", "required", "goal", "reached", "absolute values")
STREAMS = ("LSTMCell", "streams", "stream()", "of a stream")


def main() -> None:
    """Replace the tables between the markers."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    streaming = [one for one in figures if any(word in one["title"] for word in STREAMS)]
    for name, shown in (
        ("training", [one for one in figures if one not in streaming]),
        ("streaming", streaming),
    ):
        replace_table(PAGE, name, head(*HEAD) + "".join(_row(one) for one in shown))


def _row(one: dict[str, Any]) -> str:
    unit, sign = one["unit"], "≤" if one["better"] == "lower" else "≥"
    reached = [level for level in ("aim", "bar") if _meets(one, one[level])]
    word = {"aim": "goal", "bar": "passed"}[reached[0]] if reached else "**missed**"
    value = f"{one['value']:.3g} {unit} ({one['low']:.3g}–{one['high']:.3g})".replace("  ", " ")
    before = f"{one['before']['value']:.3g}" if "before" in one else "–"
    return row(
        one["title"],
        value,
        before,
        f"{sign} {one['bar']:g}",
        f"{sign} {one['aim']:g}",
        word,
        one["note"],
    )


def _meets(one: dict[str, Any], level: float) -> bool:
    return one["value"] <= level if one["better"] == "lower" else one["value"] >= level


if __name__ == "__main__":
    main()
