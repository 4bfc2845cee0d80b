"""Figure 4: an end-to-end run on a small dataset, and its parts."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise.cli import app
from stopwise.datasets import gaussian, japanese_vowels
from stopwise.experiments import fig4, operating, protocols, real, real_runs, score_average
from stopwise.experiments.result_file import read_records
from stopwise.metrics import summarize
from stopwise.rules import SPRT, FixedTime

TINY = protocols.Sizes(trials=1, repeats=2, peer_repeats=0, epochs=0.02, most=None, cheap=True)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Save a dataset "toy" with three classes, unequal lengths and groups; return its training part."""
    X, y, _ = gaussian(n=90, classes=3, offset=2.0, channels=3, length=12, seed=0)
    X_test, y_test, _ = gaussian(n=45, classes=3, offset=2.0, channels=3, length=12, seed=1)
    lengths = np.random.default_rng(0).integers(8, 13, 90)
    np.savez(
        tmp_path / "toy.npz",
        X_train=X,
        y_train=y,
        len_train=lengths,
        group_train=np.arange(90) // 3,
        X_test=X_test,
        y_test=y_test,
        len_test=np.full(45, 12),
    )
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    real.ready.cache_clear()
    return X, y, lengths


@pytest.mark.slow
def test_figure_is_drawn_and_finished_runs_are_not_repeated(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(protocols.PRESETS, "quick", TINY)
    command = ["reproduce", "fig4", "--data", "toy", "--out", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "fig4-toy-quick.png").exists()
    results = (tmp_path / "toy-quick.jsonl").read_bytes()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "toy-quick.jsonl").read_bytes() == results
    records = read_records(tmp_path / "toy-quick.jsonl")
    assert len(records) == len(fig4.MODELS) * (1 + TINY.repeats) + TINY.repeats  # and the score average
    table = json.loads((tmp_path / "fig4-toy-quick.json").read_text())
    runs = [records[f"accumulator_{i}"]["result"] for i in (0, 1)]
    assert table["ausat"]["accumulator"]["mean"] == pytest.approx(
        np.mean([run["ausat"] for run in runs]), abs=1e-5
    )
    assert table["error_at"]["accumulator"] == [run["error_at"] for run in runs]
    assert table["points"]["accumulator, SPRT"]["runs"] == 2


@pytest.mark.parametrize(("p", "title"), [(0.01, "shaded where"), (0.05, "no proposed model beats")])
def test_title_says_whether_a_proposed_model_is_ahead(p, title):
    table = {
        "times": [1.0, 2.0],
        "error_at": {model: [[0.3, 0.2], [0.4, 0.1]] for model in fig4.MODELS},
        "p": {model: [1.0, p] for model in fig4.PROPOSED},
        "best": "accumulator",
        "fixed_time": [0.3, 0.2],
        "points": {},
    }
    figure = fig4._figure("toy", table)
    assert figure.get_suptitle().startswith(f"toy: {title}")


@pytest.mark.parametrize(
    ("curves", "rise"), [([[0.5, 0.3], [0.4, 0.2]], 0.0), ([[0.5, 0.2, 0.4], [0.5, 0.2, 0.2]], 0.1)]
)
def test_largest_rise_is_that_of_the_mean_curve(curves, rise):
    assert fig4._largest_rise(curves) == pytest.approx(rise)


def test_peers_can_be_left_out(toy, tmp_path, monkeypatch):
    """Otherwise medium sizes need aeon."""
    monkeypatch.setitem(protocols.PRESETS, "quick", replace(TINY, peer_repeats=1, repeats=1))
    monkeypatch.setattr(fig4, "run_peer", None)
    monkeypatch.setattr(fig4, "MODELS", {name: fig4.MODELS[name] for name in ("TANDEM-LLLR", "accumulator")})
    command = ["reproduce", "fig4", "--data", "toy", "--out", str(tmp_path), "--workers", "1"]
    assert CliRunner().invoke(app, command).exit_code == 1
    result = CliRunner().invoke(app, [*command, "--no-peers"])
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / "fig4-toy-quick.json").read_text())
    assert not set(fig4.PEERS) & set(table["points"])


