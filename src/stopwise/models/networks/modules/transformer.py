"""TANDEMformer: a transformer whose pooling lets evidence accumulate."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stopwise.llr import WindowLogits
from stopwise.models.networks.kernels.prefix_attention import TokenVariance, Windows, pool_prefixes
from stopwise.models.networks.modules.base import WindowIntegrator
from stopwise.validation import check_choice, check_integer, check_real

POOLINGS = ("nsp", "gap", "one-token")
POSITIONS = ("none", "sinusoidal", "learned")


class Block(nn.Module):
    """Self-attention and a two-layer feed-forward, each with a residual; pre-norm if asked for.

    Dropout falls on the attention's heads and on the feed-forward's units, before their output maps.
    """

    def __init__(
        self, channels: int, heads: int, head_size: int, feed_forward: int, layer_norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(channels) if layer_norm else nn.Identity()
        self.norm2 = nn.LayerNorm(channels) if layer_norm else nn.Identity()
        self.qkv = nn.Linear(channels, 3 * heads * head_size)
        self.out = nn.Linear(heads * head_size, channels)
        self.expand = nn.Linear(channels, feed_forward)
        self.contract = nn.Linear(feed_forward, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix tokens (R, L, D) and return them."""
        q, k, v = split_heads(self.qkv(self.norm1(tokens)), self.heads)  # (R, h, L, d) each
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (R, L, h·d)
        return self.feed(tokens + self.out(self.dropout(mixed)))

    def feed(self, tokens: Tensor) -> Tensor:
        """Return tokens (..., D) plus their feed-forward."""
        return tokens + self.contract(self.dropout(torch.relu(self.expand(self.norm2(tokens)))))


