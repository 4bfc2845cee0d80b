"""Networks without memory, to compare the sizes in a description with the weights in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stopwise.models.networks.modules import Integrator

# Creating a parameter takes several calls to torch.
CALLS_PER_TENSOR = 20
SHOWN = 3


def blank(build: Callable[[], Integrator], most: int) -> Integrator:
    """Build a network whose tensors have shapes but no memory, and without random numbers.

    Parameters
    ----------
    build
        Function that builds the network.
    most
        Number of tensors that the network should have. A description of a much larger network raises a
        ValueError early.

    Examples
    --------
    >>> from stopwise.models import B2BsqrtTandem
    >>> net = blank(lambda: B2BsqrtTandem(hidden=10**6).build(3, 2, 1, 10), most=5)
    >>> net.lstm.recurrent.shape
    torch.Size([4000000, 1000000])
    """
    with torch.device("meta"), _Uninitialized(CALLS_PER_TENSOR * (most + 1)):
        return build()


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
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("the description is that of a network with more tensors than there are.")
        kwargs = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **kwargs)
