"""Accumulator network, which computes an increment of evidence per sample and adds the increments up.

By the chain rule, ``log p(x_1..x_t | k)`` is the sum over s of ``log p(x_s | x_1..x_{s-1}, k)``. Each term is
moderate even where the sum is in the hundreds. Saturation bounds the increments, but not their sum.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stopwise.models.networks.modules.base import Evidence, Integrator
from stopwise.models.networks.modules.filter import HiddenStateFilter
from stopwise.models.networks.modules.lstm import WindowLSTM
from stopwise.validation import check_choice, check_integer, check_real


class WindowBody(nn.Module):
    """Features of the last M samples: one hidden layer, shared by all steps.

    In the first M−1 steps the missing samples are treated as zeros, and each number of available samples has
    a separate bias.

    Parameters
    ----------
    channels
        D, the number of input values per sample.
    hidden
        H, the number of features.
    window
        M, the number of samples.
    products
        Number of features that are products of two linear maps. The other features are linear maps followed
        by a ReLU. The evidence between Gaussian processes is quadratic in the samples. Products represent it
        exactly, also outside the range of the training samples.
    """

    def __init__(self, channels: int, hidden: int, window: int, products: int) -> None:
        super().__init__()
        self.window, self.products = window, products
        maps = hidden + products
        self.lags = nn.Parameter(torch.empty(window, maps, channels))  # lags[j] reads x_{s-j}
        nn.init.normal_(self.lags, std=(2 / (channels * window)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(window, maps))  # bias[j] applies if j+1 samples are available

    def _units(self, maps: Tensor) -> Tensor:
        """Return the features (..., H) from the outputs (..., H + products) of the linear maps."""
        if not self.products:
            return torch.relu(maps)
        rest = maps.shape[-1] - 2 * self.products
        rectified, left, right = maps.split([rest, self.products, self.products], dim=-1)
        return torch.cat([torch.relu(rectified), left * right], dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (B, T, H) of the last M samples at each step of x (B, T, D)."""
        steps = x.shape[1]
        there = torch.arange(steps, device=x.device).clamp(max=self.window - 1)
        if self.window == 1:
            return self._units(F.linear(x, self.lags[0], self.bias[0]))
        kernel = self.lags.flip(0).permute(1, 2, 0)  # (H, D, M)
        summed = F.conv1d(F.pad(x.transpose(1, 2), (self.window - 1, 0)), kernel)  # (B, H, T)
        return self._units(summed.transpose(1, 2) + self.bias[there])

    def multiplets(self, x: Tensor) -> Tensor:
        """Return the features (B, W, M, H) of all windows, each without the samples before its start."""
        samples = min(x.shape[1], self.window)
        windows = x.shape[1] - samples + 1
        # Entry w of `total` is the sum of the linear maps of the first m+1 samples of the window that starts
        # at step w. Each iteration adds one lag and drops the first entry to keep this alignment.
        total = F.linear(x, self.lags[0])
        states = [total[:, :windows] + self.bias[0]]
        for m in range(1, samples):
            total = total[:, 1:] + F.linear(x[:, : x.shape[1] - m], self.lags[m])
            states.append(total[:, :windows] + self.bias[m])
        return self._units(torch.stack(states, dim=2))


