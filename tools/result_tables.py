"""Write the tables of figures 2 and 4 on the pages in docs/results from the stored results."""

import json
from pathlib import Path
from typing import Any

from pages import head, replace_table, row
from stopwise.experiments.conditions import TITLES
from stopwise.experiments.drift import LABELS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
GAUSSIAN_PAGE, REAL_PAGE = ROOT / "docs/results/reproduction.md", ROOT / "docs/results/real-data.md"
BASELINES = ("TANDEM-LLLR", "Oblivion-LSEL")
PROPOSED = ("B2Bsqrt-TANDEM", "TANDEMformer", "accumulator")
MODELS = BASELINES + PROPOSED
AVERAGE = "score average"
PEERS = {"TEASER-MiniRocket": "TEASER", "ProbThreshold-MiniRocket": "probability threshold"}
RULES = ("SPRT", "MaxProbability", "FixedTime")
DATA = {
    "nosaic_mnist": "Nosaic MNIST",
    "ucf101_14_vgg16": "UCF101",
    "ucr_ecg5000": "ECG5000",
    "utd_mhad_skeleton": "skeletons",
    "jhmdb21": "JHMDB",
    "uci_hapt": "UCI HAPT",
    "physionet2012": "PhysioNet 2012",
    "ucr_electricdevices": "ElectricDevices",
}
PRESETS = {"paper": "80k", "medium": "20k"}
WORLDS = {"a2": "a=2", "a1": "a=1"}
# Panels and conditions of figure 2 that repeat the runs of the first condition.
IN_THE_FIRST_ROW = (("loss", "LSEL"), ("LayerNorm", "off"), ("pooling", "NSP"))
BY_PROTOCOL = ("ucf101_14_vgg16", "jhmdb21")

Json = Any  # a value of a file of results


def main() -> None:
    """Replace the tables between the markers."""
    compared = {
        f"{size}, {title}": _load(f"gaussian/main-{preset}.json")[world]
        for preset, size in PRESETS.items()
        for world, title in WORLDS.items()
    }
    replace_table(GAUSSIAN_PAGE, "main", _main(compared))
    replace_table(GAUSSIAN_PAGE, "main by truth", _main_by_truth(compared))
    for preset in PRESETS:
        chosen = _load(f"gaussian/fig2-{preset}.json")
        by_truth = _load(f"gaussian/fig2-{preset}-by-truth.json")
        for world in chosen:
            table = _conditions(chosen[world]["panels"], by_truth.get(world, {}).get("panels", {}))
            replace_table(GAUSSIAN_PAGE, f"fig2 {preset} {world}", table)
    replace_table(GAUSSIAN_PAGE, "alpha", _alpha(_load("gaussian/alpha-medium.json")))
    replace_table(GAUSSIAN_PAGE, "drift", _drift(_load("gaussian/drift-a2-paper.json")))
    replace_table(GAUSSIAN_PAGE, "drift a1", _drift(_load("gaussian/drift-a1-paper.json")))
    found = {name: _load(f"real/fig4-{name}-medium.json") for name in DATA}
    by_protocol = {name: _load(f"real/fig4-{name}-medium-paper-protocol.json") for name in BY_PROTOCOL}
    replace_table(REAL_PAGE, "areas", _areas(found))
    replace_table(REAL_PAGE, "areas by protocol", _areas(by_protocol))
    replace_table(REAL_PAGE, "rises", _rises(found | {f"{k} (paper)": v for k, v in by_protocol.items()}))
    for name, table in found.items():
        replace_table(REAL_PAGE, f"points {name}", _points(table["points"]))
    replace_table(REAL_PAGE, "times", _times({DATA[name]: one["points"] for name, one in found.items()}))


def _load(name: str) -> Json:
    table: Json = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return table


def _main(compared: dict[str, Json]) -> str:
    """Return the table of the main comparison: models by worlds, with slopes and p-values."""
    text = head("model", *(cell for title in compared for cell in (title, "slope")))
    for model in MODELS:
        cells = []
        for found in compared.values():
            one = found["models"][model]
            cells += [_error(one["llr_error"]) + _tested(found["p"], model), f"{one['slope']['mean']:.2f}"]
        text += row(model, *cells)
    bounds = [_rounded(found["limit"]["longest"]) for found in compared.values()]
    limits = [cell for bound in bounds for cell in (f"*{bound}*", "")]
    return text + row("*linear model without penalty, one draw*", *limits)


def _main_by_truth(compared: dict[str, Json]) -> str:
    """Return the errors and the range of slopes of both choices of the epoch: models by worlds."""
    text = head("model", "chosen by", *compared)
    for model in MODELS:
        cells: dict[str, list[str]] = {"validation loss": [], "true LLRs": []}
        for found in compared.values():
            one = found["models"][model]
            parts = ((one, found["p"]), (one["by_truth"], found["p_by_truth"]))
            for own, (part, p) in zip(cells.values(), parts):
                own.append(f"{_error(part['llr_error'])}{_tested(p, model)}, {_range(part['slopes'])}")
        for choice, own in cells.items():
            text += row(model, choice, *own)
    return text


def _tested(p: Json, model: str) -> str:
    """Return the p-value of a proposed model in brackets."""
    return "" if model not in p else f" (p {_p(p[model])})" if p[model] < 1 else " (not better)"


def _range(slopes: list[float]) -> str:
    least, most = f"{min(slopes):.2f}", f"{max(slopes):.2f}"
    return least if least == most else f"{least}–{most}"


