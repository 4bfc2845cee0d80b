"""Tests of the base class of models, with a custom model that is not a network."""

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_worlds import examples, gaussian, small_model, world

from stopwise.models import Accumulator, Model, Step, Training
from stopwise.models.base import plain_params
from stopwise.models.registry import make, rebuild
from stopwise.models.rescoring import RescoringStep
from stopwise.persistence import tensors as files


class GaussianMeans(Model):
    """Model of independent Gaussian samples with one mean per class: sums of closed-form log-likelihoods."""

    def __init__(self, shrink=0.0):
        self.shrink = shrink

    def fit(self, data, validation=None, *, random_state=0, progress=False, checkpoint=None, on_epoch=None):
        x, lengths = data.read(np.arange(len(data)))
        own = np.arange(x.shape[1]) < lengths[:, None]  # (n, T)
        samples = [x[data.y == k][own[data.y == k]] for k in range(data.classes)]
        self.means_ = (1 - self.shrink) * np.stack([part.mean(0) for part in samples])  # (K, C)
        self.variance_ = np.mean([part.var(0) for part in samples], axis=0)  # (C,)
        self.classes_count_, self.channels_ = data.classes, data.channels
        self.report_ = {"series": len(data)}
        return self

    def increments(self, x):
        """Return the log-likelihoods (..., K) of samples x (..., C), up to a constant."""
        return ((x[..., None, :] - self.means_) ** 2 / self.variance_).sum(-1) / -2

    def scores(self, x):
        return self.increments(x).cumsum(1)

    def tensors(self):
        return {name: torch.from_numpy(getattr(self, f"{name}_")) for name in ("means", "variance")}

    def restore(self, fitted, tensors):
        self.classes_count_, self.channels_ = fitted["classes"], fitted["channels"]
        if tensors["means"].shape != (self.classes_count_, self.channels_):
            raise ValueError("`means` must have shape (classes, channels).")
        self.means_, self.variance_ = tensors["means"].numpy(), tensors["variance"].numpy()


class SumStep(Step):
    """Streaming step that adds the log-likelihood of a sample to the scores and stores nothing else."""

    def __init__(self, model):
        super().__init__(model.classes_count_, model.channels_)
        self.model = model

    def kept(self):
        return {}

    def __call__(self, state, x):
        return {"time": state["time"] + 1, "scores": state["scores"] + self.model.increments(x)}


class SteppingMeans(GaussianMeans):
    def step(self, xp=np):
        return SumStep(self)


class Unsaved(GaussianMeans):
    tensors, restore = Model.tensors, Model.restore


@pytest.fixture(scope="module")
def data():
    X, y, _ = gaussian(400, offset=1.0, classes=3, steps=5)
    return examples(X, y, lengths=np.random.default_rng(0).integers(1, 6, 400))


def test_custom_model_learns_and_scores(data):
    model = GaussianMeans().fit(data)
    new, _, truth = gaussian(50, classes=3, steps=5, seed=1)
    scores = model.scores(new.astype(np.float32))
    assert scores.shape == (50, 5, 3)
    ours, true = (one[..., :1] - one[..., 1:] for one in (scores, truth))
    assert np.corrcoef(ours.ravel(), true.ravel())[0, 1] > 0.98
    assert model.held_out_scores_ is None


@pytest.mark.parametrize("kind", [GaussianMeans, SteppingMeans])
def test_custom_model_streams_with_and_without_custom_step(data, kind):
    model = kind().fit(data)
    x = gaussian(3, classes=3, steps=20, seed=2)[0].astype(np.float32)
    step = model.step()
    assert isinstance(step, RescoringStep) == (kind is GaussianMeans)
    state = step.start(3)
    for t in range(20):
        state = step(state, x[:, t])
        np.testing.assert_allclose(state["scores"], model.scores(x)[:, t], rtol=1e-5, atol=1e-5)


def test_custom_model_without_step_cannot_be_exported(data):
    with pytest.raises(TypeError, match="GaussianMeans does not implement a streaming step, so it cannot"):
        GaussianMeans().fit(data).step(torch)


