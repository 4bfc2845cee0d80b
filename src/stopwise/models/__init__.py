"""Models: what turns the samples so far into scores, whose differences are log-likelihood ratios.

`Accumulator` adds up increments of evidence. `B2BsqrtTandem` and `Tandemformer` are the paper's networks,
`TanhTandem` its baselines, `Network` wraps a torch module of your own. `Training` holds the options of
training that they share. A model of another kind subclasses `Model`. `PAPER_GAUSSIAN` and `PAPER_REAL` are
the paper's settings.
"""

from stopwise.models.base import Model
from stopwise.models.networks.accumulator import Accumulator
from stopwise.models.networks.lstm import B2BsqrtTandem, TanhTandem
from stopwise.models.networks.modules import Evidence, Integrator, WindowIntegrator
from stopwise.models.networks.own import Network
from stopwise.models.networks.tandemformer import Tandemformer
from stopwise.models.networks.training.config import Training
from stopwise.models.registry import MODELS, PAPER_GAUSSIAN, PAPER_REAL, make, options
from stopwise.models.step import Step

__all__ = [
    "MODELS",
    "PAPER_GAUSSIAN",
    "PAPER_REAL",
    "Accumulator",
    "B2BsqrtTandem",
    "Evidence",
    "Integrator",
    "Model",
    "Network",
    "Step",
    "Tandemformer",
    "TanhTandem",
    "Training",
    "WindowIntegrator",
    "make",
    "options",
]
