"""Model that wraps a custom torch module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from stopwise.models.networks.base import NetworkModel
from stopwise.models.networks.modules import Integrator
from stopwise.models.networks.training.config import Training
from stopwise.models.networks.training.loop import Task

TRIED_STEPS = 6  # length of the random series for the test before training


class Network(NetworkModel):
    """Model that wraps a custom torch module.

    The order search, training and polishing are those of the built-in networks. Before training, the module
    is tested on random series. An error is raised if the scores have the wrong shape or depend on later
    samples, or if a setting needs something that the module does not provide.

    Streaming scores all samples so far again at each step, unless a subclass overrides `step`. A saved
    classifier does not contain the code of the module, so pass the unfitted model when loading it:
    ``stopwise.load(path, model=Network(MyModule))``.

    Parameters
    ----------
    module
        Subclass of `Integrator`, or any callable that takes (channels, classes, order) and returns an
        `Integrator`.
    order
        N, the Markov order, as for `TanhTandem`. If None, the module receives T−1, the longest order.
    params
        Additional keyword arguments of the module, such as ``{"dropout": 0.1}``.
    loss, llre_ratio, polish, training
        As for `Accumulator`. A value of `llre_ratio` below 1 needs a module that returns multiplets.
        Polishing needs a module with a `readout`.

    Examples
    --------
    >>> import stopwise as sw
    >>> import torch
    >>> class Linear(sw.models.Integrator):
    ...     def __init__(self, channels, classes, order):
    ...         super().__init__(channels, classes, order)
    ...         self.head = torch.nn.Linear(channels, classes)
    ...     def evidence(self, x, multiplets):
    ...         return sw.models.Evidence(self.head(x).cumsum(1), None)
    >>> X, y, _ = sw.datasets.gaussian(n=200, channels=3, length=10, seed=0)
    >>> model = sw.models.Network(Linear, order=0, llre_ratio=1.0, polish=False)
    >>> sw.EarlyClassifier(model.set_params(training__max_epochs=3)).fit(X, y).scores(X).shape
    (200, 10, 2)
    """

    def __init__(
        self,
        module: Callable[..., Integrator],
        order: int | str | None = "auto",
        params: Mapping[str, Any] | None = None,
        loss: str = "lsel",
        llre_ratio: float = 0.5,
        polish: bool = True,
        training: Training | None = None,
    ) -> None:
        self.module = module
        self.order = order
        self.params = params
        self.loss = loss
        self.llre_ratio = llre_ratio
        self.polish = polish
        self.training = training

    def build(self, channels: int, classes: int, order: int | None, steps: int) -> Integrator:
        """Build an untrained network; see `NetworkModel.build`."""
        params = dict(self.params or {})
        if not callable(self.module):
            raise TypeError(
                "`module` must be a callable that takes (channels, classes, order) and returns an "
                f"Integrator; got {self.module!r}."
            )
        size = steps - 1 if order is None else order
        try:
            inspect.signature(self.module).bind(channels, classes, size, **params)
        except TypeError as error:
            raise TypeError(
                "`module` must accept the arguments (channels, classes, order) and the `params` "
                f"{', '.join(map(repr, params)) or '(none given)'}; {error}."
            ) from error
        net = self.module(channels, classes, size, **params)
        if not isinstance(net, Integrator):
            raise TypeError(f"`module` must return a stopwise.models.Integrator; got {type(net).__name__}.")
        return net

    def _preflight(self, task: Task) -> None:
        super()._preflight(task)
        order = None if self.order in (None, "auto") else self.order
        net = self._fresh(order, task.seed).eval()  # type: ignore[arg-type]
        name = type(net).__name__
        steps = min(self._steps, TRIED_STEPS)
        generator = torch.Generator().manual_seed(task.seed)
        x = torch.randn(2, steps, self.channels_, generator=generator)
        with torch.no_grad():
            scores, multiplets = net(x, task.objective.needs_multiplets)
            earlier = net(x[:, : steps - 1], False).scores if steps > 1 else scores[:, :0]
        if tuple(scores.shape) != (2, steps, self.classes_count_):
            raise ValueError(
                f"{name} must return scores of shape (series, steps, classes), here "
                f"{(2, steps, self.classes_count_)}; got {tuple(scores.shape)}."
            )
        if not torch.allclose(scores[:, : steps - 1], earlier, rtol=1e-3, atol=1e-4):
            raise ValueError(
                f"{name} must compute the scores at step t from the samples up to step t; got scores that "
                "change with later samples."
            )
        if task.objective.needs_multiplets and multiplets is None:
            raise TypeError(
                f"`llre_ratio`={task.objective.llre_ratio:g} needs the logits of the multiplets, but {name} "
                "returns None for them. Set llre_ratio=1.0."
            )
        if self.polish and not isinstance(net.readout, torch.nn.Linear):
            raise TypeError(
                f"`polish`=True needs {name}.readout to be an nn.Linear; got {net.readout!r}. Return the "
                "last layer, or set polish=False."
            )
