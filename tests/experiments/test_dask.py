"""Sweeps and searches on a Dask cluster of two local workers, through joblib's `parallel_config`."""

import os

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV

import stopwise as sw
from stopwise.experiments.sweep import Job, sweep

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def cluster():
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        yield client


def trained(seed):
    """Return the scores of a classifier trained with this seed, and the process that trained it."""
    X, y, _ = sw.datasets.gaussian(n=60, channels=2, length=5, seed=seed)
    model = sw.models.Accumulator(order=0, polish=False, training=sw.models.Training(max_epochs=2))
    scores = sw.EarlyClassifier(model, random_state=seed).fit(X, y).scores(X[:3])
    return {"scores": scores.tolist(), "process": os.getpid()}


def test_sweep_on_a_cluster_equals_a_local_one(cluster, tmp_path):
    jobs = [Job(f"seed {seed}", {"seed": seed}) for seed in range(4)]
    local = sweep(trained, jobs, tmp_path / "local.jsonl", title="local", workers=1, progress=False)
    with parallel_config("dask"):
        remote = sweep(trained, jobs, tmp_path / "dask.jsonl", title="dask", progress=False)
    assert list(remote) == list(local)
    for name in local:
        assert np.array_equal(remote[name]["scores"], local[name]["scores"])
    processes = {result["process"] for result in remote.values()}
    assert os.getpid() not in processes
    assert len(processes) == 2
    with parallel_config("dask"):
        again = sweep(trained, jobs, tmp_path / "dask.jsonl", title="dask", progress=False)
    assert again == remote  # read from the file: the processes are those of the first run


def test_grid_search_on_a_cluster_equals_a_local_one(cluster):
    X, y, _ = sw.datasets.gaussian(n=80, channels=2, length=5, seed=0)
    model = sw.models.Accumulator(order=0, polish=False, training=sw.models.Training(max_epochs=2))
    grid = {"model__order": [0, 1]}
    local = GridSearchCV(sw.EarlyClassifier(model), grid, cv=2).fit(X, y)
    with parallel_config("dask"):
        remote = GridSearchCV(sw.EarlyClassifier(model), grid, cv=2).fit(X, y)
    assert np.array_equal(remote.cv_results_["mean_test_score"], local.cv_results_["mean_test_score"])
