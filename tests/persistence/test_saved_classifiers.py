"""Saving and loading of whole classifiers."""

import json
import warnings

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import NETWORKS, early
from stopwise.persistence.description import _scoring, describe, scoring_digest
from stopwise.persistence.digests import digest_json, digest_tensors
from stopwise.persistence.folder import ABOUT, ModelFolderError, load_model, save_model

X, Y, _ = sw.datasets.gaussian(400, offset=1.0, channels=2, length=6, seed=0)
NAMES = np.array(["no", "yes"])[Y]
SMALL = {
    "accumulator": {"hidden": 4},
    "b2bsqrt": {"hidden": 4},
    "tanh": {"hidden": 4},
    "tandemformer": {"heads": 1, "head_size": 4, "feed_forward": 4, "mlp": 4},
}


def fit(name, **params):
    own = SMALL.get(name, {}) | {"order": 1, "max_epochs": 1, "polish": False}
    return early(name, **own | params).fit(X[:100], NAMES[:100])


@pytest.fixture(params=sw.models.MODELS, scope="module")
def clf(request):
    return fit(request.param)


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def plain(about):
    """Return a description without what `save_model` adds."""
    added = ("sha256", "format", "format_version", "files", "versions")
    return {name: value for name, value in about.items() if name not in added}


def reseal(folder, change):
    """Change a saved description in place, with correct digests, as an attacker can."""
    tensors, about, seen, _ = load_model(folder)
    change(about)
    about["scoring"] = _scoring(about["model"], about["inputs"], about["classes"], tensors)
    save_model(folder, tensors, plain(about), seen)


def test_saving_twice_or_after_loading_gives_the_same_bytes(clf, tmp_path):
    for name in ("a", "b"):
        clf.save(tmp_path / name)
    sw.load(tmp_path / "a").save(tmp_path / "c")
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(tmp_path / "c")


def test_fitting_twice_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        fit("accumulator").save(tmp_path / name)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_loading_neither_uses_nor_changes_random_numbers(clf, tmp_path):
    clf.save(tmp_path)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    sw.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loaded_model_can_be_fitted_again_and_the_weights_of_a_network_can_be_trained(clf, tmp_path):
    clf.save(tmp_path)
    loaded = sw.load(tmp_path)
    if clf.model.name in NETWORKS:
        assert all(parameter.requires_grad for parameter in loaded.model_.net_.parameters())
    np.testing.assert_array_equal(loaded.fit(X[:100], NAMES[:100]).scores(X[:5]), clf.scores(X[:5]))


# Fingerprints


def test_fingerprints_can_be_left_out(clf, tmp_path):
    clf.save(tmp_path, fingerprints=False)
    assert sorted(name.partition("-")[0] for name in content(tmp_path)) == [ABOUT, "weights"]
    loaded = sw.load(tmp_path)
    for call in (
        lambda: loaded.calibrate(X[:200], NAMES[:200], error_rate=0.8),  # with training series
        lambda: loaded.fit_rule(X[100:], NAMES[100:], mean_time=3),
    ):
        with pytest.warns(
            UserWarning, match=r"saved without fingerprints, so it is not checked whether series"
        ):
            call()
    loaded.save(tmp_path)  # there are still none
    assert sorted(name.partition("-")[0] for name in content(tmp_path)) == [ABOUT, "weights"]


def test_saved_fingerprints_are_used(clf, tmp_path):
    clf.save(tmp_path)
    assert sorted(name.partition("-")[0] for name in content(tmp_path)) == ["fingerprints", ABOUT, "weights"]
    with pytest.raises(ValueError, match="were given to fit"):
        sw.load(tmp_path).calibrate(X[:200], NAMES[:200], error_rate=0.8)


@pytest.mark.parametrize("text", ["\x00" * 8, "é" * 8, "~~~~~", "00000"])
def test_damaged_fingerprints_raise(clf, tmp_path, text):
    clf.save(tmp_path)
    tensors, about, *_ = load_model(tmp_path)
    save_model(tmp_path, tensors, plain(about), text)
    with pytest.raises(ModelFolderError, match="does not describe a stopwise model"):
        sw.load(tmp_path)


# Held-out scores


@pytest.fixture(scope="module")
def crossed():
    ragged = [x[: 3 + i % 4] for i, x in enumerate(X[:200])]
    return early("prefix").fit(ragged, NAMES[:200])


