"""Helper that creates classifiers for tests."""

import stopwise as sw
from stopwise.models.networks.base import NetworkModel

TRAINING = sw.models.Training().get_params()
NETWORKS = [name for name, kind in sw.models.MODELS.items() if issubclass(kind, NetworkModel)]


def early(model="accumulator", **params):
    """Return a classifier; `params` may be parameters of the classifier, its model or its training.

    A small prefix model has none of the options of networks. In "auto" the options are those of the network.
    """
    own = sw.EarlyClassifier().get_params(deep=False)
    if model in ("prefix", "auto"):
        prefix, rest = sw.models.Prefix(kernels=16), {k: v for k, v in params.items() if k not in own}
        small = {"hidden": 4, "max_epochs": 1, "order": 0} | rest
        model = prefix if model == "prefix" else sw.models.Stack([prefix, early(**small).model])
        params = {name: value for name, value in params.items() if name in own}
    clf = sw.EarlyClassifier(model, progress=False)
    names = {
        name: name if name in own else f"model__training__{name}" if name in TRAINING else f"model__{name}"
        for name in params
    }
    return clf.set_params(**{names[name]: value for name, value in params.items()})