class LSTMBody(nn.Module):
    """Features of all samples so far, which are the state of an LSTM."""

    def __init__(self, channels: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.lstm = WindowLSTM(channels, hidden, activation)

    def forward(self, x: Tensor) -> Tensor:
        """Return the state (B, T, H) after each step of x (B, T, D)."""
        return self.lstm(x, x.shape[1]).squeeze(1).transpose(0, 1)

    def multiplets(self, x: Tensor) -> Tensor:
        """Return the states (B, 1, T, H) of the only window, which is the whole series."""
        return self(x)[:, None]


class JointLinear(nn.Linear):
    """Linear layer on the concatenation of several inputs, without copying them into one tensor."""

    def forward(self, *parts: Tensor) -> Tensor:
        """Apply the layer to inputs (..., n_i) whose sizes n_i sum to `in_features`."""
        # Contiguous weights: with slices, torch computes the gradient by a slower matrix product.
        weights = [w.contiguous() for w in self.weight.split([part.shape[-1] for part in parts], dim=1)]
        mapped = F.linear(parts[0], weights[0], self.bias)
        for part, weight in zip(parts[1:], weights[1:]):
            mapped = mapped + F.linear(part, weight)
        return mapped


class AccumulatorModule(Integrator):
    """Accumulator network with scores ``S(t) = Σ_{s≤t} (W φ_s + b)``.

    The features φ_s depend on the samples up to step s.

    Parameters
    ----------
    channels, classes
        As for `Integrator`.
    order
        N, the Markov order. An integer: φ_s is a map of the last N+1 samples, the same at every step. None:
        φ_s depends on all samples so far, by `body`.
    body
        With order None: "lstm" (φ_s is the state of an LSTM) or "filter" (φ_s is a map of the sample x_s and
        the increments of a `HiddenStateFilter`).
    hidden
        H, the number of features.
    activation
        Activation of the LSTM: "tanh" or "b2bsqrt".
    skip
        Pass the sample x_s to the head in addition to the features. Evidence that is linear in the sample
        then requires no learned features.
    products
        Number of features of a window that are products of two linear maps. The other features are linear
        maps followed by a ReLU. None means half of the features.
    layer_norm
        Apply layer normalization to the features.
    dropout
        Dropout rate of the features.
    states
        M, the number of hidden states of the filter.

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
        body: str = "lstm",
        hidden: int = 64,
        activation: str = "tanh",
        skip: bool = True,
        products: int | None = None,
        layer_norm: bool = False,
        dropout: float = 0.0,
        states: int = 8,
    ) -> None:
        super().__init__(channels, classes, order)
        check_choice("body", body, ("lstm", "filter"))
        check_choice("activation", activation, ("tanh", "b2bsqrt"))
        check_integer("hidden", hidden, 1)
        check_integer("states", states, 2)
        check_real("dropout", dropout, 0, 1, open_high=True)
        filtered = order is None and body == "filter"
        products = hidden // 2 if products is None else check_integer("products", products, 0, hidden)
        self.body: WindowBody | LSTMBody = (
            LSTMBody(channels, hidden, activation)
            if order is None and not filtered
            else WindowBody(channels, hidden, (order or 0) + 1, products)
        )
        self.filter = HiddenStateFilter(channels, hidden, classes, states) if filtered else None
        self.norm = nn.LayerNorm(hidden) if layer_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.skip = skip
        self.head = JointLinear(hidden + self.n_skip_inputs, classes)
        self._start_head(hidden)

    @torch.no_grad()
    def _start_head(self, hidden: int) -> None:
        """Set the initial weights of the head. With a filter, the scores are those of the filter alone."""
        weight = self.head.weight
        if self.filter is not None:
            self.head.bias.zero_()
            weight.zero_()[:, -self.classes :] = torch.eye(self.classes)
            return
        for part in weight.split([hidden, self.channels] if self.skip else [hidden], dim=1):
            nn.init.uniform_(part, -(part.shape[1] ** -0.5), part.shape[1] ** -0.5)

    @property
    def readout(self) -> nn.Linear:
        """Last layer."""
        return self.head

    @property
    def n_skip_inputs(self) -> int:
        """Number of inputs of the last layer, at the end, that are the sample itself or the filter's."""
        return (self.channels if self.skip else 0) + (0 if self.filter is None else self.classes)

    def evidence(self, x: Tensor, multiplets: bool) -> Evidence:
        """Return the evidence for series x (B, T, D)."""
        if not multiplets or self.filter is not None:
            # Time is the leading dimension, to match the memory layout of both tensors.
            increments = self._increments(self.body(x).transpose(0, 1), x.transpose(0, 1))  # (T, B, K)
            scores = increments.cumsum(0).transpose(0, 1)
            # The only window of a filter is the whole series.
            return Evidence(scores, scores[:, None] if multiplets else None)
        states = self.body.multiplets(x)  # (B, W, M, H)
        samples = states.shape[2]
        inputs = x.unfold(1, samples, 1).transpose(2, 3)  # (B, W, M, D)
        increments = self._increments(states, inputs)  # (B, W, M, K)
        # The last increment of a full window depends on all samples that the body can use.
        growth = torch.cat([increments[:, 0], increments[:, 1:, -1]], dim=1)  # (B, T, K)
        return Evidence(growth.cumsum(1), increments.cumsum(2))

    def _increments(self, states: Tensor, x: Tensor) -> Tensor:
        inputs = [self.dropout(self.norm(states))]
        if self.skip:
            inputs.append(x)
        if self.filter is not None:
            inputs.append(self.filter(states, x))
        return self.head(*inputs)
