"""Peers: early classifiers of the library aeon, at their own operating points.

aeon does not install next to the numpy of stopwise, so the peers run in an environment of their own, which
``make peers`` creates.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.decision import Decisions
from stopwise.experiments import operating, peer_worker
from stopwise.experiments.real import Part, ready

VARIABLE = "STOPWISE_PEERS"  # the Python of the environment of the peers
LOCAL = Path(".venv-peers", "bin", "python")
# Number of equidistant decision points, each with its own classifier. The default points of TEASER are 20,
# none of them between T/2 and T.
POINTS = 8
MOST_SERIES = 2000  # largest number of series to fit on: TEASER fits six classifiers per point
SHORTEST = 9  # number of samples that MiniRocket needs before the first point
KERNELS = 2000
PEERS = ("TEASER-MiniRocket", "ProbThreshold-MiniRocket")


def run_peer(data: dict[str, Any], peer: str, repeat: int) -> dict[str, Any]:
    """Fit one of `PEERS` on at most `MOST_SERIES` training and validation series; evaluate it on test series.

    The early classifiers of aeon need series of equal length, so shorter series are padded by repeating their
    last sample. A decision after the end of a series counts as a decision at its end.
    """
    found = ready(**data)
    steps = found.steps
    X = np.concatenate([padded(found.train, steps), padded(found.validation, steps)])
    y = np.concatenate([found.train.y, found.validation.y])
    rows = np.random.default_rng(repeat).permutation(len(y))[:MOST_SERIES]
    name = peer.partition("-")[0]
    answer = ask(name, X[rows], y[rows], padded(found.test, steps), points=POINTS, seed=repeat)
    lengths = found.test.lengths
    n = len(lengths)
    decisions = Decisions(
        np.array(answer["labels"]),
        np.minimum(answer["times"], lengths),
        np.zeros(n, dtype=bool),
        np.zeros((n, found.classes)),
        lengths,
    )
    return {
        "fit_seconds": round(answer["fit_seconds"], 2),
        "decision_milliseconds": round(1000 * answer["decision_seconds"] / n, 4),
        "points": {"own": operating.metrics(decisions, found.test.y, found.classes)},
    }


def python() -> Path | None:
    """Return the Python of the environment of the peers; None if there is no such environment.

    It is given by the environment variable STOPWISE_PEERS, or is that of ``make peers`` in the current
    folder.
    """
    given = os.environ.get(VARIABLE)
    path = Path(given) if given else LOCAL
    return path.absolute() if path.is_file() else None


def ask(
    peer: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, *, points: int, seed: int
) -> dict[str, Any]:
    """Run a peer in its environment.

    Parameters
    ----------
    peer
        "TEASER" or "ProbThreshold".
    X, y
        Training series (n, T, d) of equal length, T ≥ 9, and class indices (n,).
    X_test
        Series (m, T, d) to decide.
    points
        Number of equidistant decision points.
    seed
        Random seed.

    Returns
    -------
    answer
        "labels", "times", "fit_seconds", "decision_seconds", "versions".
    """
    interpreter = python()
    if interpreter is None:
        raise FileNotFoundError(
            f"{peer} needs the environment of the peers. Create it with `make peers` and run the command "
            f"from that folder, or set {VARIABLE} to the Python of an environment with aeon."
        )
    steps = X.shape[1]
    if steps < SHORTEST:
        raise ValueError(f"{peer} needs series of at least {SHORTEST} steps; these have {steps}.")
    ends = np.linspace(0, steps, points + 1)[1:].round().astype(int)
    settings = {
        "peer": peer,
        "points": np.unique(np.maximum(ends, SHORTEST)).tolist(),
        "kernels": KERNELS,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.json")
        arrays = {"X_train": X.transpose(0, 2, 1), "y_train": y, "X_test": X_test.transpose(0, 2, 1)}
        np.savez(source, allow_pickle=False, settings=json.dumps(settings), **arrays)
        # -I: the folder of the script, which has modules with names of the standard library, is not searched.
        done = subprocess.run(
            [str(interpreter), "-I", str(Path(peer_worker.__file__)), str(source), str(target)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise RuntimeError(f"{peer} failed in its environment ({interpreter}): {reason}")
        answer: dict[str, Any] = json.loads(target.read_text())
    return answer


def padded(part: Part, steps: int) -> np.ndarray:
    """Return series (n, steps, d): longer ones are cut, shorter ones repeat their last sample.

    Examples
    --------
    >>> part = Part([np.array([[1.0], [2.0]]), np.array([[3.0], [4.0], [5.0], [6.0]])], np.array([0, 1]))
    >>> padded(part, 3)[..., 0].tolist()
    [[1.0, 2.0, 2.0], [3.0, 4.0, 5.0]]
    """
    rows = [np.minimum(np.arange(steps), len(x) - 1) for x in part.X]
    return np.stack([np.asarray(x, dtype=np.float32)[row] for x, row in zip(part.X, rows)])
