"""Helper that creates classifiers for tests."""

import stopwise as sw

TRAINING = sw.models.Training().get_params()


def early(model="accumulator", **params):
    """Return a classifier; `params` may be parameters of the classifier, its model or its training."""
    clf = sw.EarlyClassifier(model, progress=False)
    own = clf.get_params(deep=False)
    names = {
        name: name if name in own else f"model__training__{name}" if name in TRAINING else f"model__{name}"
        for name in params
    }
    return clf.set_params(**{names[name]: value for name, value in params.items()})
