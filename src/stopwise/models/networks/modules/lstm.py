"""LSTM networks: B2Bsqrt-TANDEM and the baselines with tanh."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from stopwise.llr import WindowLogits
from stopwise.models.networks.kernels.recurrence import B2BLOG, B2BSQRT, TANH, Squash, WindowStates
from stopwise.models.networks.modules.activations import check_alpha
from stopwise.models.networks.modules.base import WindowIntegrator
from stopwise.validation import check_choice, check_integer, check_real

ACTIVATIONS = {"b2bsqrt": B2BSQRT, "tanh": TANH, "b2blog": B2BLOG}


class WindowLSTM(nn.Module):
    """LSTM that runs over every window of a series.

    Parameters
    ----------
    channels
        D, the number of input values per sample.
    hidden
        H, the size of the state.
    activation
        Activation of the candidate and of the output, a key of `ACTIVATIONS`. The gates use the sigmoid.
    alpha
        Parameter α of B2Bsqrt.
    forget_bias
        Initial bias of the forget gate.
    """

    def __init__(
        self, channels: int, hidden: int, activation: str, alpha: float = 1.0, forget_bias: float = 1.0
    ) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.empty(4 * hidden, channels))  # gates: i, f, o, candidate
        self.recurrent = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.squash = Squash(ACTIVATIONS[activation], check_alpha(alpha))
        self._initialize(hidden, forget_bias)

    @torch.no_grad()
    def _initialize(self, hidden: int, forget_bias: float) -> None:
        for gate in range(4):
            rows = slice(gate * hidden, (gate + 1) * hidden)
            nn.init.xavier_uniform_(self.input[rows])
            nn.init.orthogonal_(self.recurrent[rows])
        self.bias[hidden : 2 * hidden] = forget_bias  # the forget gate starts open if it is positive

    def forward(self, x: Tensor, samples: int) -> Tensor:
        """Return the hidden states (M, W, B, H) after 1..M samples of each window of x (B, T, D)."""
        projected = nn.functional.linear(x.transpose(0, 1), self.input, self.bias)  # (T, B, 4H)
        return WindowStates.apply(projected, self.recurrent, samples, self.squash)


class NeededStates(torch.autograd.Function):
    """Selection of the states that the formulas need.

    With separate slices, autograd would allocate a gradient of the full size for each of them.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Select from states (M, W, B, H).

        Returns
        -------
        first
            (M, B, H) states of the first window.
        last
            (W−1, B, H) states after the last sample of each other window.
        before
            (W−1, B, H) states before the last sample of each other window; zeros if M = 1.
        """
        ctx.shape = states.shape
        last = states[-1, 1:].clone()
        before = states[-2, 1:].clone() if len(states) > 1 else torch.zeros_like(last)
        return states[:, 0].clone(), last, before

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_first: Tensor, d_last: Tensor, d_before: Tensor) -> Tensor:
        """Write the gradients to the positions of the selected states."""
        d_states = d_first.new_zeros(ctx.shape)
        d_states[:, 0] = d_first
        d_states[-1, 1:] = d_last
        if len(d_states) > 1:
            d_states[-2, 1:] = d_before
        return d_states


class LSTMModule(WindowIntegrator):
    """LSTM that computes the logits of a window from its state after the last sample.

    Parameters
    ----------
    channels, classes, order, formula
        As for `WindowIntegrator`.
    activation
        "b2bsqrt" (B2Bsqrt-TANDEM), "tanh" (the baselines, whose logits are bounded) or "b2blog".
    hidden
        H, the size of the state.
    alpha
        Parameter α of B2Bsqrt.
    layer_norm
        Apply layer normalization to the state before the head. Off by default because it bounds the logits.
    dropout
        Dropout rate of the state before the head.
    forget_bias
        Initial bias of the forget gate.

    Examples
    --------
    >>> import torch
    >>> net = LSTMModule(channels=3, classes=2, order=4)
    >>> net(torch.zeros(5, 10, 3)).scores.shape
    torch.Size([5, 10, 2])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        order: int,
        formula: str = "tandem",
        *,
        activation: str = "b2bsqrt",
        hidden: int = 64,
        alpha: float = 1.0,
        layer_norm: bool = False,
        dropout: float = 0.0,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(channels, classes, order, formula)
        check_choice("activation", activation, ACTIVATIONS)
        check_integer("hidden", hidden, 1)
        check_real("dropout", dropout, 0, 1, open_high=True)
        check_real("forget_bias", forget_bias, -math.inf, open_low=True, open_high=True)
        self.lstm = WindowLSTM(channels, hidden, activation, alpha, forget_bias)
        self.head = nn.Sequential(
            nn.LayerNorm(hidden) if layer_norm else nn.Identity(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )
        bound = 1 / math.sqrt(hidden)
        nn.init.uniform_(self.head[-1].weight, -bound, bound)  # type: ignore[arg-type]
        nn.init.zeros_(self.head[-1].bias)  # type: ignore[arg-type]

    @property
    def readout(self) -> nn.Linear:
        """Last layer."""
        return self.head[-1]  # type: ignore[return-value]

    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Return the logits of the windows of x (B, T, D)."""
        samples = min(x.shape[1], self.order + 1)
        states = self.lstm(x, samples)  # (M, W, B, H)
        if multiplets:
            every = self.head(states).permute(2, 1, 0, 3)  # (B, W, M, K)
            first, last = every[:, 0], every[:, 1:, -1]
            before = every[:, 1:, -2] if samples > 1 else torch.zeros_like(last)
            return WindowLogits(first, last, before, every)
        if states.shape[1] == 1:
            first = self.head(states.squeeze(1)).transpose(0, 1)  # (B, M, K)
            return WindowLogits(first, first[:, :0], first[:, :0])
        first, last, before = (self.head(part).transpose(0, 1) for part in NeededStates.apply(states))
        return WindowLogits(first, last, before if samples > 1 else torch.zeros_like(last))
