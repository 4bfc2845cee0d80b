"""TANDEMformer network, a transformer whose pooling allows evidence to accumulate."""

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
    """Transformer block: self-attention and a two-layer feed-forward network, with residual connections.

    Layer normalization is optional and comes before each part (pre-norm). Dropout applies to the outputs of
    the attention heads and to the hidden units of the feed-forward network.
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
        """Apply the block to tokens (R, L, D)."""
        q, k, v = split_heads(self.qkv(self.norm1(tokens)), self.heads)  # (R, h, L, d) each
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (R, L, h·d)
        return self.feed(tokens + self.out(self.dropout(mixed)))

    def feed(self, tokens: Tensor) -> Tensor:
        """Apply the feed-forward part, with its residual connection, to tokens (..., D)."""
        return tokens + self.contract(self.dropout(torch.relu(self.expand(self.norm2(tokens)))))


def split_heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split projections (R, L, 3·h·d) into queries, keys and values (R, h, L, d)."""
    rows, length, width = qkv.shape
    q, k, v = qkv.view(rows, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    return q, k, v


class TandemformerModule(WindowIntegrator):
    """Transformer on the samples of a window: self-attention blocks, pooling and a small MLP.

    Parameters
    ----------
    channels, classes, order, formula
        As for `WindowIntegrator`.
    blocks
        Number of transformer blocks. The blocks do not share weights.
    heads
        Number of attention heads per block.
    head_size
        Size of each attention head.
    feed_forward
        Number of hidden units of the feed-forward layer in each block.
    mlp
        Number of hidden units of the MLP after the pooling.
    pooling
        Pooling of the tokens of a prefix. "nsp" (normalized summation pooling): their sum divided by the
        constant N+1. "gap" (global average pooling): their mean. "one-token": the output of a learned token.
        Only "nsp" lets the evidence grow with the number of samples.
    layer_norm
        Apply layer normalization before attention and before the feed-forward layer. Off by default because
        it bounds the summed tokens.
    positions
        Positional encoding of a sample in its window: "none", "sinusoidal" or "learned". With "none", the
        order of the samples in a window has no effect, which suits samples that are independent in time.
    dropout
        Dropout rate in the blocks and in the MLP. With one block and pooling "nsp" or "gap", dropout in the
        block applies to the heads and units after they are summed over the tokens of a prefix, not to the
        heads and units of each token.
    width
        Size of the tokens, to which a linear layer maps the samples. If None, the samples are the tokens.

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
        width: int | None = None,
    ) -> None:
        super().__init__(channels, classes, order, formula)
        self.embed = None if width is None else nn.Linear(channels, check_integer("width", width, 1))
        self.size = size = channels if width is None else width  # of a token
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        check_choice("positions", positions, POSITIONS)
        sizes = {"blocks": blocks, "heads": heads, "head_size": head_size, "feed_forward": feed_forward}
        for name, value in (sizes | {"mlp": mlp}).items():
            check_integer(name, value, 1)
        check_real("dropout", dropout, 0, 1, open_high=True)
        self.blocks = nn.ModuleList(
            Block(size, heads, head_size, feed_forward, layer_norm, dropout) for _ in range(blocks)
        )
        self.token = nn.Parameter(torch.randn(size) * 0.02) if pooling == "one-token" else None
        self.places = _places(positions, order + 1, size)
        self.read = nn.Linear(size, mlp)
        self.head = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(mlp, classes))

    @property
    def readout(self) -> nn.Linear:
        """Last layer."""
        return self.head[-1]  # type: ignore[return-value]

    def windows(self, x: Tensor, multiplets: bool) -> WindowLogits:
        """Return the logits of the windows of x (B, T, D)."""
        x = x if self.embed is None else self.embed(x)
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
        """Return the fastest exact function that encodes the prefixes of the windows of x (B, T, D)."""
        if len(self.blocks) == 1 and self.token is not None:
            return self._single(x, samples)
        return self._narrow(x, samples) if len(self.blocks) == 1 else self._wide(x, samples)

    def _windows(self, x: Tensor, samples: int) -> Tensor:
        """Return the samples (B, W, M, D) of all windows with positional encodings added."""
        windows = x.unfold(1, samples, 1).transpose(2, 3)  # a view
        return windows if self.places is None else windows + self.places[:samples]

    def _wide(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Encode one prefix length at a time, with tokens of size D."""
        windows = self._windows(x, samples)

        def pool(start: int, stop: int, lengths: range) -> Tensor:
            chosen = windows[:, start:stop]
            rows = chosen.reshape(-1, samples, x.shape[2])  # (B·W, M, D)
            pooled = torch.stack([self._encode(rows[:, :length]) for length in lengths], dim=1)
            return self.read(pooled).view(*chosen.shape[:2], len(lengths), -1)  # (B, W, lengths, mlp)

        return pool

    def _encode(self, tokens: Tensor) -> Tensor:
        """Apply the blocks and the pooling to the tokens (R, i, D) of one prefix; return (R, D)."""
        length = tokens.shape[1]
        if self.token is not None:
            tokens = torch.cat([self.token.expand(len(tokens), 1, -1), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        if self.token is not None:
            return tokens[:, 0]
        return tokens.sum(1) / (self.order + 1 if self.pooling == "nsp" else length)

    def _single(self, x: Tensor, samples: int) -> Callable[[int, int, range], Tensor]:
        """Compute only the output of the learned token. With one block, no other output is used."""
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
        """Project the samples once, and then work only with the smaller sizes of heads, units and MLP.

        With one block, the first layer R of the MLP computes
        ``R Σ_s (x_s + O a_s + C relu(E (x_s + O a_s)))`` for samples x_s and heads a_s. All operations on
        tokens of size D are linear. R, E and their products with O and C can therefore be applied directly to
        the samples and the heads. This also works with a LayerNorm before E, because the variance of a token
        is a quadratic function of its heads.
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
            centered = out - out.mean(0)
            expand_out = expand * norm.weight @ centered
            square, bias = centered.t() @ centered / len(out), F.linear(norm.bias, expand, block.expand.bias)

        def pool(start: int, stop: int, lengths: range) -> Tensor:
            chosen = windows[:, start:stop]
            qkv, units, direct, *more = chosen.flatten(0, 1).split(sizes, dim=-1)
            q, k, v = split_heads(qkv, block.heads)
            variance = TokenVariance(more[0], more[1], square, bias) if norm else None
            pooled = pool_prefixes(q, k, v, units, expand_out, lengths, variance)
            heads, fired = map(block.dropout, pooled)
            counts = torch.tensor(list(lengths), device=x.device)
            summed = direct.cumsum(1)  # (R, M, mlp)
            summed = summed if len(lengths) == samples else summed[:, counts - 1]  # (R, lengths, mlp)
            summed = summed + F.linear(heads, read_out) + F.linear(fired, read_contract)
            summed = summed / (self.order + 1 if self.pooling == "nsp" else counts[:, None])
            return (summed + self.read.bias).view(*chosen.shape[:2], len(lengths), -1)

        return pool

    def _projected(self, block: Block, x: Tensor, samples: int) -> Tensor:
        """Project each token to queries, keys, values, units and MLP, without attention: (B, W, M, ...)."""
        weight = torch.cat([block.qkv.weight, block.expand.weight, self.read.weight])
        expand_bias = F.linear(block.out.bias, block.expand.weight, block.expand.bias)
        fixed = torch.cat([block.qkv.bias, expand_bias, self._read_bias(block)])  # independent of the samples
        projected = F.linear(x, weight, fixed)  # (B, T, 3·h·d + ff + mlp)
        windows = projected[:, None] if samples == x.shape[1] else Windows.apply(projected, samples)
        return windows if self.places is None else windows + F.linear(self.places[:samples], weight)

    def _normalized(self, block: Block, norm: nn.LayerNorm, x: Tensor, samples: int) -> Tensor:
        """As `_projected`, with the layer normalization `norm` before the units.

        The projections are followed by ``|Cy|² / D + ε`` and ``2 Oᵀ C y / D`` of each token y, which
        `TokenVariance` needs.
        """
        tokens = x if self.places is None else self._windows(x, samples)
        centered = tokens + block.out.bias
        centered = centered - centered.mean(-1, keepdim=True)
        channels = x.shape[2]
        projected = torch.cat(
            [
                block.qkv(block.norm1(tokens)),
                F.linear(centered, block.expand.weight * norm.weight),
                F.linear(tokens, self.read.weight, self._read_bias(block)),
                centered.square().mean(-1, keepdim=True) + norm.eps,
                centered @ block.out.weight * (2 / channels),
            ],
            dim=-1,
        )
        return projected if self.places is not None else Windows.apply(projected, samples)

    def _read_bias(self, block: Block) -> Tensor:
        """Return the contribution of the biases of the block to the first layer of the MLP, per token."""
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
