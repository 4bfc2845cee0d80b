"""The features and heads of a prefix model as named arrays, and back, with checks of their shapes."""

from __future__ import annotations

import numpy as np

from stopwise.models.prefix.features import BLOCKS, DIFFERENCES, Features
from stopwise.models.prefix.heads import Heads, RbfHeads
from stopwise.models.prefix.kernels import GROUP, TAPS, KernelBlock
from stopwise.models.prefix.statistics import (
    LAST,
    LEVEL_KINDS,
    LEVELS,
    MOMENTS,
    RECENT,
    RECENT_NUMBERS,
    Statistics,
)

KERNEL_ARRAYS = ("dilations", "members", "taps", "biases")
LARGEST_DILATION = LARGEST_STEP = 1 << 20
Arrays = dict[str, np.ndarray]


def tensors_of(features: Features, heads: Heads) -> Arrays:
    """Return all arrays by name."""
    found = {name: getattr(heads, name) for name in ("steps", "shares", "constant", "coefficients")}
    found["scale"] = features.scale
    for name, block in features.blocks.items():
        found |= {f"{name}.{array}": getattr(block, array) for array in KERNEL_ARRAYS}
    found |= {f"statistics.{name}": getattr(features.statistics, name) for name in ("levels", "products")}
    found |= {f"{name}.weights": weights for name, weights in heads.pooled.items()}
    for kind, rbf in heads.rbf.items():
        found |= {f"{kind}.{name}": value for name, value in vars(rbf).items()}
    return found


def features_of(arrays: Arrays, channels: int) -> Features:
    """Return the features; raise a ValueError if the arrays do not fit together."""
    blocks = {name: _block(arrays, name, channels) for name in BLOCKS}
    maps = [
        _checked(arrays, f"statistics.{name}", (channels, None), np.float32)
        for name in ("levels", "products")
    ]
    statistics = Statistics(maps[0], maps[1], min(RECENT, RECENT_NUMBERS // channels))
    return Features(_checked(arrays, "scale", (channels,), np.float32), blocks, statistics)


def heads_of(arrays: Arrays, features: Features, classes: int) -> Heads:
    """Return the heads; raise a ValueError if the arrays do not fit together."""
    steps = _checked(arrays, "steps", (None,), np.int64)
    heads = len(steps)
    if not heads or steps[0] != 1 or not (np.diff(steps) > 0).all() or steps[-1] > LARGEST_STEP:
        raise ValueError("`steps` must be increasing, from 1.")
    constant = _checked(arrays, "constant", (heads, classes), np.float64)
    coefficients = _checked(arrays, "coefficients", (heads, None, classes), np.float32)
    pooled = {
        name: _checked(arrays, f"{name}.weights", (heads, features.pooled, classes), np.float32)
        for name in BLOCKS
        if f"{name}.weights" in arrays
    }
    levels, products = features.statistics.levels.shape[1], features.statistics.products.shape[1]
    sizes = {
        LEVELS: LEVEL_KINDS * levels,
        MOMENTS: products * (products + 1) // 2 + products**2,
        LAST: features.statistics.recent * len(features.statistics.levels),
    }
    rbf = {
        kind: _rbf(arrays, kind, heads, size, coefficients.shape[1])
        for kind, size in sizes.items()
        if f"{kind}.landmarks" in arrays
    }
    shares = _checked(arrays, "shares", (heads,), np.float64)
    return Heads(steps, shares, pooled, rbf, coefficients, constant)


def _block(arrays: Arrays, name: str, channels: int) -> KernelBlock:
    dilations = _checked(arrays, f"{name}.dilations", (None,), np.int32)
    groups = len(dilations)
    members = _checked(arrays, f"{name}.members", (groups, None), np.int32)
    taps = _checked(arrays, f"{name}.taps", (groups, GROUP, 3), np.int32)
    biases = _checked(arrays, f"{name}.biases", (groups, GROUP), np.float32)
    if not groups or not ((dilations >= 1) & (dilations <= LARGEST_DILATION)).all():
        raise ValueError(f"`{name}.dilations` must be positive.")
    if not ((members >= -1) & (members < channels)).all() or not (members[:, 0] >= 0).all():
        raise ValueError(f"`{name}.members` must be channels below {channels}.")
    if not ((taps >= 0) & (taps < TAPS)).all():
        raise ValueError(f"`{name}.taps` must be in 0…{TAPS - 1}.")
    return KernelBlock(dilations, members, taps, biases, name == DIFFERENCES)


def _rbf(arrays: Arrays, kind: str, heads: int, size: int, marks: int) -> RbfHeads:
    shapes = {
        "center": (heads, size),
        "scale": (heads, size),
        "rate": (heads, 1),
        "wide": (heads, 1),
        "narrow": (heads, 1),
        "landmarks": (heads, marks, size),
    }
    return RbfHeads(
        **{name: _checked(arrays, f"{kind}.{name}", shape, np.float32) for name, shape in shapes.items()}
    )


def _checked(arrays: Arrays, name: str, shape: tuple[int | None, ...], dtype: type) -> np.ndarray:
    """Return an array of this type and shape (None: any size); raise a ValueError otherwise."""
    if name not in arrays:
        raise ValueError(f"the weights have no `{name}`.")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(want in (None, size) for want, size in zip(shape, array.shape))
    if not fits or array.dtype != dtype:
        raise ValueError(
            f"`{name}` must be {np.dtype(dtype)} of shape {shape}; got {array.dtype} of shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite.")
    return array
