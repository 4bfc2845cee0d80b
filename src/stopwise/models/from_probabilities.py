"""A classifier of another library as a model: one copy per prefix length, cross-fitted and calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from scipy.special import log_softmax
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.base import Model, OnEpoch
from stopwise.models.prefix import calibration
from stopwise.models.prefix.folds import check_enough, fold_rows, make_folds
from stopwise.models.prefix.grid import head_shares, head_steps
from stopwise.models.prefix.heads import held, lean
from stopwise.models.step import Step
from stopwise.models.wrapped import Wrapped, check_estimator, input_shape, seeded
from stopwise.progress import Stages
from stopwise.validation import check_integer, inside, warn

MOST_LENGTHS = 16  # of the default lengths
FEWEST_SERIES = 5  # series that a copy is fitted to at least
LOWEST = 1e-9  # smallest probability; logarithms need a bound


class FromProbabilities(Model):
    """Any classifier of scikit-learn or aeon, fitted to prefixes of some lengths.

    For each length, a copy of the estimator is fitted to the first samples of the series. Its probabilities
    are calibrated on series that were left out: copies that are fitted without one of five folds predict this
    fold. So an estimator that is too confident, or does not know how often classes occur, still gives
    log-likelihood ratios that stopping rules can use. Between the lengths the scores hold.

    Series of one group (`groups` of `fit`) are left out together. The scores of left-out series are kept as
    ``held_out_scores_``. Series that are shorter than a length are not used at this length; where few are
    left, the scores lean on those of the length before.

    Streams store the samples and classify them again at each step. The classifier can be pickled, but neither
    saved nor exported: its code belongs to another library, and stopwise never reads code from a file.

    Parameters
    ----------
    estimator
        Classifier with `fit` and `predict_proba`, or `decision_function` if it has no `predict_proba`. Each
        `random_state` of it that is None is set to that of `EarlyClassifier`.
    lengths
        Prefix lengths. Before the first one the scores are 0. None: at most 16 lengths from 1 to the longest
        series, dense at the start.
    shape
        Array that the estimator receives for n prefixes of length t with C channels. "flat": (n, t·C), as
        scikit-learn expects. "channels_first": (n, C, t), as aeon expects. "auto": "channels_first" if the
        estimator, or the first step of a pipeline, is of a class of aeon or of a subclass; "flat" otherwise.

    Attributes
    ----------
    lengths_
        Prefix lengths in use.
    report_
        `estimator`: name of its class. `lengths`: prefix lengths. `series`: number of series at each length.
        `held_out_loss`: mean log loss of left-out series at each length. `calibration_penalty`. `seconds`.
    held_out_scores_
        (n, T, K) scores of the training series from fits without them.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=200, offset=1.0, channels=2, length=12, seed=0)
    >>> model = sw.models.FromProbabilities(LogisticRegression(C=0.1), lengths=[1, 2, 4, 8, 12])
    >>> clf = sw.EarlyClassifier(model).fit(X, y).fit_rule(cost=0.02)
    >>> bool(clf.score(X, y) > 0.9), bool(clf.decide(X).times.mean() < 8)
    (True, True)
    """

    cross_fits: ClassVar[bool] = True
    can_be_saved: ClassVar[bool] = False
    lengths_: list[int]

    def __init__(self, estimator: Any, lengths: Sequence[int] | None = None, shape: str = "auto") -> None:
        self.estimator = estimator
        self.lengths = lengths
        self.shape = shape

    def fit(
        self,
        examples: Examples,
        validation: Examples | None = None,
        *,
        random_state: int = 0,
        progress: bool | str = False,
        checkpoint: Path | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Fit the model; see `Model.fit`.

        Validation series are not needed and not used, and no checkpoint is written.
        """
        start = perf_counter()
        check_estimator(self.estimator)
        check_enough(examples.y, examples.classes, examples.groups)
        estimator = seeded(self.estimator, random_state)
        shape = input_shape(estimator, self.shape)
        fold = make_folds(examples.y, examples.groups)
        lengths = self._usable_lengths(examples, fold)
        x, _ = examples.read(np.arange(len(examples)))
        fits = []
        with (
            Stages({"fitting": 1.0}, progress) as stages,
            stages.stage("fitting", len(lengths)) as stage,
        ):
            for length in lengths:
                fits.append(_cross_fit(estimator, shape, x, examples, fold, length))
                stage.advance(f"{length} steps")
        self.classes_count_, self.channels_ = examples.classes, examples.channels
        self.log_prior_ = np.log(np.bincount(examples.y, minlength=examples.classes) / len(examples))
        self.lengths_ = lengths
        self.heads_, held_out, penalty = _calibrated(fits, examples, fold, self.log_prior_)
        counts = [len(fit.rows) for fit in fits]
        self.steps_, self.shares_ = _with_start(lengths, counts, len(examples))
        losses = _losses(held_out, examples.y, self.log_prior_)
        self.held_out_scores_ = self._at_every_step(held_out.astype(np.float32), examples.steps)
        self.held_out_scores_[~inside(examples.lengths, examples.steps)] = np.nan
        self.report_ = {
            "estimator": type(self.estimator).__name__,
            "lengths": lengths,
            "series": counts,
            "calibration_penalty": penalty,
            "held_out_loss": losses,
            "seconds": round(perf_counter() - start, 3),
        }
        return self

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C)."""
        due = [length for length in self.lengths_ if length <= x.shape[1]]
        found = np.empty((len(x), len(due), self.classes_count_))
        for g, length in enumerate(due):
            found[:, g] = self.heads_[g].scores(x[:, :length], self.log_prior_)
        return self._at_every_step(found, x.shape[1])

    def last_scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, K) after the last sample of series x (B, T, C).

        Only the copies that these scores depend on predict.
        """
        found, share = np.zeros((len(x), self.classes_count_)), 1.0
        offset = len(self.steps_) - len(self.lengths_)  # 1 if the scores are 0 before the first length
        for g in reversed(range(sum(length <= x.shape[1] for length in self.lengths_))):
            own = self.shares_[g + offset]
            found += share * own * self.heads_[g].scores(x[:, : self.lengths_[g]], self.log_prior_)
            share *= 1 - own
            if not share:
                break
        return found

    @property
    def batch_size(self) -> int:
        """Number of series passed to `scores` at a time."""
        return 1000

    def step(self, xp: Any = np) -> Step:
        """Return the streaming step, which scores the samples so far again; see `Model.step`."""
        if xp is not np:
            raise TypeError(
                f"FromProbabilities cannot be exported: {type(self.estimator).__name__} belongs to another "
                "library. Use a model of stopwise, such as Prefix."
            )
        return super().step()

    def tensors(self) -> dict[str, Tensor]:
        """Raise a TypeError: the model cannot be saved."""
        self._refuse_to_save()

    def _refuse_to_save(self) -> NoReturn:
        raise TypeError(
            f"FromProbabilities cannot be saved: {type(self.estimator).__name__} belongs to another library, "
            "and code is never read from a file. Use a model of stopwise, such as Prefix, or pickle the "
            "classifier if only people you trust can write to the file."
        )

    def _at_every_step(self, scores: np.ndarray, steps: int) -> np.ndarray:
        """Return scores (B, steps, K), from those at the first lengths (B, g, K)."""
        if len(self.steps_) > len(self.lengths_):
            scores = np.concatenate(
                [np.zeros_like(scores, shape=(len(scores), 1, scores.shape[2])), scores], 1
            )
        return held(lean(scores, self.shares_), self.steps_[: scores.shape[1]], steps)

    def _usable_lengths(self, examples: Examples, fold: np.ndarray) -> list[int]:
        """Return the increasing prefix lengths that enough series of two classes and two folds have."""
        given = _default_lengths(examples.steps) if self.lengths is None else _checked_lengths(self.lengths)
        usable = []
        for length in given:
            rows = np.flatnonzero(examples.lengths >= length)
            several = len(np.unique(examples.y[rows])) > 1 and len(np.unique(fold[rows])) > 1
            if several and len(rows) >= min(FEWEST_SERIES, len(examples)):
                usable.append(length)
        unused = [length for length in given if length not in usable]
        if not usable:
            raise ValueError(
                f"`lengths` must have a length that at least {FEWEST_SERIES} series of two classes reach; "
                f"got {given}. The longest series has {examples.steps} steps."
            )
        if unused and self.lengths is not None:
            warn(
                f"`lengths` {', '.join(map(str, unused))}: not used, because too few series are so long. The "
                f"longest series has {examples.steps} steps."
            )
        return usable