def test_changed_plan_runs_all_jobs_again(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(protocols.PRESETS, "quick", TINY)
    fig4.reproduce("quick", tmp_path, data="toy", workers=1, progress=False)
    monkeypatch.setitem(real.PLANS, "toy", real.Plan(stride=3))
    fig4.reproduce("quick", tmp_path, data="toy", workers=1, progress=False)
    table = json.loads((tmp_path / "fig4-toy-quick.json").read_text())
    assert table["times"][-1] == 4  # 12 samples with stride 3


def test_fig4_needs_data_and_other_figures_reject_it():
    for command in (["fig4"], ["fig1", "--data", "toy"]):
        result = CliRunner().invoke(app, ["reproduce", *command])
        assert result.exit_code == 2
        assert "fig4 needs --data NAME" in result.output


def test_parts_are_split_by_group_and_series_have_no_padding(toy):
    X, y, lengths = toy
    found = real.ready("toy")
    assert found.classes == 3
    assert len(found.train.y) + len(found.validation.y) == 90
    row_of = {x[0].tobytes(): i for i, x in enumerate(X.astype(np.float32))}
    rows = {
        part: [row_of[x[0].tobytes()] for x in getattr(found, part).X] for part in ("train", "validation")
    }
    assert not {row // 3 for row in rows["train"]} & {row // 3 for row in rows["validation"]}
    for row, x, label in zip(rows["train"], found.train.X, found.train.y):
        assert len(x) == lengths[row]
        assert label == y[row]


def test_stride_subsamples_series(toy):
    _, _, lengths = toy
    found = real.ready("toy", stride=3)
    all_lengths = np.concatenate([found.train.lengths, found.validation.lengths])
    assert sorted(all_lengths) == sorted(np.ceil(lengths / 3).astype(int))
    assert found.steps == 4


def test_skeletons_are_relative_to_the_hip():
    X = np.random.default_rng(0).normal(size=(2, 5, 60)).astype(np.float32)
    moved = X + np.tile([1.0, -2.0, 3.0], 20)
    assert np.allclose(real.from_hip(X), real.from_hip(moved), atol=1e-5)
    assert (real.from_hip(X)[..., real.HIP] == 0).all()


def test_chosen_rule_has_the_highest_harmonic_mean():
    _, y, scores = gaussian(n=200, classes=3, offset=1.0, channels=3, length=10, seed=0)
    lengths = np.full(200, 10)
    rules = operating.candidates(scores, y, lengths)
    for kind in rules:
        chosen = operating.pick(rules[kind], scores, y, lengths)
        best = max(summarize(rule.decide(scores), y, 3)["harmonic_mean"] for rule in rules[kind])
        assert summarize(chosen.decide(scores), y, 3)["harmonic_mean"] == best
    assert isinstance(rules["SPRT"][0], SPRT)


def test_average_cost_weights_errors_and_earliness_equally():
    decisions = FixedTime(2).decide([[[1.0, 0.0]] * 8] * 4)
    metrics = operating.metrics(decisions, np.array([0, 0, 0, 1]), 2)
    assert metrics["average_cost"] == pytest.approx((0.25 + 0.25) / 2)


def test_diverged_run_is_reported(toy):
    settings = {"model": "b2bsqrt", "order": 0, "training.learning_rate": 1e30, "polish": False}
    assert "diverged" in real_runs.run({"name": "toy"}, settings, epochs=3, repeat=0)


def test_fixed_time_errors_are_macro_errors_at_these_steps():
    _, y, scores = gaussian(n=50, offset=1.0, channels=2, length=6, seed=0)
    lengths = np.full(50, 6)
    errors = real_runs._fixed_times(scores, y, lengths, np.array([1.0, 6.0]))
    wrong = (scores.argmax(2) != y[:, None])[:, [0, 5]]
    macro = [np.mean([column[y == k].mean() for k in (0, 1)]) for column in wrong.T]
    assert errors == pytest.approx(macro)


# The protocol of the paper


@pytest.mark.slow
def test_protocol_of_the_paper_fixes_order_and_hidden_size(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(protocols.PAPER_PRESETS, "quick", TINY)
    command = ["reproduce", "fig4", "--data", "toy", "--out", str(tmp_path), "--workers", "1"]
    command += ["--protocol", "paper", "--export", str(tmp_path / "scores")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / "fig4-toy-quick-paper-protocol.json").read_text())
    for model, settings in table["settings"].items():
        assert settings["order"] == 10, model
        assert settings.get("hidden", protocols.HIDDEN) == protocols.HIDDEN
        assert settings.get("llre_ratio", 0.5) >= 0.4
    assert len(table["error_at"]["score average"]) == 2
    with np.load(tmp_path / "scores" / "toy-quick-paper-protocol_score average_0.npz") as exported:
        assert exported["scores"].shape == (45, 12, 3)


def test_published_space_is_searched_with_the_same_budget():
    for preset, least in (("medium", 20), ("paper", 100)):
        sizes = protocols.sizes_of("paper", preset)
        assert sizes.trials >= least
        assert not sizes.cheap
    spaces = {name: protocols.space("paper", name, 50) for name in ("tanh", "b2bsqrt", "tandemformer")}
    for space in spaces.values():
        assert space["training.learning_rate"] == [1e-4, 1e-3, 1e-2]
        assert space["training.weight_decay"] == [0.0, 1e-5, 1e-4, 1e-3]
        assert (space["dropout"], space["llre_ratio"]) == ((0.0, 0.4), (0.4, 1.0))
    assert spaces["tandemformer"]["heads"] == (1, 3)
    for model, space in spaces.items():
        assert not set(space) & set(protocols.fixed("paper", model, protocols.sizes_of("paper", "medium")))


def test_interrupted_search_resumes_from_its_study(toy, tmp_path, monkeypatch):
    arguments = {"data": {"name": "toy"}, "settings": {"model": "tanh", "order": 10, "polish": False}}
    arguments |= {"trials": 2, "epochs": 1, "protocol": "paper", "studies": str(tmp_path / "studies.db")}
    first = real_runs.search(**arguments)
    assert len(first["trials"]) == 2

    def never(*_, **__):
        raise AssertionError("a finished trial is repeated")

    monkeypatch.setattr("stopwise.estimator.EarlyClassifier.fit", never)
    assert real_runs.search(**arguments)["best"] == first["best"]


# The score average


class Frames:
    """Classifier of single samples whose probabilities are those of their first channels; no class 1."""

    classes_ = np.array([0, 2])

    def predict_proba(self, x):
        p = 1 / (1 + np.exp(-x[:, 0]))
        return np.stack([p, 1 - p], axis=1)


def test_score_average_is_the_mean_of_probabilities_so_far():
    rng = np.random.default_rng(0)
    part = real.Part([rng.normal(size=(length, 2)) for length in (4, 1, 3)], np.array([0, 2, 2]))
    scores = score_average.average_scores(Frames(), part, classes=3)
    assert scores.shape == (3, 4, 3)
    for i, x in enumerate(part.X):
        for t in range(len(x)):
            means = np.mean([Frames().predict_proba(x[[s]])[0] for s in range(t + 1)], axis=0)
            assert np.exp(scores[i, t, [0, 2]]) == pytest.approx(means)
            assert np.exp(scores[i, t, 1]) < 1e-300
        assert np.isnan(scores[i, len(x) :]).all()


def test_score_average_learns_from_single_samples(toy):
    result = score_average.run_average({"name": "toy"}, 0)
    assert result["error_at"][-1] < 0.1
    assert result["error_at"][-1] < result["error_at"][0]
    assert set(result["points"]) == {"SPRT", "MaxProbability", "FixedTime"}


def test_shipped_data_are_padded_and_complete():
    train, test = japanese_vowels()
    found = real.ready("japanese_vowels")
    assert found.classes == 9
    assert [len(x) for x in found.test.X] == [len(x) for x in test.X]
    assert all((one == other).all() for one, other in zip(found.test.X, test.X))
    assert (np.unique(train.y)[found.test.y] == test.y).all()
    assert len(found.train.y) + len(found.validation.y) == len(train.y)