@pytest.mark.parametrize("goal", [{"cost": 0.02}, {"mean_time": 3.0}, {"objective": "harmonic_mean"}])
def test_saved_held_out_scores_fit_the_same_rule(crossed, tmp_path, goal):
    crossed.save(tmp_path, held_out=True)
    loaded = sw.load(tmp_path)
    assert loaded.has_held_out_scores
    for one, other in zip(loaded._held_out, crossed._held_out):
        np.testing.assert_array_equal(one, other)
    assert loaded.fit_rule(**goal).rule_ == crossed.fit_rule(**goal).rule_
    loaded.save(tmp_path / "again", held_out=True)
    assert sw.load(tmp_path / "again").fit_rule(**goal).rule_ == crossed.rule_


def test_held_out_scores_are_left_out_by_default(crossed, tmp_path):
    crossed.save(tmp_path)
    assert not list(tmp_path.glob("held_out-*"))
    loaded = sw.load(tmp_path)
    for call in (lambda: loaded.fit_rule(cost=0.1), lambda: loaded.save(tmp_path, held_out=True)):
        with pytest.raises(
            ValueError, match=r"saved without .* To keep them, use clf.save\(path, held_out=True"
        ):
            call()
    loaded.save(tmp_path)
    with pytest.raises(ValueError, match="saved without the held-out scores"):
        sw.load(tmp_path).fit_rule(cost=0.1)
    assert loaded.fit_rule(X[200:], NAMES[200:], cost=0.1).rule_.horizon == 6


def test_a_model_that_does_not_cross_fit_has_no_held_out_scores_to_save(tmp_path):
    clf = fit("accumulator")
    with pytest.raises(ValueError, match="`held_out`=True is not possible: this Accumulator has no held-out"):
        clf.save(tmp_path / "model", held_out=True)
    assert not (tmp_path / "model").exists()
    clf.save(tmp_path)
    with pytest.raises(ValueError, match=r"`X` and `y` are needed: this Accumulator has no .* Pass series"):
        sw.load(tmp_path).fit_rule(cost=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: held.pop("y"), "must have scores, y, lengths"),
        (lambda held: held.update(y=held["y"] + 1), r"class indices in \[0, 1\]"),
        (lambda held: held.update(lengths=held["lengths"] + 3), r"`lengths` must be in \[1, 6\]"),
        (lambda held: held.update(scores=held["scores"][:, :, [0, 1, 1]]), "must have 2 classes; got 3"),
        (lambda held: held.update(scores=held["scores"] * torch.nan), "must be finite"),
        (lambda held: held.update(scores=torch.nan_to_num(held["scores"])), "must be NaN after the end"),
        (lambda held: held.update(scores=held["scores"].bfloat16()), "does not describe a stopwise model"),
    ],
)
def test_wrong_held_out_scores_raise(crossed, tmp_path, change, message):
    crossed.save(tmp_path, held_out=True)
    tensors, about, seen, held = load_model(tmp_path)
    change(held)
    save_model(tmp_path, tensors, plain(about), seen, held)
    with pytest.raises(ModelFolderError, match=message):
        sw.load(tmp_path)


def test_the_note_about_held_out_scores_is_checked(crossed, tmp_path):
    crossed.save(tmp_path)
    reseal(tmp_path, lambda about: about.update(held_out="yes"))
    with pytest.raises(ModelFolderError, match="`held_out` must be true or false; got 'yes'"):
        sw.load(tmp_path)


# The scoring digest


def test_a_new_rule_keeps_the_scoring_digest_and_the_streams(clf, tmp_path):
    stream = clf.stream()
    stream.update(X[0, 0])
    state = stream.state()
    clf.save(tmp_path)
    loaded = sw.load(tmp_path)
    loaded.calibrate(X[100:], NAMES[100:], error_rate=0.8)
    loaded.save(tmp_path)
    again = sw.load(tmp_path)
    assert again.stream(state).time == 1
    assert json.loads((tmp_path / ABOUT).read_text())["scoring"] == scoring_digest(clf)
    assert again.rule_ != clf.rule_


def test_other_weights_inputs_classes_or_settings_change_the_scoring_digest():
    clf = fit("b2bsqrt")
    digests = {scoring_digest(clf)}
    clf.model_.set_params(training__batch_size=7, training__device="cpu")  # does not change the scores
    assert {scoring_digest(clf)} == digests
    clf.model_.alpha = 1.5
    digests.add(scoring_digest(clf))
    clf.model_.order_ = 2
    digests.add(scoring_digest(clf))
    clf.classes_ = np.array(["no", "yet"])
    digests.add(scoring_digest(clf))
    clf.inputs_.center[0] += 1e-12
    digests.add(scoring_digest(clf))
    with torch.no_grad():
        clf.model_.net_.lstm.bias[0] += 1
    digests.add(scoring_digest(clf))
    assert len(digests) == 6


