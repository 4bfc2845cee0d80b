"""Fits that are killed at random moments, order search and polish included, end like uninterrupted ones."""

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path

import numpy as np
import torch

import stopwise as sw

X, y, _ = sw.datasets.autoregressive(n=300, channels=2, length=12, seed=0)

def work(checkpoint, out):
    training = sw.models.Training(max_epochs=4, batch_size=50)
    clf = sw.EarlyClassifier(sw.models.Accumulator(hidden=8, training=training), progress=False)
    clf.fit(X, y, checkpoint=checkpoint)
    weights = {name: value.numpy() for name, value in clf.model_.tensors().items()}
    np.savez(out, order=-1 if clf.model_.order_ is None else clf.model_.order_, **weights)

folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
work(None, folder / "alone.npz")  # before the forks, so that children inherit what is loaded on first use
clock, kills, run = random.Random(0), 0, 0
while kills < wanted:
    checkpoint, out, here = folder / f"checkpoint{run}", folder / f"killed{run}.npz", 0
    while not out.exists():
        child = os.fork()
        if not child:
            try:
                work(checkpoint, folder / "part.npz")
                os.rename(folder / "part.npz", out)
            finally:
                os._exit(0)
        # Increase the time with each kill, so that some progress is made even on a slow machine.
        deadline = time.monotonic() + clock.uniform(0.0, 0.1 + 0.05 * here)
        while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        if time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills, here = kills + 1, here + 1
    run += 1
print(kills, run)
"""


@pytest.mark.parametrize("wanted", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_fits_equal_an_uninterrupted_one(tmp_path, wanted):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    kills, runs = map(int, done.stdout.split())
    print(f"\n{kills} kills in {runs} fits")
    assert kills >= wanted
    with np.load(tmp_path / "alone.npz") as alone:
        for run in range(runs):
            with np.load(tmp_path / f"killed{run}.npz") as killed:
                assert alone.files == killed.files
                for name in alone.files:
                    np.testing.assert_array_equal(alone[name], killed[name])
