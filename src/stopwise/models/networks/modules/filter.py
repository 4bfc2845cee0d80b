"""Filter over hidden states, for series whose evidence no finite window holds.

Each class has a Markov chain of M hidden states with transitions of its own. The emissions, the densities of
a sample given the state, are shared by all classes up to a factor per state and class. With a head that is
linear in the sample, this represents Gaussian samples whose mean is the sum of a part that depends on the
state and a part that depends on the class. The filter keeps, for each class, the belief: the probabilities of
the states given the samples so far. The increment of a sample is the logarithm of its density under the
predicted belief.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Added to the predicted probability of each state. It bounds the increments and prevents the logarithm of 0.
# Its inverse, which occurs in gradients, is far from overflow in single precision.
FLOOR = 1e-30


class HiddenStateFilter(nn.Module):
    """Increments of evidence from a Bayesian filter over hidden states.

    Parameters
    ----------
    channels
        D, the number of input values per sample.
    features
        H, the number of features of a sample.
    classes
        K, the number of classes.
    states
        M, the number of hidden states.

    Examples
    --------
    >>> import torch
    >>> filter = HiddenStateFilter(channels=3, features=5, classes=2, states=4)
    >>> filter(torch.zeros(10, 6, 5), torch.zeros(10, 6, 3)).shape
    torch.Size([10, 6, 2])
    """

    def __init__(self, channels: int, features: int, classes: int, states: int) -> None:
        super().__init__()
        self.states = states
        # Logarithms of densities, up to a term common to all states. Linear in the sample and its features.
        self.emission = nn.Linear(channels + features, states)
        self.transition = nn.Parameter(torch.randn(classes, states, states))  # logits; [k, i, j]: from i to j
        self.start = nn.Parameter(torch.zeros(classes, states))  # logits of the first state
        self.class_bias = nn.Parameter(torch.zeros(classes, states))  # of the log-densities, in each class

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return what the beliefs are multiplied with: transitions (K, M, M) and first distributions (K, M).

        They contain the factors of the densities that do not depend on the sample.
        """
        factor = self.class_bias.exp()
        return self.transition.softmax(-1) * factor[:, None], self.start.softmax(-1) * factor

    def forward(self, features: Tensor, x: Tensor) -> Tensor:
        """Return the increments (T, B, K), with mean 0 over classes, of samples x (T, B, D).

        Only differences between classes are evidence. Without their mean, which is the density of the samples
        under all classes, the sum of the increments stays small enough for single precision.

        Parameters
        ----------
        features
            (T, B, H) features of the samples.
        x
            (T, B, D) samples, with time as the leading dimension.
        """
        weight, bias = self.emission.weight, self.emission.bias
        own, shared = weight.split([x.shape[-1], features.shape[-1]], dim=1)
        logs = nn.functional.linear(x, own, bias) + nn.functional.linear(features, shared)  # (T, B, M)
        # A shift by the same amount in all classes changes no difference, so its gradient is left out.
        logs = logs - logs.detach().amax(-1, keepdim=True)
        increments = _Forward.apply(logs, *self.factors()).transpose(1, 2)  # (T, B, K)
        return increments - increments.mean(-1, keepdim=True)


class _Forward(torch.autograd.Function):
    """Forward algorithm with a hand-written backward pass.

    The largest density of each sample is 1 and each predicted probability is at least `FLOOR`, so the density
    of a sample is never smaller than `FLOOR`. The backward pass carries gradients of the logarithms of the
    beliefs. Like probabilities, they are bounded; the gradients of the beliefs themselves would overflow
    after a few improbable samples.
    """

    @staticmethod
    def forward(ctx: Any, logs: Tensor, transition: Tensor, start: Tensor) -> Tensor:
        """Return the log-densities (T, K, B) of the samples given the past.

        Parameters
        ----------
        ctx
            Context of autograd.
        logs
            (T, B, M) log-densities of the samples given the state, the largest near 0.
        transition
            (K, M, M) factors of the transitions.
        start
            (K, M) factors of the first state.
        """
        steps, series, states = logs.shape
        classes, densities = len(start), logs.exp()
        beliefs = logs.new_empty(steps, classes, series, states)
        predictions, totals = torch.empty_like(beliefs), logs.new_empty(steps, classes, series)
        for t in range(steps):
            prediction = predictions[t]
            if t:
                prediction.fill_(FLOOR).baddbmm_(beliefs[t - 1], transition)
            else:
                prediction.copy_(start[:, None] + FLOOR)
            belief = torch.mul(prediction, densities[t], out=beliefs[t])
            belief /= torch.sum(belief, dim=-1, out=totals[t])[..., None]
        ctx.save_for_backward(transition, predictions, beliefs)
        return totals.log_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of the log-densities, the transitions and the first distributions."""
        transition, predictions, beliefs = ctx.saved_tensors
        backward = transition.transpose(1, 2)
        of_joint = torch.empty_like(beliefs)  # of the logarithm of prediction times density
        of_prediction = torch.empty_like(beliefs)
        of_belief = torch.zeros_like(beliefs[0])  # of its logarithm
        for t in reversed(range(len(beliefs))):
            shared = gradient[t] - of_belief.sum(-1)
            torch.addcmul(of_belief, beliefs[t], shared[..., None], out=of_joint[t])
            torch.div(of_joint[t], predictions[t], out=of_prediction[t])
            if t:
                of_belief = torch.bmm(of_prediction[t], backward).mul_(beliefs[t - 1])
        classes, states = transition.shape[:2]
        before, after = (
            part.transpose(0, 1).reshape(classes, -1, states) for part in (beliefs[:-1], of_prediction[1:])
        )
        return of_joint.sum(1), before.transpose(1, 2) @ after, of_prediction[0].sum(1)
