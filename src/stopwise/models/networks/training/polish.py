"""Polishing: optimization of the last linear layer of a trained network.

LSEL and the multiplet loss are convex in the weights of the last layer. LLLR is not convex; for it, polishing
finds a local optimum and keeps it if the validation loss is lower.

First-order training underestimates the scale of large evidence. A quasi-Newton method on the whole training
set finds the optimum in few passes, because it uses coordinates in which the curvature of the loss is
approximately the same in all directions. A ridge penalty, chosen on validation data, reduces overfitting on
small data sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stopwise.data.examples import Examples
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.convex import Loss, Remembered, fit_ridge
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.readout import ReadoutProblem, read_parameters, write_parameters
from stopwise.progress import Reporter, Stages

# From strong to weak. Each optimization starts from the optimum of the previous ridge penalty.
RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)
FEW_RIDGES = (1e-3, 1e-5)  # for comparisons of models
POLISHING = "polishing"  # title of its progress
# Limits of the optimizations that compare ridge penalties, and of the last one, with the best penalty: number
# of passes over the data, and relative decrease of the loss below which an optimization stops.
COMPARING = {"passes": 12, "tolerance": 1e-4}
FINISHING = {"passes": 40, "tolerance": 1e-7}
COMPARED = 8000  # largest number of series on which penalties are compared


def polish(
    net: Integrator,
    task: Task,
    *,
    ridges: Sequence[float] | None = None,
    brief: bool = False,
    progress: bool | str | Stages = False,
) -> dict[str, Any]:
    """Polish the last linear layer of a trained network in place.

    Parameters
    ----------
    net
        The network. Its `readout` is optimized.
    task
        Task on which the network was trained. Without a validation set, the second to last ridge penalty is
        used and the result is always kept.
    ridges
        Candidate ridge penalties, the strongest first. None means `RIDGES`, or `FEW_RIDGES` if `brief`.
    brief
        Whether to keep the best candidate without a last, more exact optimization.
    progress
        As for `Reporter`; or `Stages` with a stage named `POLISHING`.

    Returns
    -------
    report
        With a validation set: `inputs`, `ridge`, and the validation loss before and after polishing,
        `validation_loss_before` and `validation_loss`. `inputs` is "samples" if the samples alone, without
        the learned features, are best, and "all" otherwise. `inputs` and `ridge` are None if no candidate is
        better than the trained layer. Without a validation set: `ridge` only.
    """
    if ridges is None:
        ridges = FEW_RIDGES if brief else RIDGES
    train_set, validation_set = task.train_set, task.validation_set
    net.eval()
    problem = ReadoutProblem(net, task)
    fit = _Fit(problem, train_set)
    start = read_parameters(net.readout)
    begin = fit.beginning(start)
    if validation_set is None:
        fitted = fit.optimum(_better_start(problem, begin, train_set), ridges[-2], FINISHING)
        write_parameters(net.readout, fitted)
        return {"ridge": ridges[-2]}
    before = problem.value(start, validation_set)
    # Penalties are compared on a part of many series. The best one is inversely proportional to their number.
    part = train_set.sample(COMPARED, task.seed)
    compared, share = _Fit(problem, part) if len(part) < len(train_set) else fit, len(part) / len(train_set)
    # If the evidence is linear in the samples, learned features only add noise.
    kept = ({"samples": net.n_skip_inputs + 1} if net.n_skip_inputs else {}) | {"all": len(start)}
    trained = best = _Choice(start, None, None, before)
    if share < 1:
        # The trained layer has seen all series: it may be better than fits to a part, but worse than to all.
        best = best._replace(loss=np.inf)
    total = len(kept) * len(ridges) + 1
    reporter = (
        progress.stage(POLISHING, total)
        if isinstance(progress, Stages)
        else Reporter(POLISHING, total, progress)
    )
    with reporter:
        for name, rows in kept.items():
            fitted, lowest = _better_start(problem, begin[-rows:], validation_set), np.inf
            for ridge in ridges:
                fitted = compared.optimum(fitted, ridge, COMPARING)
                loss = problem.value(fitted, validation_set)
                reporter.advance(f"{name} · ridge {ridge:g} · validation {loss:.4g}")
                best = min(best, _Choice(fitted, name, ridge, loss), key=lambda choice: choice.loss)
                if loss > lowest:
                    break  # weaker ridge penalties fit noise
                lowest = loss
        if best.ridge is not None and not brief:
            ridge = share * best.ridge
            fitted = fit.optimum(best.parameters, ridge, FINISHING)
            best = best._replace(parameters=fitted, ridge=ridge, loss=problem.value(fitted, validation_set))
        best = min(trained, best, key=lambda choice: choice.loss)
        reporter.advance(f"validation {best.loss:.4g}")
    write_parameters(net.readout, _padded(best.parameters, len(start)))
    return {
        "inputs": best.inputs,
        "ridge": best.ridge,
        "validation_loss_before": before,
        "validation_loss": best.loss,
    }


def polish_work(net: Integrator, batch_size: int, steps: int) -> int:
    """Return the approximate number of multiplications of one operation of the polish."""
    return batch_size * steps * net.readout.weight.numel()


class _Choice(NamedTuple):
    """Last rows (f, K) of the parameters, how they were found (None: by training), and validation loss."""

    parameters: np.ndarray
    inputs: str | None
    ridge: float | None
    loss: float


class _Fit:
    """Fits of the last layer to the training series."""

    def __init__(self, problem: ReadoutProblem, data: Examples) -> None:
        self.problem, self.data = problem, data
        self.loss: Loss = Remembered(lambda fitted: problem.loss(fitted, data))

    def beginning(self, trained: np.ndarray) -> np.ndarray:
        """Return the parameters (f, K) to begin with: the trained ones, or zeros if they are saturated."""
        curvature = self.problem.curvature(trained, self.data)
        if not curvature.any():  # all posteriors are 0 or 1, so the trained layer gives no direction
            trained = np.zeros_like(trained)
            curvature = self.problem.curvature(trained, self.data)
        if not np.isfinite(curvature).all():
            raise FloatingPointError(
                "the samples are too large for single precision, so the last layer cannot be polished. Use "
                "standardize=True, scale `X`, or set polish=False."
            )
        return trained

    def optimum(self, start: np.ndarray, ridge: float, limits: dict[str, Any]) -> np.ndarray:
        """Return the parameters (f, K) that minimize ``loss + ridge/2 · |weights|²``; the bias is free."""
        penalties = np.full(len(start), ridge)
        penalties[-1] = 0
        curvature = self.problem.curvature(start, self.data)
        return fit_ridge(self.loss, start, curvature, penalties, **limits)


def _better_start(problem: ReadoutProblem, start: np.ndarray, data: Examples) -> np.ndarray:
    """Return the trained parameters (f, K), or zeros if their loss is lower.

    If training diverged, all scores are saturated and wrong. The solver could not start there.
    """
    zeros = np.zeros_like(start)
    return min(start, zeros, key=lambda parameters: problem.value(parameters, data))


def _padded(fitted: np.ndarray, rows: int) -> np.ndarray:
    """Return parameters (rows, K) whose last rows are `fitted`; the others are 0."""
    return np.pad(fitted, ((rows - len(fitted), 0), (0, 0)))
