"""Sizes of the reproductions: data, training, repeats."""

from __future__ import annotations

from dataclasses import dataclass

from stopwise.validation import check_choice


@dataclass(frozen=True)
class Preset:
    """Sizes of one reproduction.

    Parameters
    ----------
    channels, length
        Number of channels D and steps T of the Gaussian worlds; the order is the longest one, T−1.
    train, validation, test
        Numbers of series.
    epochs
        Number of passes over the training series, the same for every model.
    checks
        Number of times per pass that a network is validated; the best of all is kept.
    large, data_steps
        Number of training series in the condition with more data, and number of training steps with which it
        is compared with the usual number of series.
    repeats, small_repeats, main_repeats
        Number of repeats of every condition with large LLRs (a = 2) and with small ones (a = 1), and of the
        main comparison, which has no weight decay.
    search_train, search_epochs
        Number of series and epochs per trial of the search for training settings.
    """

    channels: int
    length: int
    train: int
    validation: int
    test: int
    epochs: int
    checks: int
    large: int
    data_steps: int
    repeats: int
    small_repeats: int
    main_repeats: int
    search_train: int
    search_epochs: int

    @property
    def epoch_series(self) -> int:
        """Number of training series between two validations."""
        return max(1, self.train // self.checks)

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of series, by part."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def lasting(self, steps: int | None = None) -> dict[str, int]:
        """Return the training settings for this number of steps; None means `epochs` passes.

        Examples
        --------
        >>> preset("paper").lasting(6400)
        {'training.max_epochs': 32, 'training.epoch_series': 20000}
        """
        series = self.epochs * self.train if steps is None else steps * BATCH
        return {
            "training.max_epochs": max(1, round(series / self.epoch_series)),
            "training.epoch_series": self.epoch_series,
        }


BATCH = 100  # the default batch size of `Training`
_MEDIUM = {"channels": 128, "length": 50, "checks": 4, "search_train": 10_000, "search_epochs": 6}
PRESETS = {
    "quick": Preset(
        channels=8, length=20, train=1000, validation=500, test=1000, epochs=5, checks=1, large=5000,
        data_steps=50, repeats=2, small_repeats=2, main_repeats=3, search_train=1000, search_epochs=5,
    ),
    "medium": Preset(
        train=20_000, validation=4000, test=4000, epochs=3, large=60_000, data_steps=600, repeats=5,
        small_repeats=3, main_repeats=5, **_MEDIUM,
    ),
    "paper": Preset(
        train=80_000, validation=10_000, test=10_000, epochs=4, large=1_000_000, data_steps=6400, repeats=10,
        small_repeats=10, main_repeats=10, **_MEDIUM,
    ),
}  # fmt: skip


def preset(name: str) -> Preset:
    """Return a preset by name: "quick", "medium" or "paper".

    Examples
    --------
    >>> preset("paper").train
    80000
    """
    return PRESETS[check_choice("preset", name, PRESETS)]
