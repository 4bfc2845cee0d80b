"""Models, which score each class after every sample; score differences estimate log-likelihood ratios.

- `Prefix` classifies every prefix in closed form; the best choice for small and medium data sets.
- `Stack` uses the best of several models, or a combination; "auto" is this model with its defaults.
- `Accumulator` adds up increments of evidence.
- `B2BsqrtTandem` and `Tandemformer` are the networks of the paper; `TanhTandem` provides its baselines.
- `FromProbabilities` wraps a classifier of scikit-learn or aeon.
- `Network` wraps a custom torch module.
- `Training` holds the training options that all networks share.
- `Model` is the base class for custom models that are not networks.
- `PAPER_GAUSSIAN` and `PAPER_REAL` are the settings of the paper.
"""

from stopwise.models.base import Model
from stopwise.models.from_probabilities import FromProbabilities
from stopwise.models.networks.accumulator import Accumulator
from stopwise.models.networks.lstm import B2BsqrtTandem, TanhTandem
from stopwise.models.networks.modules import Evidence, Integrator, WindowIntegrator
from stopwise.models.networks.own import Network
from stopwise.models.networks.tandemformer import Tandemformer
from stopwise.models.networks.training.config import Training
from stopwise.models.prefix.model import Prefix
from stopwise.models.registry import MODELS, PAPER_GAUSSIAN, PAPER_REAL, make, options
from stopwise.models.stack import Stack
from stopwise.models.step import Step

__all__ = [
    "MODELS",
    "PAPER_GAUSSIAN",
    "PAPER_REAL",
    "Accumulator",
    "B2BsqrtTandem",
    "Evidence",
    "FromProbabilities",
    "Integrator",
    "Model",
    "Network",
    "Prefix",
    "Stack",
    "Step",
    "Tandemformer",
    "TanhTandem",
    "Training",
    "WindowIntegrator",
    "make",
    "options",
]