class _Fit(NamedTuple):
    """Copies of the estimator at one length, before calibration."""

    rows: np.ndarray  # (m,) series that are long enough
    final: Wrapped  # fitted to all of them
    outputs: np.ndarray  # (m, K) of copies without the fold of the series
    floor: float  # lowest output


@dataclass(frozen=True)
class Head:
    """Calibrated classifier of prefixes of one length.

    Parameters
    ----------
    classifier
        The fitted copy.
    floor
        Lowest output; for probabilities, whose logarithm may be −∞.
    scale
        Factor of the outputs.
    matrix, bias
        (K, K) and (K,): logits from scaled outputs.
    """

    classifier: Wrapped
    floor: float
    scale: float
    matrix: np.ndarray
    bias: np.ndarray

    def scores(self, x: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Return log posterior − log prior (B, K) of series x (B, t, C)."""
        outputs = np.maximum(self.classifier.outputs(x), self.floor)
        return log_softmax(_centered(self.scale * outputs) @ self.matrix + self.bias, axis=1) - log_prior


def _cross_fit(
    estimator: Any, shape: str, x: np.ndarray, examples: Examples, fold: np.ndarray, length: int
) -> _Fit:
    """Fit copies to the prefixes of one length of series x (n, T, C), with and without each fold."""
    rows = np.flatnonzero(examples.lengths >= length)
    seen, y = x[rows, :length], examples.y[rows]
    outputs = np.empty((len(rows), examples.classes))
    for left_out in fold_rows(fold[rows]):
        others = np.setdiff1d(np.arange(len(rows)), left_out)
        copy = Wrapped.fit(estimator, shape, seen[others], y[others], examples.classes)
        outputs[left_out] = copy.outputs(seen[left_out])
    final = Wrapped.fit(estimator, shape, seen, y, examples.classes)
    floor = _floor(outputs) if final.probabilities else -np.inf
    return _Fit(rows, final, np.maximum(outputs, floor), floor)


def _floor(outputs: np.ndarray) -> float:
    """Return the lowest output: the logarithm of half of the smallest positive probability.

    A forest of 100 trees says 0 where it means less than 1 %.
    """
    return float(max(outputs[np.isfinite(outputs)].min() - np.log(2), np.log(LOWEST)))


def _calibrated(
    fits: list[_Fit], examples: Examples, fold: np.ndarray, log_prior: np.ndarray
) -> tuple[list[Head], np.ndarray, float]:
    """Calibrate all lengths; return the heads, held-out scores (n, G, K) and the penalty."""
    labels = [examples.y[fit.rows] for fit in fits]
    folds = [fold_rows(fold[fit.rows]) for fit in fits]
    scales = [_scale(fit.outputs, y) for fit, y in zip(fits, labels)]
    z = [_centered(scale * fit.outputs) for scale, fit in zip(scales, fits)]
    penalty = calibration.choose_penalty(z, labels, folds)
    held_out = np.full((len(examples), len(fits), examples.classes), np.nan)
    heads = []
    for g, fit in enumerate(fits):
        logits = calibration.left_out_logits(z[g], labels[g], penalty, folds[g])
        held_out[fit.rows, g] = log_softmax(logits, axis=1) - log_prior
        matrix, bias = calibration.fit_matrix(z[g], labels[g], penalty)
        heads.append(Head(fit.final, fit.floor, scales[g], matrix, bias))
    return heads, held_out, penalty


def _scale(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the factor of least log loss, for outputs (n, K) of any size."""
    size = float(_centered(outputs).std())
    return calibration.fit_scale(outputs / size, y) / size if size > 0 else 1.0


def _with_start(lengths: list[int], counts: list[int], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps at which scores change, from 1, and the share of the own scores at each.

    Before the first length the scores are 0.
    """
    if lengths[0] > 1:
        lengths, counts = [1, *lengths], [n, *counts]
    return np.array(lengths), head_shares(np.array(counts, dtype=float))


def _centered(outputs: np.ndarray) -> np.ndarray:
    return outputs - outputs.mean(axis=1, keepdims=True)


def _default_lengths(steps: int) -> list[int]:
    every = head_steps(steps)
    return every[np.unique(np.linspace(0, len(every) - 1, MOST_LENGTHS).round().astype(int))].tolist()


def _checked_lengths(lengths: Any) -> list[int]:
    if isinstance(lengths, str) or not np.iterable(lengths) or not len(list(lengths)):
        raise TypeError(f"`lengths` must be a list of integers, or None; got {lengths!r:.100}.")
    return sorted({check_integer("lengths", length, 1) for length in lengths})


def _losses(held_out: np.ndarray, y: np.ndarray, log_prior: np.ndarray) -> list[float]:
    """Return the mean log loss (G,) of left-out series at each length, over those that are long enough."""
    log_p = held_out[np.arange(len(y)), :, y] + log_prior[y, None]  # (n, G)
    return (-np.nanmean(log_p, axis=0)).tolist()
