"""The archive benchmark on small datasets: data, runs, order, tables and the command."""

import json
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from stopwise import plots
from stopwise.cli import app
from stopwise.datasets import gaussian
from stopwise.experiments import peers
from stopwise.experiments.archive import benchmark, data, report, runs
from stopwise.experiments.real import Part
from stopwise.experiments.result_file import read_records
from stopwise.models import Prefix


def save(path, n=45, length=12, **more):
    X, y, _ = gaussian(n=n, classes=3, offset=2.0, channels=3, length=length, seed=0)
    X_test, y_test, _ = gaussian(n=40, classes=3, offset=2.0, channels=3, length=length, seed=1)
    np.savez(path, X_train=X, y_train=y, X_test=X_test, y_test=y_test, **more)
    return X, y


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a data folder with "one" in it and "two", of unequal lengths and with groups, in its subfolder."""
    (tmp_path / "archive").mkdir()
    save(tmp_path / "one.npz")
    rng = np.random.default_rng(0)
    save(
        tmp_path / "archive" / "two.npz",
        n=60,
        len_train=rng.integers(8, 13, 60),
        len_test=rng.integers(8, 13, 40),
        group_train=np.arange(60) // 3,
    )
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)  # there is no environment of the peers here
    for method in ("default", "prefix"):  # a small model: these tests are about the benchmark
        monkeypatch.setitem(runs.METHODS, method, partial(runs._ours, Prefix(kernels=64)))
    return tmp_path


def test_parts_are_official_and_groups_stay_with_their_series(folder):
    found = data.prepared("two")
    assert (len(found.train.y), len(found.test.y), found.classes) == (60, 40, 3)
    assert found.groups.tolist() == (np.arange(60) // 3).tolist()
    assert found.steps == 12
    assert found.train.lengths.min() == 8
    fewer = data.prepared("two", most=30)
    assert 29 <= len(fewer.train.y) <= 31
    assert len(fewer.test.y) == 40
    for series, group in zip(fewer.train.X, fewer.groups):
        [row] = [i for i, x in enumerate(found.train.X) if x.shape == series.shape and (x == series).all()]
        assert found.groups[row] == group


def test_sizes_come_from_the_header(folder):
    assert data.numbers("one") == 45 * 12 * 3
    assert data.find("two") == folder / "archive" / "two.npz"
    with pytest.raises(FileNotFoundError, match=r"there is no three\.npz in"):
        data.numbers("three")


def test_sets_of_the_benchmark_are_32_and_8():
    assert len(data.ARCHIVE) == 32
    assert len(data.SETS) == 40


def test_metrics_follow_their_definitions():
    part = Part(
        [np.zeros((10, 1)), np.zeros((5, 1)), np.zeros((10, 1)), np.zeros((4, 1))], np.array([0, 1, 1, 0])
    )
    found = data.Prepared(part, part, None, 2)
    outcome = runs.Outcome(np.array([0, 1, 0, 0]), np.array([1, 5, 5, 1]), 2.0, 0.4)
    result = runs.metrics(outcome, found)
    early = (0.1 + 1 + 0.5 + 0.25) / 4
    assert result["accuracy"] == 0.75
    assert result["macro_error"] == 0.25
    assert result["earliness"] == pytest.approx(early)
    assert result["cost"] == pytest.approx(0.25 + early)
    assert result["average_cost_0.5"] == pytest.approx((0.25 + early) / 2)
    assert result["average_cost_0.8"] == pytest.approx(0.8 * 0.25 + 0.2 * early)
    assert result["harmonic_mean"] == pytest.approx(2 * 0.75 * (1 - early) / (1.75 - early))
    assert result["ausat"] is None
    assert result["decision_seconds_per_series"] == pytest.approx(0.1)


def test_scores_between_prefixes_are_held_and_prefixes_beyond_the_end_count_there():
    p = np.array([[[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]]] * 2)
    scores = runs.held_scores(p, np.array([2, 4, 6]), np.array([0.5, 0.5]), np.array([6, 5]))
    lead = scores[..., 0] - scores[..., 1]
    four = np.log(4)
    np.testing.assert_allclose(lead[0], [0, 0, 0, four, four, -np.log(9)], atol=1e-12)
    np.testing.assert_allclose(lead[1, :5], [0, 0, 0, four, -np.log(9)], atol=1e-12)
    assert np.isnan(lead[1, 5])


def test_small_sets_and_telling_methods_come_first_and_networks_skip_large_sets(folder):
    sizes = benchmark.Sizes(seeds=2, largest=1e9, network=2000, most={"CALIMERA": 7})
    jobs = benchmark.plan(["two", "one"], ["default", "CALIMERA", "accumulator"], sizes)
    assert [job.name for job in jobs] == [
        "one/default/0", "one/CALIMERA/0", "two/default/0", "two/CALIMERA/0", "one/accumulator/0",
        "one/default/1", "two/default/1",
    ]  # fmt: skip
    assert jobs[1].arguments == {"data": "one", "method": "CALIMERA", "seed": 0, "most": 7}


def test_benchmark_is_written_and_finished_runs_are_not_repeated(folder, tmp_path, monkeypatch):
    def reproduce():
        with pytest.warns(UserWarning, match="TEASER and probability threshold not run: .*make peers"):
            return benchmark.reproduce(
                "quick",
                tmp_path / "out",
                sets=["one", "two"],
                methods=["default", "prefix", "CALIMERA", "accumulator", "TEASER", "probability threshold"],
                repeats=2,
                workers=1,
                progress=False,
                isolated=False,
            )

    pictures = reproduce()
    assert [path.name for path in pictures] == ["archive-cost-quick.png", "archive-ranks-quick.png"]
    path = tmp_path / "out" / "archive-quick.jsonl"
    records = read_records(path)
    assert len(records) == 2 * (2 + 1 + 1)  # the prefix model is the default here, and not run again
    before = path.read_bytes()
    monkeypatch.setattr(plots, "save", lambda figure, stem: [stem])  # drawing is slow
    reproduce()
    assert path.read_bytes() == before
    table = json.loads((tmp_path / "out" / "archive-quick.json").read_text())
    own = [records[f"two/default/{seed}"]["result"] for seed in (0, 1)]
    found = table["sets"]["two"]["default"]
    assert found["cost"] == pytest.approx(np.mean([one["cost"] for one in own]), abs=1e-6)
    assert (found["n_train"], found["T"], found["d"], found["K"], found["runs"]) == (60, 12, 3, 3, 2)
    assert own[0]["accuracy"] > 0.8
    assert 0 < own[0]["ausat"] < 0.5
    text = (tmp_path / "out" / "archive-quick.md").read_text()
    assert "mean ratio of the cost to CALIMERA's" in text
    assert "make peers" in text
    assert "## two" in (tmp_path / "out" / "archive-quick-sets.md").read_text()


def test_failed_runs_are_reported_and_run_again(folder, tmp_path, monkeypatch):
    arguments = {"sets": ["one"], "methods": ["CALIMERA"], "workers": 1, "progress": False, "isolated": False}

    def fail(found, seed):
        raise ValueError("no luck")

    with monkeypatch.context() as patch:
        patch.setitem(runs.METHODS, "CALIMERA", fail)
        benchmark.reproduce("quick", tmp_path / "out", **arguments)
    assert "one/CALIMERA/0 failed: ValueError: no luck" in (tmp_path / "out" / "archive-quick.md").read_text()
    benchmark.reproduce("quick", tmp_path / "out", **arguments)
    table = json.loads((tmp_path / "out" / "archive-quick.json").read_text())
    assert table["sets"]["one"]["CALIMERA"]["cost"] < 1


def test_features_of_nosaic_mnist_are_computed_after_all_other_jobs(folder, tmp_path, monkeypatch):
    order = []
    outcome = runs.Outcome(np.zeros(40, int), np.ones(40, int), 1.0, 1.0)

    def method(found, seed):
        order.append(len(found.train.y))
        return outcome

    prepared = data.prepared
    monkeypatch.setattr(runs, "prepared", lambda name, most: prepared("two" if name == data.NOSAIC else name))
    monkeypatch.setattr(data, "numbers", lambda name: 1 if name == data.NOSAIC else 10)
    monkeypatch.setattr(benchmark.nosaic, "features", lambda progress: order.append("features"))
    monkeypatch.setitem(runs.METHODS, "CALIMERA", method)
    arguments = {"methods": ["CALIMERA"], "workers": 1, "progress": False, "isolated": False}
    benchmark.reproduce("quick", tmp_path / "out", sets=[data.NOSAIC, "one"], **arguments)
    assert order == [45, "features", 60]


def rows(**costs):
    """Return a row of the table with these costs."""
    return {
        method.replace("_", " "): {
            "cost": cost, "harmonic_mean": 1 - cost, "n_train": 100, "T": 10, "d": 1, "K": 2, "ausat": None,
            "fit_seconds": 5.0, "cost_sd": None,
        }
        for method, cost in costs.items()
    }  # fmt: skip


def test_summary_counts_wins_and_finds_the_worst_ratio():
    table = {
        "A": rows(default=0.2, CALIMERA=0.4, TEASER=0.5, prefix=0.1),
        "B": rows(default=0.3, CALIMERA=0.3, TEASER=0.2),
        "C": rows(default=0.4, prefix=0.5),
    }
    summary = report.summarize(table)
    one = summary["against"]["CALIMERA"]
    assert (one["datasets"], one["lower_cost"], one["mean_ratio"]) == (2, 1, 0.75)
    assert one["losses"] == {"B": 1.0}
    assert summary["against"]["TEASER"]["higher_harmonic_mean"] == 1
    assert summary["to_the_better"] == {
        "A": {"ratio": 2.0, "of": "prefix"}, "B": {"ratio": 1.0, "of": "CALIMERA"},
        "C": {"ratio": 0.8, "of": "prefix"},
    }  # fmt: skip
    met = {what.split(",")[0]: yes for what, _, _, yes in report.bars(table, summary)}
    assert met == {
        "costs less than CALIMERA": False,
        "mean ratio of the cost to CALIMERA's": True,
        "harmonic mean above TEASER's": False,
        "largest ratio to the better of CALIMERA and our single models": False,
        "longest fit of at most 10⁶ numbers": True,
    }
    table["A"]["default"]["n_train"] = 50
    assert list(report.summarize(table)["to_the_better"]) == ["B", "C"]


def test_ranks_use_datasets_that_all_frequent_methods_were_run_on():
    table = {
        "A": rows(default=0.2, CALIMERA=0.4, TEASER=0.5),
        "B": rows(default=0.3, CALIMERA=0.3),
        "C": rows(default=0.4, CALIMERA=0.5),
        "D": rows(default=0.4),
    }
    assert report.complete_costs(table) == {"default": [0.2, 0.3, 0.4], "CALIMERA": [0.4, 0.3, 0.5]}


def test_command_passes_names_separated_by_commas(tmp_path, monkeypatch):
    import stopwise.experiments.archive as package

    calls = []
    monkeypatch.setattr(package, "reproduce", lambda *args, **kwargs: calls.append((args, kwargs)) or [])
    command = ["reproduce", "archive", "--preset", "full", "--out", str(tmp_path), "--jobs", "2"]
    result = CliRunner().invoke(app, [*command, "--sets", "A, B", "--sets", "C", "--methods", "prefix"])
    assert result.exit_code == 0, result.output
    [(args, kwargs)] = calls
    assert args == ("full", tmp_path)
    assert (kwargs["sets"], kwargs["methods"], kwargs["workers"]) == (["A", "B", "C"], ["prefix"], 2)
    assert CliRunner().invoke(app, ["reproduce", "archive", "--preset", "paper"]).exit_code != 0
    result = CliRunner().invoke(app, ["reproduce", "fig1", "--sets", "A"])
    assert "can only be used with archive" in result.output


def test_the_prefix_model_is_not_fitted_again_where_the_default_kept_it(folder):
    jobs = benchmark.plan(["one"], ["default", "prefix"], benchmark.PRESETS["full"], repeats=2)
    found = {"one/default/0": {"kept": {"prefix": 1.0}}, "one/default/1": {"kept": {"accumulator": 1.0}}}
    same = benchmark.same_as_default(jobs, found)
    assert same == {"one/prefix/0": found["one/default/0"]}