def test_a_model_that_cannot_be_saved_streams_and_has_a_digest_of_its_own():
    class Means(sw.models.Model):
        def fit(self, examples, validation=None, **options):
            self.classes_count_, self.channels_, self.report_ = examples.classes, examples.channels, {}
            return self

        def scores(self, x):
            return x.cumsum(1)

    first, second = (sw.EarlyClassifier(Means()).fit(X, NAMES) for _ in range(2))
    state = first.stream().state()
    assert first.stream(state).time == 0
    with pytest.raises(ValueError, match="created by another model"):
        second.stream(state)


def test_weights_of_another_model_are_refused(clf, tmp_path):
    clf.save(tmp_path)
    tensors, about, seen, _ = load_model(tmp_path)
    save_model(tmp_path, {name: value + 1 for name, value in tensors.items()}, plain(about), seen)
    with pytest.raises(ModelFolderError, match="the scoring digest differs"):
        sw.load(tmp_path)


# Descriptions that are wrong, with correct checksums


def set_at(*path):
    *keys, last, value = path

    def change(about):
        place = about
        for key in keys:
            place = place[key]
        place[last] = value

    return change


WRONG = {
    "channels": (set_at("model", "fitted", "channels", 5_000_000), "must be the weights of this model"),
    "classes": (set_at("model", "fitted", "classes", 10**9), "must be the weights of this model"),
    "huge": (set_at("model", "fitted", "channels", 10**30), "does not describe a stopwise model"),
    "hidden": (set_at("model", "params", "hidden", 10**8), "must be the weights of this model"),
    "overflow": (set_at("model", "params", "hidden", 10**12), "does not describe a stopwise model"),
    "label type": (set_at("classes", "dtype", "<U100000000"), "'<U100000000' have at most 3 characters"),
    "objects": (set_at("classes", "dtype", "O"), "labels of type 'O' cannot be read"),
    "label order": (set_at("classes", "values", ["yes", "no"]), "must be distinct and sorted"),
    "same labels": (set_at("classes", "values", ["yes", "yes"]), "must be distinct and sorted"),
    "three labels": (set_at("classes", "values", ["a", "b", "yes"]), "`prior` must have shape"),
    "label types": (set_at("classes", "values", ["1.5", 2]), "at least 2 labels of type <U3"),
    "integer labels": (set_at("classes", {"dtype": "int8", "values": [0, 300]}), "not describe|must be"),
    "shares": (set_at("shares", [0.5, 0.6]), "`prior` must be positive and sum to 1"),
    "prior": (set_at("prior", "banana"), "`prior` must be 'empirical'"),
    "steps": (set_at("steps", -1), "`steps` must be >= 1"),
    "standardize": (set_at("params", "standardize", 7), "`standardize` must be True"),
    "random_state": (set_at("params", "random_state", []), "`random_state` must be an integer"),
    "unknown parameter": (set_at("params", "code", "import os"), "unexpected keyword argument 'code'"),
    "scale": (set_at("inputs", "scale", [5e-324, 1.0]), "must be finite"),
    "center": (set_at("inputs", "center", [0.0, "inf"]), "must be finite"),
    "mask": (set_at("inputs", "mask", True), "the model has 2 channels, but the description has 4"),
    "names": (set_at("channel_names", ["a"]), "`channel_names` must be 2 distinct"),
    "rule": (set_at("rule", {"rule": "SPRT", "threshold": [[1.0] * 3] * 3}), "does not describe"),
    "rule name": (set_at("rule", {"rule": "os.system"}), "rule os.system is not part of stopwise"),
    "rule type": (set_at("rule", []), "does not describe a stopwise model"),
    "missing key": (lambda about: about.pop("shares"), "'shares' is missing"),
    "model name": (set_at("model", "name", "resnet"), "`model` must be one of"),
    "device": (
        set_at("model", "params", "training", {"device": "banana"}),
        "`device` must be a torch device",
    ),
    "training": (set_at("model", "params", "training", {"batch_size": 0}), "`batch_size` must be >= 1"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_description_raises(tmp_path, change, message):
    clf = fit("b2bsqrt")
    clf.save(tmp_path)

    reseal(tmp_path, change)
    with pytest.raises(ModelFolderError, match=message):
        sw.load(tmp_path)


def test_many_blocks_are_refused_early(tmp_path):
    clf = fit("tandemformer")
    clf.save(tmp_path)

    reseal(tmp_path, set_at("model", "params", "blocks", 10**9))
    with pytest.raises(ModelFolderError, match="at most 14 weight tensors; its settings ask for more"):
        sw.load(tmp_path)


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps", "xpu"])
def test_a_model_trained_on_another_device_is_loaded_on_the_cpu(tmp_path, device):
    clf = fit("accumulator")
    clf.model_.set_params(training__device=device)
    clf.save(tmp_path)
    with pytest.warns(UserWarning, match=f"trained on '{device}', which is not available.*loaded on the CPU"):
        loaded = sw.load(tmp_path)
    np.testing.assert_array_equal(loaded.scores(X), clf.scores(X))
    assert loaded.model_.training.device == device


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_weights_of_another_type_are_refused(tmp_path, dtype):
    clf = fit("accumulator")
    about = json.loads(json.dumps(describe(clf)))
    tensors = {name: value.to(dtype) for name, value in clf.model_.tensors().items()}
    about["scoring"] = _scoring(about["model"], about["inputs"], about["classes"], tensors)
    save_model(tmp_path, tensors, about)
    with pytest.raises(ModelFolderError, match=f"body.lags must be torch.float32 .*; got {dtype}"):
        sw.load(tmp_path)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1], np.int8),
        np.array([False, True]),
        np.array([0.5, 1.5], np.float32),
        np.array(["a", "b"], "<U40"),
        np.array(["a", "b"], object),
        np.array([-(2**62), 2**62]),
    ],
)
def test_labels_of_every_type_are_restored(tmp_path, labels):
    clf = fit("accumulator")
    clf.classes_ = labels
    clf.save(tmp_path)
    loaded = sw.load(tmp_path)
    assert loaded.classes_.tolist() == labels.tolist()
    assert loaded.classes_.dtype.kind == labels.dtype.kind
    assert scoring_digest(loaded) == scoring_digest(clf)


