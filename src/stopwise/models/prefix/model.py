"""Prefix model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from stopwise.data.examples import Examples
from stopwise.models.base import Model, OnEpoch
from stopwise.models.networks.training.threads import one_blas_thread
from stopwise.models.prefix.features import BLOCKS, Features
from stopwise.models.prefix.fitting import FIT_SHARES, WHOLE, fit_prefix
from stopwise.models.prefix.folds import check_enough, make_folds
from stopwise.models.prefix.grid import head_steps
from stopwise.models.prefix.heads import Heads, all_scores, held
from stopwise.models.prefix.kernels import GROUP, POOLS
from stopwise.models.prefix.series import Series
from stopwise.models.prefix.step import PrefixStep
from stopwise.models.prefix.storing import features_of, heads_of, tensors_of
from stopwise.models.step import Step
from stopwise.progress import Stages
from stopwise.validation import check_integer, inside

# Series, and numbers in them, that the heads are fitted to: they are held in memory.
MOST_SERIES, MOST_HELD = 20_000, 200_000_000
# Multiplications for kernel matrices; beyond, fewer convolution kernels are used. A fit of a million numbers
# must stay under a minute. More numbers may take longer: twice the products per million, at most six times.
KERNEL_PRODUCTS, MANY_NUMBERS, MORE_TIMES, MOST_TIMES = 4e11, 1e6, 2.0, 6.0
FEWEST_KERNELS = 256


class Prefix(Model):
    """Classifier of every prefix, in closed form, on random convolutions and running statistics.

    The model computes features of the samples so far: running averages of random convolutions, and levels,
    moments and last samples under Gaussian kernels. At some twenty to forty steps it has a ridge regression
    on these features, calibrated to probabilities; between these steps the scores hold.
    Nothing is trained by gradient descent, so a fit takes seconds and small data sets are not over-fitted.

    All settings (ridge penalty, weights of the kinds of features, calibration) are chosen by the likelihood
    of series that were left out, which has a closed form. The held-out scores of the training series are kept
    as ``held_out_scores_``. Series of one group (`groups` of
    `fit`) are left out together. Without groups, each class is cut into contiguous parts, in the order of the
    data.

    Parameters
    ----------
    kernels
        Number of convolution kernels on the samples, and as many on the differences of successive samples; a
        multiple of 8. With very many series, fewer are used to limit the time; see ``report_``.
    landmarks
        Number of training series above which a stratified sample of this size represents them in the kernel
        functions of predictions, so that their cost does not grow. The regressions are fitted with all series
        up to 1.5 times this number, and with the sample beyond.

    Attributes
    ----------
    report_
        `block_weights`: weight of each kind of features. `steps`: steps at which there is a regression.
        `ridge`: their penalties. `held_out_loss`: their mean log loss on series left out. `seconds`: time of
        each stage. `channels`: "together" if channels that were large relative to others before they were
        standardized stay so, which happens if this is clearly better on series left out. `widening`: 4 if
        wider Gaussian kernels are clearly better, else 1.
    held_out_scores_
        (n, T, K) scores of the training series from regressions without them; None if there are more than
        20 000 series or 200 million numbers, of which a stratified sample is used.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=2, length=12, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Prefix(kernels=64)).fit(X, y)
    >>> clf.model_.report_["steps"]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    """

    name: ClassVar[str | None] = "prefix"
    cross_fits: ClassVar[bool] = True
    features_: Features
    heads_: Heads

    def __init__(self, kernels: int = 1024, landmarks: int = 1000) -> None:
        self.kernels = kernels
        self.landmarks = landmarks

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

        Validation series are not needed and not used. A fit takes seconds, so no checkpoint is written.
        """
        check_integer("kernels", self.kernels, GROUP)
        if self.kernels % GROUP:
            raise ValueError(f"`kernels` must be a multiple of {GROUP}; got {self.kernels}.")
        check_integer("landmarks", self.landmarks, 2 * examples.classes)
        check_enough(examples.y, examples.classes, examples.groups)
        held = max(2 * examples.classes, MOST_HELD // (examples.steps * examples.channels))
        used = examples.sample(min(MOST_SERIES, held), random_state)
        x, lengths = used.read(np.arange(len(used)))
        x = np.ascontiguousarray(x, dtype=np.float32)
        fold = make_folds(used.y, used.groups)
        series = Series(x, used.y, lengths, fold, examples.classes)
        with one_blas_thread(), Stages(FIT_SHARES, progress) as stages:
            fitted = fit_prefix(
                series,
                sizes=np.ones(examples.channels) if examples.sizes is None else examples.sizes,
                kernels=self._affordable_kernels(len(used), examples.steps, examples.channels),
                landmarks=self.landmarks,
                random_state=random_state,
                stages=stages,
            )
        self.classes_count_, self.channels_ = examples.classes, examples.channels
        self.features_, self.heads_ = fitted.features, fitted.heads
        self.report_ = fitted.report
        self.held_out_scores_ = _held_out_scores(examples, used, fitted.held_out, fitted.steps)
        return self

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores (B, T, K) of series x (B, T, C)."""
        with one_blas_thread():
            return all_scores(self.features_, self.heads_, np.ascontiguousarray(x, dtype=np.float32))

    def step(self, xp: Any = np) -> Step:
        """Return the streaming step; see `Model.step`."""
        return PrefixStep(self.features_, self.heads_, self.channels_, xp)

    def tensors(self) -> dict[str, Tensor]:
        """Return the features and heads by name."""
        return {
            name: torch.from_numpy(np.ascontiguousarray(value))
            for name, value in tensors_of(self.features_, self.heads_).items()
        }

    def fitted(self) -> dict[str, Any]:
        """Return the sizes that `restore` checks the tensors against."""
        return {"heads": len(self.heads_.constant)}

    def restore(self, fitted: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore the fitted attributes; see `Model.restore`."""
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.classes_count_, self.channels_ = int(fitted["classes"]), int(fitted["channels"])
        self.features_ = features_of(arrays, self.channels_)
        self.heads_ = heads_of(arrays, self.features_, self.classes_count_)

    def _affordable_kernels(self, n: int, steps: int, channels: int) -> int:
        """Return the number of kernels whose kernel matrices can be computed in reasonable time."""
        many = n * steps * channels / MANY_NUMBERS
        times = 1.0 if many <= 1 else min(MORE_TIMES * many, MOST_TIMES)
        used = n if n <= WHOLE * self.landmarks else self.landmarks
        per_kernel = len(BLOCKS) * POOLS * n * used * len(head_steps(steps))
        most = int(times * KERNEL_PRODUCTS / per_kernel) // GROUP * GROUP
        return min(self.kernels, max(most, FEWEST_KERNELS))


def _held_out_scores(
    examples: Examples, used: Examples, held_out: np.ndarray, steps: np.ndarray
) -> np.ndarray | None:
    """Return the held-out scores (n, T, K) after every sample; None if not all series were used."""
    if len(used) < len(examples):
        return None
    scores = held(held_out, steps, examples.steps)
    scores[~inside(examples.lengths, examples.steps)] = np.nan
    return scores
