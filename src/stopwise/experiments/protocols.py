"""The two protocols of figure 4: what is fixed, what is searched, and how often.

The protocol "own" searches every option of a model, also its order. The protocol "paper" follows the paper:
order 10 and one hidden size for all models, and the published search space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stopwise.experiments.models import Settings
from stopwise.tuning import space_for
from stopwise.validation import check_choice

PROTOCOLS = ("own", "paper")
ORDER = 10
HIDDEN = 64
WIDEST = 128  # largest number of hidden units in the search of the protocol "own"


@dataclass(frozen=True)
class Sizes:
    """Sizes of one reproduction.

    Parameters
    ----------
    trials
        Number of tuning trials per model.
    repeats, peer_repeats
        Number of runs per model and per peer.
    epochs
        Factor that multiplies the number of epochs in the plan of the dataset.
    most
        Largest number of series in each part. If None, there is no limit.
    cheap
        Whether to fix dropout at 0 and the TANDEMformer at one block. Searching both takes several times as
        long, because the fast computation of the TANDEMformer is for one block only.
    """

    trials: int
    repeats: int
    peer_repeats: int
    epochs: float
    most: int | None
    cheap: bool


PRESETS = {
    "quick": Sizes(trials=2, repeats=2, peer_repeats=0, epochs=0.1, most=300, cheap=True),
    "medium": Sizes(trials=8, repeats=10, peer_repeats=1, epochs=1.0, most=None, cheap=True),
    "paper": Sizes(trials=100, repeats=50, peer_repeats=10, epochs=3.0, most=None, cheap=False),
}
# Sizes of the protocol "paper". Peers do not take part in it.
PAPER_PRESETS = {
    "quick": Sizes(trials=2, repeats=2, peer_repeats=0, epochs=0.1, most=300, cheap=False),
    "medium": Sizes(trials=20, repeats=20, peer_repeats=0, epochs=1.0, most=None, cheap=False),
    "paper": Sizes(trials=100, repeats=50, peer_repeats=0, epochs=3.0, most=None, cheap=False),
}


def sizes_of(protocol: str, preset: str) -> Sizes:
    """Return the sizes of a preset.

    Examples
    --------
    >>> sizes_of("paper", "medium").trials
    20
    """
    check_choice("--protocol", protocol, PROTOCOLS)
    presets = PRESETS if protocol == "own" else PAPER_PRESETS
    return presets[check_choice("preset", preset, presets)]


def fixed(protocol: str, model: str, sizes: Sizes) -> Settings:
    """Return the settings of a model, by its name in the registry, that are not searched."""
    if protocol == "paper":
        same: Settings = {"order": ORDER}
        # The authors add sinusoidal positions to the features.
        return same | ({"positions": "sinusoidal"} if model == "tandemformer" else {"hidden": HIDDEN})
    if not sizes.cheap:
        return {}
    return {"dropout": 0.0} | ({"blocks": 1} if model == "tandemformer" else {})


def space(protocol: str, model: str, steps: int) -> dict[str, Any]:
    """Return the search space of a model, by its name in the registry.

    Parameters
    ----------
    protocol
        "paper" is the published space. "own" is that of `stopwise tune` without order="auto", which takes as
        long as many trials.
    model
        Name of the model.
    steps
        Number of steps of the longest series.

    Examples
    --------
    >>> sorted(space("paper", "b2bsqrt", 50))  # doctest: +NORMALIZE_WHITESPACE
    ['dropout', 'llre_ratio', 'training.learning_rate', 'training.optimizer', 'training.weight_decay']
    >>> space("paper", "tandemformer", 50)["blocks"], space("paper", "tandemformer", 50)["llre_ratio"]
    ((1, 2), (0.4, 1.0))
    """
    found = space_for(model, steps)
    if protocol == "own":
        found["order"] = [order for order in found["order"] if order != "auto"]
        if "hidden" in found:
            found["hidden"] = [hidden for hidden in found["hidden"] if hidden <= WIDEST]
        return found
    found["llre_ratio"] = (0.4, 1.0)
    own = ("order", "hidden", "polish", "standardize", "positions", "products")
    return {name: values for name, values in found.items() if name not in own}