def test_a_custom_network_is_compared_before_it_is_built(tmp_path):
    class Picky(sw.models.Integrator):
        """A network with a buffer that is not saved."""

        def __init__(self, channels, classes, order):
            super().__init__(channels, classes, order)
            self.head = torch.nn.Linear(channels, classes)
            self.register_buffer("ones", torch.ones(order + 1), persistent=False)

        def evidence(self, x, multiplets):
            return sw.models.Evidence(self.head(x).cumsum(1) * self.ones.mean(), None)

    class Reading(Picky):
        """A network that reads the value of a tensor while it is built."""

        def __init__(self, channels, classes, order):
            super().__init__(channels, classes, order)
            assert float(self.head.bias.detach().sum()) < 100

    for module in (Picky, Reading):
        model = sw.models.Network(module, order=1, llre_ratio=1.0, polish=False)
        clf = early(model, max_epochs=1).fit(X[:100], NAMES[:100])
        clf.save(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = sw.load(tmp_path, model=model)
        np.testing.assert_array_equal(loaded.scores(X), clf.scores(X))
        assert not any(value.is_meta for value in loaded.model_.net_.buffers())

    reseal(tmp_path, set_at("model", "fitted", "classes", 10**9))
    with pytest.raises(ModelFolderError, match="must be the weights of this model"):
        sw.load(tmp_path, model=sw.models.Network(Picky, order=1, llre_ratio=1.0, polish=False))


def test_digests_depend_on_every_value():
    tensors = {"a": torch.zeros(3), "b": torch.zeros(0, 2)}
    digests = {
        digest_tensors(tensors),
        digest_tensors(tensors, "text"),
        digest_tensors({"a": torch.zeros(3), "c": torch.zeros(0, 2)}),
        digest_tensors({"a": torch.zeros(3), "b": torch.zeros(2, 0)}),
        digest_tensors({"a": torch.zeros(3, dtype=torch.int32), "b": torch.zeros(0, 2)}),
    }
    assert len(digests) == 5
    values = [1, 1.0, True, "1", None, [1], {"1": 1}, -0.0, 0.0, 0, ""]
    assert len({digest_json(value) for value in values}) == len(values)
