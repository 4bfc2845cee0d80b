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
        Number of epochs over the training series, the same for every model.
    large
        Number of training series in the condition with more data, which trains for the same number of steps.
    repeats, main_repeats
        Number of repeats of every condition, and of the main comparison, which has no weight decay.
    search_train, search_epochs
        Number of series and epochs per trial of the search for training settings.
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
        """Number of epochs over `large` series that has as many steps as `epochs` over `train` series."""
        return max(1, round(self.epochs * self.train / self.large))


PRESETS = {
    "quick": Preset(8, 20, 1000, 500, 1000, 5, 5000, 2, 3, 1000, 5),
    "medium": Preset(128, 50, 20_000, 4000, 4000, 3, 60_000, 2, 5, 10_000, 6),
    "paper": Preset(128, 50, 80_000, 10_000, 10_000, 4, 1_000_000, 10, 10, 10_000, 6),
}


def preset(name: str) -> Preset:
    """Return a preset by name: "quick", "medium" or "paper".

    Examples
    --------
    >>> preset("paper").train
    80000
    """
    return PRESETS[check_choice("preset", name, PRESETS)]
