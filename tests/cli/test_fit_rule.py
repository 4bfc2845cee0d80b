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
    arguments = ("fit-rule", folder / "model", folder / "held.npz", "--cost", 0.01)
    printed = run(*arguments, "--method", "finite_horizon", "-o", folder / "cheap")
    assert "FiniteHorizon(cost=0.01, horizon=8, 2 classes): on these 600 series" in " ".join(printed.split())
    assert isinstance(sw.load(folder / "cheap").rule_, sw.FiniteHorizon)


def test_cost_fits_a_line(run, folder):
    printed = run("fit-rule", folder / "model", folder / "held.npz", "--cost", 0.01, "-o", folder / "line")
    assert "SlopedProbability(level=" in printed
    assert isinstance(sw.load(folder / "line").rule_, sw.rules.SlopedProbability)


@pytest.mark.parametrize("goal", [("--mean-time", 2.5), ("--objective", "harmonic_mean")])
def test_json_output_contains_the_observed_results(run, folder, goal):
    arguments = ("fit-rule", folder / "model", folder / "held.npz", *goal, "-o", folder / "other", "--force")
    summary = json.loads(run(*arguments, "--json"))
    clf, held = sw.load(folder / "other"), sw.datasets.read(folder / "held.npz")
    assert summary["rule"] == clf.rule_.to_dict()
    decisions = clf.decide(held.X)
    assert summary["observed"]["mean_time"] == pytest.approx(decisions.times.mean())
    assert summary["observed"]["accuracy"] == pytest.approx((decisions.labels == held.y).mean())
    if goal[0] == "--mean-time":
        assert decisions.times.mean() <= 2.5


def test_losses_by_name(run, folder):
    losses = ("--loss", "left:right=20", "--loss", "right:left=1")
    arguments = ("fit-rule", folder / "model", folder / "held.npz", "--cost", 0.01, *losses)
    printed = run(*arguments, "-o", folder / "careful").splitlines()
    assert any("true class" in line and "decided left" in line for line in printed)
    assert any(line.replace("│", " ").split() == ["left", "0", "20"] for line in printed)
    assert any(line.replace("│", " ").split() == ["right", "1", "0"] for line in printed)
    clf, held = sw.load(folder / "careful"), sw.datasets.read(folder / "held.npz")
    expected = sw.load(folder / "model").fit_rule(
        held.X, held.y, cost=0.01, loss={("left", "right"): 20, ("right", "left"): 1}
    )
    assert clf.rule_ == expected.rule_
    summary = json.loads(run(*arguments, "-o", folder / "careful", "--json", "--force"))
    assert summary["loss"] == {"left:right": 20, "right:left": 1}
    asked = ("--loss", 1, "--method", "finite_horizon", "-o", folder / "one")
    assert run(*arguments[:3], "--cost", 0.01, *asked)
    assert sw.load(folder / "one").rule_.loss.tolist() == [[0, 1], [1, 0]]


def test_the_series_are_scored_once(run, folder, monkeypatch):
    calls = []
    scores = sw.EarlyClassifier.scores
    monkeypatch.setattr(sw.EarlyClassifier, "scores", lambda *a: calls.append(1) or scores(*a))
    run("fit-rule", folder / "model", folder / "held.npz", "--mean-time", 3, "-o", folder / "once")
    assert calls == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("held.npz",), "exactly one"),
        (("held.npz", "--cost", "0.01", "--mean-time", "3"), "exactly one"),
        (("held.npz", "--objective", "speed"), "harmonic_mean"),
        (("train.npz", "--cost", "0.01"), "200 of 200 were given to fit"),
        (("held.npz", "--mean-time", "3", "--loss", "2"), "`loss` can only be used with `cost`"),
        (("held.npz", "--cost", "0.01", "--loss", "left:right=2"), "missing: ('right', 'left')"),
        (("held.npz", "--cost", "0.01", "--loss", "left:up=2"), "Known pairs: left:right, right:left."),
        (
            ("held.npz", "--cost", "0.01", "--loss", "left:right=2", "--loss", "left:right=3"),
            "once for each pair of classes; got 'left:right=3'",
        ),
        (("held.npz", "--cost", "0.01", "--loss", "left:right=x"), "--loss must be a number"),
        (("held.npz", "--cost", "0.01", "--copies", "twice"), "'once', 'all'; got 'twice'"),
    ],
)
def test_invalid_arguments_print_one_line_and_keep_the_model(folder, arguments, message, refusal):
    before = (folder / "model" / "model.json").read_bytes()
    data, *rest = arguments
    assert message in refusal("fit-rule", folder / "model", folder / data, *rest)
    assert (folder / "model" / "model.json").read_bytes() == before


# Held-out scores

PREFIX = ("--model", "prefix", "--set", "kernels=16")


def test_held_out_scores_of_training_replace_data(run, folder):
    model = folder / "crossed"
    run("train", folder / "train.npz", "-o", model, *PREFIX, "--held-out-scores")
    printed = run("fit-rule", model, "--cost", 0.01, "-o", folder / "crossed-line")
    assert "on held-out scores of 200 series accuracy" in " ".join(printed.split())
    data = sw.datasets.read(folder / "train.npz")
    expected = sw.EarlyClassifier(sw.models.Prefix(kernels=16)).fit(data.X, data.y).fit_rule(cost=0.01)
    assert sw.load(folder / "crossed-line").rule_ == expected.rule_
    # The scores stay in the folder, also after a calibration.
    run("calibrate", folder / "crossed-line", folder / "held.npz", "--error-rate", 0.3)
    run("fit-rule", folder / "crossed-line", "--mean-time", 3)
    assert sw.load(folder / "crossed-line").rule_ == expected.fit_rule(mean_time=3).rule_


def test_without_data_and_held_out_scores_the_error_says_what_to_do(run, refusal, folder):
    run("train", folder / "train.npz", "-o", folder / "plain", *PREFIX)
    message = refusal("fit-rule", folder / "plain", "--cost", 0.01)
    assert "this Prefix was saved without the held-out scores of its training series" in message
    message = refusal("fit-rule", folder / "model", "--cost", 0.01)
    assert "this Accumulator has no held-out scores" in message


def test_a_model_without_held_out_scores_is_trained_and_saved_with_a_warning(run, folder):
    options = (
        "--model",
        "accumulator",
        "--set",
        "order=0",
        "--set",
        "training.max_epochs=1",
        "--set",
        "polish=false",
    )
    with pytest.warns(UserWarning, match="--held-out-scores has no effect: this Accumulator has no held-out"):
        run("train", folder / "train.npz", "-o", folder / "network", *options, "--held-out-scores")
    assert not sw.load(folder / "network").has_held_out_scores


def test_cross_fitting_never_splits_a_group(run, folder):
    # Every group has its own level and a random label: only a series of the same group gives the label away.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 4)
    y = rng.integers(0, 2, 100)[groups]
    X = 10 * rng.normal(size=(100, 1, 3))[groups] + rng.normal(size=(400, 8, 3))
    order = rng.permutation(400)
    np.savez(folder / "grouped.npz", X=X[order], y=y[order], person=groups[order])
    accuracy = {}
    for name, option in (("whole", ("--groups", "person")), ("split", ())):
        run("train", folder / "grouped.npz", "-o", folder / name, *PREFIX, "--held-out-scores", *option)
        scores, classes, _ = sw.load(folder / name)._held_out
        accuracy[name] = (scores[:, -1].argmax(1) == classes).mean()
    assert accuracy["split"] > 0.8
    assert accuracy["whole"] < 0.65  # three standard deviations of chance, for 100 groups
