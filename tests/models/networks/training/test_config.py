"""Tests of the training options: validation, conversion of numbers, and the scikit-learn interface."""

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone

from stopwise.models import Training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_epochs": 0}, "`max_epochs` must be >= 1; got 0"),
        ({"max_epochs": 2.0}, r"`max_epochs` must be .*; got 2.0 \(float\)"),
        ({"max_epochs": True}, "`max_epochs` must be .*; got True"),
        ({"batch_size": 0}, "`batch_size` must be >= 1"),
        ({"learning_rate": 0}, r"`learning_rate` must be in \(0, inf\)"),
        ({"learning_rate": np.nan}, r"`learning_rate` must be in \(0, inf\); got nan"),
        ({"optimizer": "sgd"}, "`optimizer` must be one of 'adam', 'rmsprop'; got 'sgd'"),
        ({"schedule": "linear"}, "`schedule` must be one of 'constant', 'cosine'"),
        ({"weight_decay": -1}, r"`weight_decay` must be in \[0, inf\)"),
        ({"gradient_clip": 0}, r"`gradient_clip` must be in \(0, inf\)"),
        ({"patience": 0}, "`patience` must be >= 1"),
        ({"validation_fraction": 1.0}, r"`validation_fraction` must be in \[0, 1\)"),
        ({"device": "gpu"}, "`device` must be a torch device that is available .*'cpu'.*got 'gpu'"),
        ({"device": 1.5}, "`device` must be a torch device"),
        ({"weight_average": 0}, r"`weight_average` must be in \(0, 1\]"),
        ({"weight_average": 1.5}, r"`weight_average` must be in \(0, 1\]"),
        ({"epsilon": 0}, r"`epsilon` must be in \(0, inf\); got 0"),
        ({"epoch_series": 0}, "`epoch_series` must be >= 1"),
        ({"devices": 0}, "`devices` must be in \\[1, 4096\\]"),
    ],
)
def test_invalid_option_raises_error_with_its_name(changes, message):
    wrong = Training(**changes)  # as in scikit-learn, the constructor does not validate
    with pytest.raises((TypeError, ValueError), match=message):
        wrong.checked()
    with pytest.raises((TypeError, ValueError), match=message):
        Training().checked(**changes)


def test_checked_options_are_python_numbers():
    given = Training(
        max_epochs=np.int64(3),
        learning_rate=np.float32(0.1),
        gradient_clip=np.float64(2),
        patience=np.int32(4),
        device=torch.device("cpu"),
    )
    checked = given.checked(batch_size=np.uint8(7)).get_params()
    assert json.loads(json.dumps(checked)) == checked
    assert checked["learning_rate"] == float(np.float32(0.1))
    assert (checked["max_epochs"], checked["batch_size"], checked["device"]) == (3, 7, "cpu")
    assert isinstance(given.max_epochs, np.int64)  # the original is not changed


def test_scikit_learn_parameter_interface_works():
    training = Training(max_epochs=3, optimizer="rmsprop")
    assert clone(training).get_params() == training.get_params()
    assert repr(training.set_params(max_epochs=50)) == "Training(optimizer='rmsprop')"
    with pytest.raises(ValueError, match="Invalid parameter 'epochs'"):
        training.set_params(epochs=3)