def _drift(found: Json) -> str:
    """Return errors and slopes of both choices of the epoch, by setting."""
    choices = ("chosen by validation loss: error", "slope", "chosen by true LLRs: error", "slope")
    text = head("setting", "runs", *choices)
    for condition, one in found.items():
        cells = []
        for choice in ("by_validation_loss", "by_truth"):
            cells += [_error(one[choice]["llr_error"]), _range(one[choice]["slopes"])]
        text += row(LABELS[condition], str(one["runs"]), *cells)
    return text


def _alpha(found: Json) -> str:
    """Return errors and slopes by activation, for both choices of the epoch."""
    choices = ("by validation loss", "slope", "by true LLRs")
    text = head("activation", *(f"{TITLES[world]}: {choice}" for world in found for choice in choices))
    for activation in found["a2"]:
        cells = []
        for world in found.values():
            one = world[activation]
            cells += [_error(one["mean_and_sem"]), _range(one["slopes"]), _error(one["by_truth"])]
        text += row("logarithm" if activation == "log" else activation, *cells)
    return text


def _conditions(chosen: Json, by_truth: Json) -> str:
    """Return a table of figure 2: conditions by models, in brackets the choice by the true LLRs."""
    text = head("condition", *MODELS, "runs")
    for panel, conditions in chosen.items():
        for condition, cell in conditions.items():
            if not any(model in cell for model in MODELS) or (panel, condition) in IN_THE_FIRST_ROW:
                continue
            other = by_truth.get(panel, {}).get(condition, {})
            shown = [_error(cell.get(model), other.get(model)) for model in MODELS]
            runs = sorted({one["runs"] for model, one in cell.items() if model in MODELS})
            text += row(f"{panel} {condition}", *shown, " or ".join(map(str, runs)))
    return text


def _error(one: Json | None, by_truth: Json | None = None) -> str:
    """Return the mean LLR error, its standard error, and in brackets the mean by the true LLRs."""
    if one is None:
        return "–"
    digits = _digits(one["mean"])
    text = _rounded(one["mean"])
    if one["sem"] is not None:
        text += f" ± {one['sem']:.{digits}f}"
    if by_truth is not None:
        text += f" ({by_truth['mean']:.{digits}f})"
    return text


def _rounded(value: float) -> str:
    return f"{value:.{_digits(value)}f}"


def _digits(value: float) -> int:
    return 2 if value < 2 else 1 if value < 100 else 0


def _areas(found: dict[str, Json]) -> str:
    """Return a table of AUSAT in percent: datasets by models, with p-values below both baselines."""
    text = head("dataset", *MODELS, AVERAGE)
    for name, table in found.items():
        areas = table["ausat"]
        least = min(areas[model]["mean"] for model in (*MODELS, AVERAGE))
        cells = []
        for model in (*MODELS, AVERAGE):
            cell = f"{100 * areas[model]['mean']:.1f} ± {100 * areas[model]['sem']:.1f}"
            cell = f"**{cell}**" if areas[model]["mean"] == least else cell
            p = table["ausat_p"].get(model, 1.0)
            cells.append(f"{cell} (p = {_p(p)})" if p < 1 else cell)
        text += row(f"`{name}`", *cells)
    return text


def _p(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else f"{p:.0e}".replace("e-0", "e-")


def _rises(found: dict[str, Json]) -> str:
    """Return a table of the largest rises of the mean curves, in percentage points of error."""
    text = head("dataset", *MODELS)
    for name, table in found.items():
        text += row(f"`{name}`", *(f"{100 * table['largest_rise'][model]:.1f}" for model in MODELS))
    return text


def _points(points: Json) -> str:
    """Return a table of the operating points on one dataset: methods by rules, and the best rule."""
    text = head("method", *RULES, "best rule", "accuracy (%)", "earliness", "cost")
    most = max(one["harmonic_mean"]["mean"] for one in points.values())
    for model in (*MODELS, AVERAGE):
        own = {rule: points[f"{model}, {rule}"] for rule in RULES}
        best = max(RULES, key=lambda rule: own[rule]["harmonic_mean"]["mean"])
        cells = []
        for one in own.values():
            value = one["harmonic_mean"]
            cell = f"{value['mean']:.3f} ± {value['sem']:.3f}"
            cells.append(f"**{cell}**" if value["mean"] == most else cell)
        text += row(model, *cells, best, *_numbers(own[best]))
    for peer, name in PEERS.items():
        one = points[peer]
        value = f"{one['harmonic_mean']['mean']:.3f}"
        value = f"**{value}**" if one["harmonic_mean"]["mean"] == most else value
        text += row(name, "–", "–", "–", f"its own: {value}", *_numbers(one))
    return text


def _numbers(point: Json) -> tuple[str, str, str]:
    """Return accuracy in percent, earliness and cost of a point."""
    return (
        f"{100 * point['accuracy']['mean']:.1f}",
        f"{point['earliness']['mean']:.3f}",
        f"{point['average_cost']['mean']:.3f}",
    )


def _times(found: dict[str, Json]) -> str:
    """Return a table of the times to fit and to decide: methods by datasets."""
    text = head("method", *found)
    keys = {model: f"{model}, SPRT" for model in (*MODELS, AVERAGE)} | {v: k for k, v in PEERS.items()}
    for method, key in keys.items():
        own = [points[key] for points in found.values()]
        text += row(
            method,
            *(
                f"{one['fit_seconds']['mean']:.1f} s / {one['decision_milliseconds']['mean']:.2f} ms"
                for one in own
            ),
        )
    return text


if __name__ == "__main__":
    main()
