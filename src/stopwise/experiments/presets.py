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
        D and T of the Gaussian worlds; the order is the longest, T−1.
    train, validation, test
        Numbers of series.
    epochs
        Epochs over the training series, the same for every model.
    large
        Number of training series of the large-data condition, which trains for as many steps.
    repeats, main_repeats
        Repeats of every condition, and of the main comparison, which has no weight decay.
    search_train, search_epochs
        Sizes of the search for the learning rate, schedule and optimizer of each model.
    """

    channels: int
    length: int
    train: int
    validation: int
    test: int
    epochs: int
    large: int
    repeats: int
    main_repeats: int
    search_train: int
    search_epochs: int

    @property
    def large_epochs(self) -> int:
        """Epochs over the large set with as many steps as `epochs` over the usual one."""
        return max(1, round(self.epochs * self.train / self.large))


PRESETS = {
    "quick": Preset(8, 20, 1000, 500, 1000, 5, 5000, 2, 3, 1000, 5),
    "medium": Preset(128, 50, 20_000, 4000, 4000, 3, 60_000, 2, 5, 10_000, 6),
    "paper": Preset(128, 50, 80_000, 10_000, 10_000, 4, 1_000_000, 10, 10, 10_000, 6),
}


def preset(name: str) -> Preset:
    """Return a preset by its name.

    Examples
    --------
    >>> preset("paper").train
    80000
    """
    return PRESETS[check_choice("preset", name, PRESETS)]
