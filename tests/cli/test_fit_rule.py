"""`stopwise fit-rule`."""

import json

import numpy as np
import pytest

import stopwise as sw
from helpers import early


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    X, y, _ = sw.datasets.gaussian(800, offset=1.5, channels=3, length=8, seed=0)
    names = np.array(["left", "right"])[y]
    for name, rows in (("train", slice(0, 200)), ("held", slice(200, None))):
        sw.datasets.write(path / f"{name}.npz", X[rows], names[rows])
    early(order=0, max_epochs=5, polish=False).fit(X[:200], names[:200]).save(path / "model")
    return path


def test_cost_fits_a_finite_horizon_rule(run, folder):
    printed = run("fit-rule", folder / "model", folder / "held.npz", "--cost", 0.01, "-o", folder / "cheap")
    assert "FiniteHorizon(cost=0.01, horizon=8, 2 classes): on these 600 series" in " ".join(printed.split())
    assert isinstance(sw.load(folder / "cheap").rule_, sw.FiniteHorizon)


@pytest.mark.parametrize("goal", [("--mean-time", 2.5), ("--objective", "harmonic_mean")])
def test_json_output_contains_the_observed_results(run, folder, goal):
    arguments = ("fit-rule", folder / "model", folder / "held.npz", *goal, "-o", folder / "other")
    summary = json.loads(run(*arguments, "--json"))
    clf, held = sw.load(folder / "other"), sw.datasets.read(folder / "held.npz")
    assert summary["rule"] == clf.rule_.to_dict()
    decisions = clf.decide(held.X)
    assert summary["observed"]["mean_time"] == pytest.approx(decisions.times.mean())
    assert summary["observed"]["accuracy"] == pytest.approx((decisions.labels == held.y).mean())
    if goal[0] == "--mean-time":
        assert decisions.times.mean() <= 2.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("held.npz",), "exactly one"),
        (("held.npz", "--cost", "0.01", "--mean-time", "3"), "exactly one"),
        (("held.npz", "--objective", "speed"), "harmonic_mean"),
        (("train.npz", "--cost", "0.01"), "200 of 200 were given to fit"),
    ],
)
def test_invalid_arguments_print_one_line_and_keep_the_model(folder, arguments, message, refusal):
    before = (folder / "model" / "model.json").read_bytes()
    data, *rest = arguments
    assert message in refusal("fit-rule", folder / "model", folder / data, *rest)
    assert (folder / "model" / "model.json").read_bytes() == before
