"""Temporal integrators, which are torch modules that score each class after every sample of a series."""

from stopwise.models.networks.modules.accumulator import AccumulatorModule
from stopwise.models.networks.modules.activations import b2blog, b2bsqrt
from stopwise.models.networks.modules.base import Evidence, Integrator, WindowIntegrator
from stopwise.models.networks.modules.lstm import LSTMModule
from stopwise.models.networks.modules.transformer import TandemformerModule

__all__ = [
    "AccumulatorModule",
    "Evidence",
    "Integrator",
    "LSTMModule",
    "TandemformerModule",
    "WindowIntegrator",
    "b2blog",
    "b2bsqrt",
]
