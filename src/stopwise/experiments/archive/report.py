"""Tables of the archive benchmark: means over seeds, comparisons, and text for readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.experiments.ranking import Ranking
from stopwise.experiments.sweep import Result

#: By dataset and method: the means over seeds.
Table = dict[str, dict[str, dict[str, Any]]]

METRICS = (
    "accuracy", "macro_error", "earliness", "harmonic_mean", "cost", "average_cost_0.5", "average_cost_0.8",
    "ausat", "fit_seconds", "decision_seconds_per_series",
)  # fmt: skip
SIZES = ("n_train", "n_test", "T", "d", "K")
SINGLE = ("prefix", "accumulator", "B2Bsqrt-TANDEM")  # our own single models
ENOUGH = 100  # training series from which the default must not lose to another method
SMALL = 1e6  # numbers n·T·d up to which a fit must take at most a minute
AREAS = {
    "utd_mhad_skeleton": 0.22, "jhmdb21": 0.50, "ucf101_14_vgg16": 0.035, "ucr_ecg5000": 0.49,
    "uci_hapt": 0.077, "nosaic_mnist": 0.14,
}  # fmt: skip


def tabulate(results: Mapping[str, Result], methods: Sequence[str]) -> Table:
    """Return the means over seeds of the runs "dataset/method/seed" that did not fail.

    Datasets are sorted by name, methods as in `methods`.
    """
    runs: dict[str, dict[str, list[Result]]] = {}
    for name, result in results.items():
        data, method, _ = name.split("/")
        if "failed" not in result:
            runs.setdefault(data, {}).setdefault(method, []).append(result)
    table: Table = {}
    for data in sorted(runs, key=str.lower):
        table[data] = {method: _means(runs[data][method]) for method in methods if method in runs[data]}
    return table


def _means(runs: Sequence[Result]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key in METRICS:
        values = [run[key] for run in runs]
        row[key] = None if None in values else round(float(np.mean(values)), 6)
    row["cost_sd"] = round(float(np.std([run["cost"] for run in runs], ddof=1)), 6) if len(runs) > 1 else None
    return row | {key: runs[0][key] for key in SIZES} | {"runs": len(runs)}


def complete_costs(table: Table) -> dict[str, list[float]]:
    """Return the costs by method on the datasets that all methods were run on.

    Methods that are missing on more than a third of the datasets are left out, so that others can be compared
    on many.
    """
    counts: dict[str, int] = {}
    for row in table.values():
        for method in row:
            counts[method] = counts.get(method, 0) + 1
    methods = [method for method, count in counts.items() if 3 * count >= 2 * len(table)]
    shared = [row for row in table.values() if all(method in row for method in methods)]
    return {method: [row[method]["cost"] for row in shared] for method in methods}


def summarize(table: Table) -> dict[str, Any]:
    """Compare the default with every other method on the datasets that both were run on."""
    methods = dict.fromkeys(method for row in table.values() for method in row if method != "default")
    against = {}
    for method in methods:
        rows = {data: row for data, row in table.items() if "default" in row and method in row}
        if rows:
            against[method] = _compare(rows, method)
    rivals = ("CALIMERA", *SINGLE)
    worst: dict[str, dict[str, Any]] = {}
    for data, row in table.items():
        others = {method: row[method]["cost"] for method in rivals if method in row}
        if "default" in row and others and row["default"]["n_train"] >= ENOUGH:
            best = min(others, key=lambda method: others[method])
            worst[data] = {"ratio": _ratio(row["default"]["cost"], others[best]), "of": best}
    ordered = dict(sorted(worst.items(), key=lambda item: -item[1]["ratio"]))
    return {"against": against, "to_the_better": ordered}


def _compare(rows: Table, method: str) -> dict[str, Any]:
    ratios = {data: _ratio(row["default"]["cost"], row[method]["cost"]) for data, row in rows.items()}
    values = np.array(list(ratios.values()))
    harmonic = [row["default"]["harmonic_mean"] > row[method]["harmonic_mean"] for row in rows.values()]
    return {
        "datasets": len(rows),
        "lower_cost": int((values < 1).sum()),
        "mean_ratio": round(float(values.mean()), 4),
        "geometric_mean_ratio": round(float(np.exp(np.log(values).mean())), 4),
        "higher_harmonic_mean": sum(harmonic),
        "losses": {data: ratio for data, ratio in sorted(ratios.items(), key=lambda x: -x[1]) if ratio >= 1},
    }


def _ratio(cost: float, other: float) -> float:
    return round(cost / max(other, 1e-6), 4)


def bars(table: Table, summary: Mapping[str, Any]) -> list[tuple[str, str, str, bool]]:
    """Return the goals as (what, goal, measured, met), those that can be judged from these runs."""
    lines = []
    against = summary["against"]
    if "CALIMERA" in against:
        one = against["CALIMERA"]
        share = one["lower_cost"] / one["datasets"]
        text = f"{one['lower_cost']} of {one['datasets']} ({share:.0%})"
        lines.append(("costs less than CALIMERA", "≥ 90 % of the datasets", text, share >= 0.9))
        mean = one["mean_ratio"]
        lines.append(("mean ratio of the cost to CALIMERA's", "≤ 0.78", f"{mean:.3f}", mean <= 0.78))
    if "TEASER" in against:
        one = against["TEASER"]
        share = one["higher_harmonic_mean"] / one["datasets"]
        text = f"{one['higher_harmonic_mean']} of {one['datasets']} ({share:.0%})"
        lines.append(("harmonic mean above TEASER's", "≥ 90 % of the datasets", text, share >= 0.9))
    if summary["to_the_better"]:
        data, worst = next(iter(summary["to_the_better"].items()))
        lines.append(
            (
                "largest ratio to the better of CALIMERA and our single models, "
                f"from {ENOUGH} training series",
                "≤ 1.10",
                f"{worst['ratio']:.3f} ({data}, {worst['of']})",
                worst["ratio"] <= 1.1,
            )
        )
    for data, limit in AREAS.items():
        area = table.get(data, {}).get("default", {}).get("ausat")
        if area is not None:
            lines.append((f"AUSAT on {data}", f"≤ {limit:.1%}", f"{area:.1%}", area <= limit))
    fits = {
        data: row["default"]["fit_seconds"]
        for data, row in table.items()
        if "default" in row
        and np.prod([float(row["default"][key]) for key in ("n_train", "T", "d")]) <= SMALL
    }
    if fits:
        slowest = max(fits, key=lambda data: fits[data])
        text = f"{fits[slowest]:.0f} s ({slowest})"
        lines.append(("longest fit of at most 10⁶ numbers", "≤ 60 s", text, fits[slowest] <= 60))
    return lines


def summary_text(
    table: Table, summary: Mapping[str, Any], ranking: Ranking | None, notes: Sequence[str]
) -> str:
    """Return the summary in Markdown: goals, comparisons, and the costs of all methods on every dataset."""
    parts = []
    if goals := bars(table, summary):
        rows = [[what, goal, measured, "yes" if met else "**no**"] for what, goal, measured, met in goals]
        parts.append(_markdown(["the default", "goal", "measured", "met"], rows))
    rows = [
        [
            method,
            str(one["datasets"]),
            str(one["lower_cost"]),
            f"{one['mean_ratio']:.3f}",
            str(one["higher_harmonic_mean"]),
            ", ".join(f"{data} ({ratio:.2f})" for data, ratio in list(one["losses"].items())[:6]) or "–",
        ]
        for method, one in summary["against"].items()
    ]
    if rows:
        head = [
            "the default against", "datasets", "lower cost", "mean ratio of costs", "higher harmonic mean",
            "not lower (ratio)",
        ]  # fmt: skip
        parts.append(_markdown(head, rows))
    if ranking is not None:
        ranks = ", ".join(f"{method} {value:.2f}" for method, value in ranking.ranks.items())
        parts.append(
            f"Mean ranks of the cost on {ranking.datasets} datasets: {ranks} "
            f"(Friedman p = {ranking.friedman:.1g}).\n"
        )
    methods = list(dict.fromkeys(method for row in table.values() for method in row))
    parts.append(_markdown(["cost", *methods], [_costs(data, row, methods) for data, row in table.items()]))
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def _costs(data: str, row: Mapping[str, Any], methods: Sequence[str]) -> list[str]:
    best = min(one["cost"] for one in row.values())
    cells = []
    for method in methods:
        if method not in row:
            cells.append("–")
            continue
        text = f"{row[method]['cost']:.3f}"
        spread = row[method]["cost_sd"]
        text = f"**{text}**" if row[method]["cost"] == best else text
        cells.append(text if spread is None else f"{text} ± {spread:.3f}")
    return [data, *cells]


def sets_text(table: Table) -> str:
    """Return one table per dataset in Markdown, with all metrics of all methods."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "accuracy": lambda one: f"{one['accuracy']:.3f}",
        "earliness": lambda one: f"{one['earliness']:.3f}",
        "harmonic mean": lambda one: f"{one['harmonic_mean']:.3f}",
        "cost": lambda one: f"{one['cost']:.3f}",
        "AvgCost α = .5": lambda one: f"{one['average_cost_0.5']:.3f}",
        "AvgCost α = .8": lambda one: f"{one['average_cost_0.8']:.3f}",
        "AUSAT": lambda one: "–" if one["ausat"] is None else f"{one['ausat']:.3f}",
        "fit (s)": lambda one: f"{one['fit_seconds']:.1f}",
        "decision (ms)": lambda one: f"{1000 * one['decision_seconds_per_series']:.2f}",
        "training series": lambda one: str(one["n_train"]),
        "runs": lambda one: str(one["runs"]),
    }
    parts = []
    for data, row in table.items():
        one = next(iter(row.values()))
        sizes = f"{one['n_test']} test series, T = {one['T']}, d = {one['d']}, K = {one['K']}."
        lines = [[method, *(show(values) for show in columns.values())] for method, values in row.items()]
        parts.append(f"## {data}\n\n{sizes}\n\n{_markdown(['method', *columns], lines)}")
    return "\n".join(parts)


def failures(results: Mapping[str, Result]) -> list[str]:
    """Return one line per run that failed, with the reason."""
    return [f"{name} failed: {result['failed']}" for name, result in results.items() if "failed" in result]


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as [temporary]:
        temporary.write_text(text)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
