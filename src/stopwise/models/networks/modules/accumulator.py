"""The accumulator: the network emits increments of evidence and the head adds them up.

By the chain rule log p(x_1..x_t | k) is the sum over s of log p(x_s | x_<s, k): each term is moderate even
where the sum is in the hundreds. Saturation then bounds the increment, never the sum.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stopwise.models.networks.modules.base import Evidence, Integrator
from stopwise.models.networks.modules.lstm import WindowLSTM
from stopwise.validation import check_choice, check_integer, check_real


class WindowBody(nn.Module):
    """Features of the last M samples: one hidden layer, the same at every step.

    Where fewer than M samples have come, the missing ones count nothing and a bias of its own says so.

    Parameters
    ----------
    channels, hidden, window
        D, H and M.
    products
        How many of the H features are products of two linear maps, the others being rectified maps. The
        evidence between Gaussian processes is quadratic in the samples: products say it exactly, and go on
        saying it where no training sample was.
    """

    def __init__(self, channels: int, hidden: int, window: int, products: int) -> None:
        super().__init__()
        self.window, self.products = window, products
        maps = hidden + products
        self.lags = nn.Parameter(torch.empty(window, maps, channels))  # lags[j] reads x_{s-j}
        nn.init.normal_(self.lags, std=(2 / (channels * window)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(window, maps))  # bias[j]: j+1 samples are there

    def _units(self, maps: Tensor) -> Tensor:
        """Return the channels (..., H) of the linear maps (..., H + products)."""
        if not self.products:
            return torch.relu(maps)
        rest = maps.shape[-1] - 2 * self.products
        rectified, left, right = maps.split([rest, self.products, self.products], dim=-1)
        return torch.cat([torch.relu(rectified), left * right], dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the channels (B, T, H) of the newest samples at each step of x (B, T, D)."""
        steps = x.shape[1]
        there = torch.arange(steps, device=x.device).clamp(max=self.window - 1)
        if self.window == 1:
            return self._units(F.linear(x, self.lags[0], self.bias[0]))
        kernel = self.lags.flip(0).permute(1, 2, 0)  # (H, D, M)
        summed = F.conv1d(F.pad(x.transpose(1, 2), (self.window - 1, 0)), kernel)  # (B, H, T)
        return self._units(summed.transpose(1, 2) + self.bias[there])

    def multiplets(self, x: Tensor) -> Tensor:
        """Return the channels (B, W, M, H) of windows that start afresh: nothing before them counts."""
        samples = min(x.shape[1], self.window)
        windows = x.shape[1] - samples + 1
        # What the samples from m back to their window's first add up to: one more lag each time, with the
        # first time dropped, so that entry w is always that of the window that starts at w.
        total = F.linear(x, self.lags[0])
        states = [total[:, :windows] + self.bias[0]]
        for m in range(1, samples):
            total = total[:, 1:] + F.linear(x[:, : x.shape[1] - m], self.lags[m])
            states.append(total[:, :windows] + self.bias[m])
        return self._units(torch.stack(states, dim=2))


class LSTMBody(nn.Module):
    """Features of all samples so far: the state of an LSTM."""

    def __init__(self, channels: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.lstm = WindowLSTM(channels, hidden, activation)

    def forward(self, x: Tensor) -> Tensor:
        """Return the state (B, T, H) after each step of x (B, T, D)."""
        return self.lstm(x, x.shape[1]).squeeze(1).transpose(0, 1)

    def multiplets(self, x: Tensor) -> Tensor:
        """Return the states (B, 1, T, H): the one window is the whole series."""
        return self(x)[:, None]


class JointLinear(nn.Linear):
    """A linear map of several inputs side by side, which need not be copied into one."""

    def forward(self, *parts: Tensor) -> Tensor:
        """Return the map of the parts (..., n_i), whose sizes add up to `in_features`."""
        # Contiguous: torch multiplies the gradient of a slice in a slow order.
        weights = [w.contiguous() for w in self.weight.split([part.shape[-1] for part in parts], dim=1)]
        mapped = F.linear(parts[0], weights[0], self.bias)
        for part, weight in zip(parts[1:], weights[1:]):
            mapped = mapped + F.linear(part, weight)
        return mapped


class AccumulatorModule(Integrator):
    """Scores S(t) = Σ_{s≤t} (W φ_s + b), with features φ_s of the samples up to s.

    Parameters
    ----------
    channels, classes
        As for `Integrator`.
    order
        N: φ_s comes from the last N+1 samples, the same map at every step. None: from all samples so far,
        by an LSTM.
    hidden
        H, the size of the features.
    activation
        "tanh" or "b2bsqrt", of the LSTM.
    skip
        Give the head the sample x_s beside the features: linear evidence then needs no learning of φ.
    products
        How many of the features of a window are products of two linear maps, the others being
        rectified maps; None: half of them.
    layer_norm
        Normalize the features.
    dropout
        On the features.

    Examples
    --------
    >>> import torch
    >>> net = AccumulatorModule(channels=3, classes=2, order=1)
    >>> net(torch.zeros(5, 10, 3)).scores.shape
    torch.Size([5, 10, 2])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        order: int | None,
        *,
        hidden: int = 64,
        activation: str = "tanh",
        skip: bool = True,
        products: int | None = None,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(channels, classes, order)
        check_choice("activation", activation, ("tanh", "b2bsqrt"))
        check_integer("hidden", hidden, 1)
        check_real("dropout", dropout, 0, 1, open_high=True)
        products = hidden // 2 if products is None else check_integer("products", products, 0, hidden)
        self.body: WindowBody | LSTMBody = (
            LSTMBody(channels, hidden, activation)
            if order is None
            else WindowBody(channels, hidden, order + 1, products)
        )
        self.norm = nn.LayerNorm(hidden) if layer_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.skip = skip
        self.head = JointLinear(hidden + (channels if skip else 0), classes)
        for part in self.head.weight.detach().split([hidden, channels] if skip else [hidden], dim=1):
            nn.init.uniform_(part, -(part.shape[1] ** -0.5), part.shape[1] ** -0.5)

    @property
    def readout(self) -> nn.Linear:
        """The last layer."""
        return self.head

    @property
    def n_skip_inputs(self) -> int:
        """How many inputs of the last layer, its last ones, are the sample itself."""
        return self.channels if self.skip else 0

    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence in series x (B, T, D)."""
        if not multiplets:
            # With time leading, as both lie in memory.
            increments = self._increments(self.body(x).transpose(0, 1), x.transpose(0, 1))  # (T, B, K)
            return Evidence(increments.cumsum(0).transpose(0, 1), None)
        states = self.body.multiplets(x)  # (B, W, M, H)
        samples = states.shape[2]
        inputs = x.unfold(1, samples, 1).transpose(2, 3)  # (B, W, M, D)
        increments = self._increments(states, inputs)  # (B, W, M, K)
        # The last increment of a window sees all the samples the body ever sees.
        growth = torch.cat([increments[:, 0], increments[:, 1:, -1]], dim=1)  # (B, T, K)
        return Evidence(growth.cumsum(1), increments.cumsum(2))

    def _increments(self, states: Tensor, x: Tensor) -> Tensor:
        features = self.dropout(self.norm(states))
        return self.head(features, x) if self.skip else self.head(features)