def test_custom_model_is_saved_without_code(data, tmp_path):
    model = GaussianMeans(shrink=0.1).fit(data)
    assert make(model).get_params() == {"shrink": 0.1}
    assert not hasattr(make(model), "means_")
    files.write(tmp_path / "model", model.tensors(), model.describe())
    tensors, about = files.read(tmp_path / "model")
    assert about["name"] is None
    assert about["class"] == "GaussianMeans"
    again = rebuild(about, tensors, GaussianMeans(shrink=0.1))
    x = data.read(np.arange(9))[0]
    np.testing.assert_array_equal(again.scores(x), model.scores(x))
    assert again.report_ == {"series": 400}


def test_rebuild_checks_class_and_tensors_of_custom_model(data):
    model = GaussianMeans().fit(data)
    about, tensors = model.describe(), model.tensors()
    message = "the saved model is of the custom class GaussianMeans: pass an unfitted instance"
    with pytest.raises(ValueError, match=message):
        rebuild(about, tensors)
    with pytest.raises(ValueError, match=message):
        rebuild(about, tensors, GaussianMeans)  # the class, not an instance
    with pytest.raises(ValueError, match="`model` must be a GaussianMeans; got SteppingMeans"):
        rebuild(about, tensors, SteppingMeans())
    with pytest.raises(ValueError, match=r"`means` must have shape"):
        rebuild(about, tensors | {"means": torch.zeros(2, 3)}, GaussianMeans())


def test_model_without_tensors_cannot_be_saved(data):
    model = Unsaved().fit(data)
    with pytest.raises(TypeError, match="Unsaved cannot be saved: it does not implement `tensors`"):
        model.tensors()
    with pytest.raises(TypeError, match="Unsaved cannot be loaded: it does not implement `restore`"):
        rebuild(model.describe(), {}, Unsaved())


def test_subclass_of_built_in_model_is_a_custom_model():
    class Louder(Accumulator):
        def scores(self, x):
            return 2 * super().scores(x)

    training = Training(max_epochs=1)
    model = Louder(order=0, hidden=4, training=training).fit(world())
    about, tensors = json.loads(json.dumps(model.describe())), model.tensors()
    assert (about["name"], about["class"]) == (None, "Louder")
    with pytest.raises(ValueError, match="the saved model is of the custom class Louder"):
        rebuild(about, tensors)
    x = world().read(np.arange(5))[0]
    again = rebuild(about, tensors, Louder(order=0, hidden=4, training=training))
    np.testing.assert_array_equal(again.scores(x), model.scores(x))


# Parameters


@pytest.mark.parametrize("name", ["accumulator", "b2bsqrt", "tandemformer", "tanh"])
def test_clone_has_equal_parameters_and_is_not_fitted(name):
    model = small_model(name, dropout=0.25).fit(world())
    copy = clone(model)
    assert plain_params(copy) == plain_params(model)
    assert copy.training is not model.training
    assert not [attribute for attribute in vars(copy) if attribute.endswith("_")]


def test_get_params_includes_options_of_given_training():
    assert "training__learning_rate" not in Accumulator().get_params(deep=True)
    given = Accumulator(training=Training(learning_rate=0.5)).get_params(deep=True)
    assert given["training__learning_rate"] == 0.5


def test_set_params_creates_training_if_none():
    model = Accumulator()
    assert model.set_params(training__max_epochs=3, hidden=4) is model
    assert model.training.max_epochs == 3
    assert repr(model) == "Accumulator(hidden=4, training=Training(max_epochs=3))"
    assert Accumulator().training is None  # the default is not an object shared by all models
    model.set_params(training__max_epochs=4)
    assert model.training.max_epochs == 4
    assert model.set_params(training=None).training is None


def test_plain_params_are_json():
    model = Accumulator(order=np.int64(2), dropout=np.float64(0.5), training=Training(max_epochs=np.int32(3)))
    plain = plain_params(model)
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["order"], plain["training"]["max_epochs"]) == (2, 3)