def split_heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values (R, h, L, d) of projections (R, L, 3·h·d)."""
    rows, length, width = qkv.shape
    q, k, v = qkv.view(rows, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    return q, k, v


class TandemformerModule(WindowIntegrator):
    """Tokens of a window, mixed by self-attention, pooled, and read by a small MLP.

    Parameters
    ----------
    channels, classes, order, formula
        As for `WindowIntegrator`.
    blocks, heads, head_size, feed_forward, mlp
        Sizes; every block has weights of its own.
    pooling
        "nsp": the sum of the tokens over the constant N+1, so that evidence grows with the samples;
        "gap": their mean, and "one-token": a learned token's output, which both stay of one size.
    layer_norm
        Pre-norm in the blocks. Off by default: it bounds what is summed.
    positions
        "none", "sinusoidal" or "learned": the place of a sample in its window. With "none" the window is
        a set: right for samples independent in time, and blind to their order.
    dropout
        In the blocks and the MLP. With one block and pooled tokens, the block's dropout falls on what is
        summed over the tokens of a prefix, heads and units, and not on each token's own.

    Examples
    --------
    >>> import torch
    >>> net = TandemformerModule(channels=3, classes=2, order=4)
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
        blocks: int = 1,
        heads: int = 2,
        head_size: int = 16,
        feed_forward: int = 32,
        mlp: int = 32,
        pooling: str = "nsp",
        layer_norm: bool = False,
        positions: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(channels, classes, order, formula)
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        check_choice("positions", positions, POSITIONS)
        sizes = {"blocks": blocks, "heads": heads, "head_size": head_size, "feed_forward": feed_forward}
        for name, size in (sizes | {"mlp": mlp}).items():
            check_integer(name, size, 1)
        check_real("dropout", dropout, 0, 1, open_high=True)
        self.blocks = nn.ModuleList(
            Block(channels, heads, head_size, feed_forward, layer_norm, dropout) for _ in range(blocks)
        )
        self.token = nn.Parameter(torch.randn(channels) * 0.02) if pooling == "one-token" else None
        self.places = _places(positions, order + 1, channels)
        self.read = nn.Linear(channels, mlp)
        self.head = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(mlp, classes))

    @property
    def readout(self) -> nn.Linear:
        """The last layer."""
        return self.head[-1]  # type: ignore[return-value]

    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Return the logits of the windows of x (B, T, D)."""
        steps = x.shape[1]
        samples = min(steps, self.order + 1)
        every = range(1, samples + 1)
        pool = self._form(x, samples)
        if multiplets:
            logits = self.head(pool(0, steps - samples + 1, every))  # (B, W, M, K)
            first, full = logits[:, 0], logits[:, 1:, -1]
            short = logits[:, 1:, -2] if samples > 1 else torch.zeros_like(full)
            return WindowLogits(first, full, short, logits)
        first = self.head(pool(0, 1, every))[:, 0]  # (B, M, K)
        if steps == samples:
            none = first[:, :0]
            return WindowLogits(first, none, none)
        if samples == 1:
            full = self.head(pool(1, steps, range(1, 2)))[:, :, 0]  # (B, W-1, K)
            return WindowLogits(first, full, torch.zeros_like(full))
        both = self.head(pool(1, steps - samples + 1, range(samples - 1, samples + 1)))  # (B, W-1, 2, K)
        return WindowLogits(first, both[:, :, 1], both[:, :, 0])

    def _form(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Return the cheapest exact way to encode the prefixes of windows of x (B, T, D)."""
        if len(self.blocks) == 1 and self.token is not None:
            return self._single(x, samples)
        return self._narrow(x, samples) if len(self.blocks) == 1 else self._wide(x, samples)

    def _windows(self, x: Tensor, samples: int) -> Tensor:
        """Return the samples of all windows with their places, (B, W, M, D)."""
        windows = x.unfold(1, samples, 1).transpose(2, 3)  # a view
        return windows if self.places is None else windows + self.places[:samples]

    def _wide(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Encode one prefix length at a time with D-wide tokens."""
        windows = self._windows(x, samples)

        def pool(start: int, stop: int, lengths: range) -> Tensor:
            chosen = windows[:, start:stop]
            rows = chosen.reshape(-1, samples, x.shape[2])  # (B·W, M, D)
            pooled = torch.stack([self._encode(rows[:, :length]) for length in lengths], dim=1)
            return self.read(pooled).view(*chosen.shape[:2], len(lengths), -1)  # (B, W, lengths, mlp)

        return pool

    def _encode(self, tokens: Tensor) -> Tensor:
        """Mix and pool the tokens (R, i, D) of one prefix: (R, D)."""
        length = tokens.shape[1]
        if self.token is not None:
            tokens = torch.cat([self.token.expand(len(tokens), 1, -1), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        if self.token is not None:
            return tokens[:, 0]
        return tokens.sum(1) / (self.order + 1 if self.pooling == "nsp" else length)

    def _single(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Follow the learned token alone: with one block, nobody reads what the others become."""
        block: Block = self.blocks[0]  # type: ignore[assignment]
        windows = self._windows(x, samples)

        def pool(start: int, stop: int, lengths: range) -> Tensor:
            chosen = windows[:, start:stop]
            rows = chosen.reshape(-1, samples, x.shape[2])  # (B·W, M, D)
            tokens = torch.cat([self.token.expand(len(rows), 1, -1), rows], dim=1)  # type: ignore[union-attr]
            q, k, v = split_heads(block.qkv(block.norm1(tokens)), block.heads)
            mixed = [
                F.scaled_dot_product_attention(q[:, :, :1], k[:, :, : i + 1], v[:, :, : i + 1])
                for i in lengths
            ]
            heads = torch.cat(mixed, dim=2).transpose(1, 2).flatten(2)  # (B·W, lengths, h·d)
            token = block.feed(self.token + block.out(block.dropout(heads)))
            return self.read(token).view(*chosen.shape[:2], len(lengths), -1)

        return pool

    def _narrow(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Project the samples once; all that follows is as narrow as heads, units and MLP.

        With one block, the MLP's first layer R reads R Σ_s (x_s + O a_s + C relu(E(x_s + O a_s))): everything
        D wide is linear, so R, E and their products with O and C are applied to the samples and the heads
        directly. A LayerNorm before E is no hindrance: the tokens' variances are quadratic in the heads.
        """
        block: Block = self.blocks[0]  # type: ignore[assignment]
        out, expand = block.out.weight, block.expand.weight  # (D, h·d), (ff, D)
        read_out = self.read.weight @ out  # (mlp, h·d)
        read_contract = self.read.weight @ block.contract.weight  # (mlp, ff)
        sizes = [len(block.qkv.weight), len(expand), len(self.read.weight)]
        norm = block.norm2 if isinstance(block.norm2, nn.LayerNorm) else None
        if norm is None:
            windows = self._projected(block, x, samples)
            expand_out = expand @ out  # (ff, h·d)
        else:
            windows = self._normalized(block, norm, x, samples)
            sizes += [1, out.shape[1]]
            centred = out - out.mean(0)
            expand_out = expand * norm.weight @ centred
            square, bias = centred.t() @ centred / len(out), F.linear(norm.bias, expand, block.expand.bias)

        def pool(start: int, stop: int, lengths: range) -> Tensor:
            chosen = windows[:, start:stop]
            qkv, units, direct, *more = chosen.flatten(0, 1).split(sizes, dim=-1)
            q, k, v = split_heads(qkv, block.heads)
            variance = TokenVariance(more[0], more[1], square, bias) if norm else None
            pooled = pool_prefixes(q, k, v, units, expand_out, lengths, variance)
            heads, fired = map(block.dropout, pooled)
            counts = torch.tensor(list(lengths), device=x.device)
            summed = direct.cumsum(1)[:, counts - 1]  # (R, lengths, mlp)
            summed = summed + F.linear(heads, read_out) + F.linear(fired, read_contract)
            summed = summed / (self.order + 1 if self.pooling == "nsp" else counts[:, None])
            return (summed + self.read.bias).view(*chosen.shape[:2], len(lengths), -1)

        return pool

    def _projected(self, block: Block, x: Tensor, samples: int) -> Tensor:
        """Return what a token itself gives to queries, keys and values, units and MLP: (B, W, M, ...)."""
        weight = torch.cat([block.qkv.weight, block.expand.weight, self.read.weight])
        projected = F.linear(x, weight)  # (B, T, 3·h·d + ff + mlp)
        expand_bias = F.linear(block.out.bias, block.expand.weight, block.expand.bias)
        fixed = torch.cat([block.qkv.bias, expand_bias, self._read_bias(block)])  # what no sample changes
        if self.places is not None:
            fixed = fixed + F.linear(self.places[:samples], weight)  # (M, ...)
        return Windows.apply(projected, samples) + fixed

    def _normalized(self, block: Block, norm: nn.LayerNorm, x: Tensor, samples: int) -> Tensor:
        """As `_projected`, where `norm` comes before the units; then |Cy|² / D + ε and 2 Oᵀ C y / D.

        These two are what `TokenVariance` needs of the token itself, y.
        """
        tokens = x if self.places is None else self._windows(x, samples)
        centred = tokens + block.out.bias
        centred = centred - centred.mean(-1, keepdim=True)
        channels = x.shape[2]
        projected = torch.cat(
            [
                block.qkv(block.norm1(tokens)),
                F.linear(centred, block.expand.weight * norm.weight),
                F.linear(tokens, self.read.weight, self._read_bias(block)),
                centred.square().mean(-1, keepdim=True) + norm.eps,
                centred @ block.out.weight * (2 / channels),
            ],
            dim=-1,
        )
        return projected if self.places is not None else Windows.apply(projected, samples)

    def _read_bias(self, block: Block) -> Tensor:
        """Return what the MLP's first layer gets from the block's biases for every token."""
        return F.linear(block.out.bias + block.contract.bias, self.read.weight)


def _places(positions: str, length: int, channels: int) -> Tensor | None:
    """Return positional encodings (M, D), or None."""
    if positions == "none":
        return None
    if positions == "learned":
        return nn.Parameter(torch.randn(length, channels) * 0.02)
    place = torch.arange(length)[:, None]  # (M, 1)
    channel = torch.arange(channels)
    angle = place * torch.exp(-math.log(10000.0) * (channel - channel % 2) / channels)
    return nn.Buffer(torch.where(channel % 2 == 0, angle.sin(), angle.cos()))
