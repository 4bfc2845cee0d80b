"""Networks without memory, to compare the sizes in a description with the weights in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stopwise.models.networks.modules import Integrator

# Creating a network takes some calls to torch, up to 6 per tensor in large networks.
CALLS, CALLS_PER_TENSOR = 100, 10
MOST_TENSORS = 2000
MOST_WEIGHTS = 10**10
SHOWN = 3


def blank(build: Callable[[], Integrator], most: int) -> Integrator:
    """Build a network whose tensors have shapes but no memory, and without random numbers.

    Parameters
    ----------
    build
        Function that builds the network.
    most
        Number of tensors that the network should have at most. Settings of a network with many more raise a
        ValueError early.

    Examples
    --------
    >>> from stopwise.models import B2BsqrtTandem
    >>> net = blank(lambda: B2BsqrtTandem(hidden=10**6).build(3, 2, 1, 10), most=5)
    >>> net.lstm.recurrent.shape
    torch.Size([4000000, 1000000])
    """
    with torch.device("meta"), _Uninitialized(most):
        return build()


def check_buildable(build: Callable[[], Integrator]) -> None:
    """Raise a ValueError if a network is too large to be built; errors of other kinds stay as they are.

    Examples
    --------
    >>> from stopwise.models import TanhTandem
    >>> check_buildable(lambda: TanhTandem(hidden=10**6).build(3, 2, 1, 10))
    Traceback (most recent call last):
    ...
    ValueError: the network would have 4000018000002 weights; at most 10000000000 are supported. Choose ...
    """
    try:
        net = blank(build, MOST_TENSORS)
        weights = sum(tensor.numel() for tensor in net.state_dict().values())
    except (RuntimeError, OverflowError, TypeError) as error:
        if isinstance(error, TypeError) and "unpack" not in str(error):
            raise
        weights = 2**63  # torch cannot represent the sizes
    if weights > MOST_WEIGHTS:
        raise ValueError(
            f"the network would have {weights} weights; at most {MOST_WEIGHTS} are supported. Choose smaller "
            "sizes."
        )


def check_weights(net: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError if tensors have other names, shapes or types than the weights of a network."""
    expected = net.state_dict()
    wrong = [f"{name} is missing" for name in expected if name not in tensors]
    wrong += [f"{name} is unknown" for name in tensors if name not in expected]
    for name, tensor in expected.items():
        found = tensors.get(name, tensor)
        if (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            wrong.append(
                f"{name} must be {tensor.dtype} of shape {tuple(tensor.shape)}; got {found.dtype} of shape "
                f"{tuple(found.shape)}"
            )
    if wrong:
        more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise ValueError(
            f"`tensors` must be the weights of this model, a {type(net).__name__}: "
            f"{', '.join(wrong[:SHOWN])}{more}. Save the model again."
        )


class _Uninitialized(TorchFunctionMode):
    """Skip the initialization of weights, and limit the number of calls to torch."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.left = most, CALLS + CALLS_PER_TENSOR * most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError(
                f"the network must have at most {self.most} weight tensors; its settings ask for more."
            )
        kwargs = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)
