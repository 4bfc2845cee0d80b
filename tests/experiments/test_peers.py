"""Peers: what is passed to their environment and back. A small script stands for aeon."""

import sys
from pathlib import Path

import numpy as np
import pytest

from stopwise.datasets import gaussian
from stopwise.experiments import peer_worker, peers, real

STUB = """
import json, sys
import numpy as np
arrays = np.load(sys.argv[1], allow_pickle=False)
settings = json.loads(str(arrays["settings"]))
if settings["seed"] == 13:
    raise RuntimeError("unlucky")
n = len(arrays["X_test"])
assert arrays["X_train"].shape[1:] == arrays["X_test"].shape[1:]
json.dump({"labels": [0] * n, "times": [settings["points"][-1]] * n, "fit_seconds": 1.0,
           "decision_seconds": 2.0, "versions": settings}, open(sys.argv[2], "w"))
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Use this Python as the environment of the peers, and a script without aeon in place of the worker."""
    script = tmp_path / "worker.py"
    script.write_text(STUB)
    monkeypatch.setattr(peer_worker, "__file__", str(script))
    monkeypatch.setenv(peers.VARIABLE, sys.executable)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    X, y, _ = gaussian(n=60, classes=3, offset=2.0, channels=3, length=20, seed=0)
    lengths = np.random.default_rng(0).integers(12, 21, 60)
    parts = {"X_train": X, "y_train": y, "len_train": lengths, "X_test": X, "y_test": y, "len_test": lengths}
    np.savez(tmp_path / "toy.npz", **parts)
    monkeypatch.setenv("STOPWISE_DATA", str(tmp_path))
    real.ready.cache_clear()
    return y, lengths


def test_points_are_equidistant_and_not_before_the_shortest(environment):
    X, y = np.zeros((4, 40, 2), np.float32), np.array([0, 1, 0, 1])
    answer = peers.ask("TEASER", X, y, X, points=8, seed=3)
    settings = answer["versions"]
    assert settings == {
        "peer": "TEASER", "points": [9, 10, 15, 20, 25, 30, 35, 40], "kernels": 2000, "seed": 3
    }  # fmt: skip
    assert answer["times"] == [40] * 4


def test_decisions_after_the_end_count_at_the_end(environment, toy):
    y, lengths = toy
    result = peers.run_peer({"name": "toy"}, peers.PEERS[0], 0)
    own = result["points"]["own"]
    assert own["mean_time"] == pytest.approx(lengths.mean())
    assert own["earliness"] == 1
    assert own["accuracy"] == pytest.approx((y == 0).mean())
    assert result["fit_seconds"] == 1.0


def test_failure_of_the_peer_is_reported(environment):
    X, y = np.zeros((4, 40, 2), np.float32), np.array([0, 1, 0, 1])
    with pytest.raises(RuntimeError, match=r"TEASER failed in its environment .*unlucky"):
        peers.ask("TEASER", X, y, X, points=8, seed=13)
    with pytest.raises(ValueError, match="at least 9 steps; these have 8"):
        peers.ask("TEASER", X[:, :8], y, X[:, :8], points=8, seed=0)


def test_missing_environment_raises(monkeypatch, tmp_path):
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    X, y = np.zeros((4, 40, 2), np.float32), np.array([0, 1, 0, 1])
    with pytest.raises(FileNotFoundError, match="Create it with `make peers`"):
        peers.ask("TEASER", X, y, X, points=8, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["TEASER", "ProbThreshold"])
def test_aeon_decides_within_the_series(peer, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    if peers.python() is None:
        pytest.skip("needs the environment of `make peers`")
    X, y, _ = gaussian(n=60, classes=2, offset=2.0, channels=2, length=20, seed=0)
    answer = peers.ask(peer, X[:40], y[:40], X[40:], points=3, seed=0)
    assert (np.array(answer["labels"]) == y[40:]).mean() > 0.7
    assert set(answer["times"]) <= {9, 13, 20}
