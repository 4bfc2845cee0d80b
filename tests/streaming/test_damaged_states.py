"""Damaged and impossible stream states and state files: a sentence, never a raw error or a silent change.

The campaigns are marked slow; small ones run with the quick tests.
"""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stopwise as sw
from helpers import early
from stopwise.models import Evidence, Integrator
from stopwise.persistence import tensors as files
from stopwise.streaming.sample_lines import Key
from stopwise.streaming.state_file import load_states, save_states
from stopwise.streaming.states import checksum

UNDELIVERED = [{"label": 1, "time": 2, "forced": False, "scores": [0.5, 1.5], "model": "0f", "schema": 1}]
X, Y, _ = sw.datasets.gaussian(40, offset=1.5, channels=2, length=6, seed=0)


class Linear(Integrator):
    """A custom network without a streaming step: its states hold all samples."""

    def __init__(self, channels, classes, order):
        super().__init__(channels, classes, order)
        self.head = torch.nn.Linear(channels, classes)

    def evidence(self, x, multiplets):
        return Evidence(self.head(x).cumsum(1), None)


MODELS = {
    "accumulator": {"model": "accumulator", "order": 2},
    "accumulator, mask": {"model": "accumulator", "order": 0, "missing": "mask"},
    "lstm": {"model": "accumulator", "order": None},
    "b2bsqrt": {"model": "b2bsqrt", "order": 1},
    "tanh": {"model": "tanh", "order": 1},
    "tandemformer": {"model": "tandemformer", "order": 1},
    "prefix": {"model": "prefix"},
    "custom": {"model": sw.models.Network(Linear, order=0, llre_ratio=1.0, polish=False)},
}


@pytest.fixture(scope="module", params=MODELS)
def clf(request):
    return early(**MODELS[request.param] | {"max_epochs": 1, "rule": sw.SPRT(60.0)}).fit(X, Y)


def changed(array, rng):
    """Return an array with one thing wrong, or something that is no array."""
    flat = array.copy().reshape(-1)
    extremes = [0, -1, 1, 2**62, -(2**63), 2**63 - 1, np.nan, np.inf, -np.inf, 1e300, 1e-320]
    what = rng.integers(9)
    if what == 0 and flat.nbytes:
        raw = flat.view(np.uint8)
        raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        return flat.reshape(array.shape)
    if what == 1 and flat.size:
        with np.errstate(all="ignore"):
            flat[rng.integers(flat.size)] = np.array(extremes[rng.integers(len(extremes))]).astype(flat.dtype)
        return flat.reshape(array.shape)
    if what == 2:
        return array.astype(rng.choice([np.float32, np.float64, np.int32, np.uint8, np.complex64, object]))
    if what == 3:
        return array[None] if rng.integers(2) else array.reshape(-1)[: flat.size // 2]
    if what == 4:
        return array.astype(str)
    if what == 5:
        with np.errstate(all="ignore"):
            return np.full(array.shape, extremes[rng.integers(len(extremes))]).astype(array.dtype)
    if what == 6:
        return rng.choice(np.array([None, "text", b"bytes", {}, [], True, 1.5, object()], dtype=object))
    if what == 7:
        return np.zeros((*array.shape, 3), dtype=array.dtype)
    return np.empty(0, dtype=array.dtype)


def mutated(state, rng):
    """Return a state with one or two things wrong; in half of the cases its checksum is right."""
    state = dict(state)
    for name in rng.choice(sorted(state), size=rng.integers(1, 3), replace=False).tolist():
        if rng.integers(12) == 0:
            del state[name]
        elif rng.integers(12) == 0:
            state[rng.choice(["more", "", "time2"])] = np.zeros(2)
        else:
            state[name] = changed(np.asarray(state[name]), rng)
    if rng.integers(2) and "checksum" in state:
        try:
            state["checksum"] = checksum({name: np.asarray(value) for name, value in state.items()})
        except Exception:  # objects have no checksum
            return state, False
        return state, True
    return state, False


def refusal(action, *arguments):
    """Return the message of a ValueError and None, or None and the result; other errors are not caught."""
    try:
        return None, action(*arguments)
    except ValueError as error:
        return str(error), None


def run_states(clf, count, seed):
    """Return how many mutated states were refused and accepted."""
    rng, result = np.random.default_rng(seed), {"refused": 0, "unchanged": 0, "possible": 0}
    originals = []
    for steps in (0, 1, 4):
        stream = clf.stream()
        for t in range(steps):
            stream.update(0.1 * X[0, t])
        originals.append(stream.state())
        if steps:
            stream.finish()
            originals.append(stream.state())
    for number in range(count):
        original = originals[number % len(originals)]
        state, sealed = mutated(original, rng)
        message, stream = refusal(clf.stream, state)
        if message is not None:
            assert message.startswith("`state` ")
            result["refused"] += 1
            continue
        again = stream.state()
        if all(np.array_equal(again[name], original[name]) for name in original):
            result["unchanged"] += 1
            continue
        assert sealed, "a change without a matching checksum was accepted"
        assert np.isfinite(stream.scores).all()
        assert stream.time > 0
        message, _ = refusal(stream.update, X[0, 0])
        assert message is None or "infinite scores" in message
        stream.finish()
        assert np.isfinite(stream.scores).all()
        result["possible"] += 1
    return result


def test_damaged_states_are_refused(clf):
    result = run_states(clf, 60, seed=1)
    assert result["refused"] > 30


@pytest.mark.slow
def test_campaign_of_damaged_states(clf):
    result = run_states(clf, 4000, seed=0)
    print(f"\n{type(clf.model_).__name__}: 4000 mutated states: {result}; 0 raw errors, 0 silent changes")
    assert result["refused"] > 2000


@given(
    st.dictionaries(
        st.sampled_from(["version", "model", "decided", "time", "scores", "checksum"]),
        st.one_of(
            st.none(),
            st.integers(),
            st.floats(),
            st.text(max_size=5),
            st.binary(max_size=20),
            st.lists(st.floats(), max_size=4),
            st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        ),
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_values_in_a_state_are_refused(clf, values):
    original = clf.stream().state()
    message, stream = refusal(clf.stream, original | values)
    if message is None:
        assert all(np.array_equal(stream.state()[name], original[name]) for name in original)
    else:
        assert message.startswith("`state` ")


@pytest.fixture(scope="module")
def small():
    return early(order=1, max_epochs=1, rule=sw.SPRT(60.0)).fit(X, Y)


def stored(clf, path):
    streams = clf.streams()
    for t in range(3):
        streams.update({Key.of(key): 0.1 * X[i, t] for i, key in enumerate(["a", 1, 1.0, None, ""])})
    save_states(path, streams, {Key.of("a"): 7}, 15, UNDELIVERED)
    return path.read_bytes()


def rewritten(path, rng):
    """Write a file whose own checksum is right, with one thing wrong inside."""
    tensors, about = files.read(path)
    if rng.integers(2):
        name = str(rng.choice(sorted(about)))
        values = [
            None,
            -1,
            2.5,
            "text",
            [],
            {},
            [[]],
            [None] * 5,
            ["a"] * 5,
            [[1]] * 5,
            [float("nan")] * 5,
            [{"schema": 1}],
            True,
        ]
        about[name] = values[rng.integers(len(values))]
        if rng.integers(10) == 0:
            del about[name]
    else:
        name = str(rng.choice(sorted(tensors)))
        kinds = [torch.float16, torch.bfloat16, torch.bool, torch.int8]
        what = rng.integers(4)
        if what == 0:
            del tensors[name]
        elif what == 1:
            tensors[name] = tensors[name].to(kinds[rng.integers(len(kinds))])
        elif what == 2:
            tensors[name] = tensors[name].reshape(-1)[: tensors[name].numel() // 2].clone()
        else:
            tensors[name] = torch.zeros_like(tensors[name]) - 1
    files.write(path, tensors, about)


def damaged(data, rng):
    """Return bytes with one thing wrong."""
    data = bytearray(data)
    place = int(rng.integers(len(data)))
    what = rng.integers(5)
    if what == 0:
        data[place] ^= 1 << rng.integers(8)
    elif what == 1:
        del data[place:]
    elif what == 2:
        data[place:place] = rng.bytes(int(rng.integers(1, 20)))
    elif what == 3:
        del data[place : place + int(rng.integers(1, 20))]
    else:
        place = place % 600  # the header
        data[place] = int(rng.integers(256))
    return bytes(data)


def run_files(clf, folder, count, seed):
    """Return how many mutated files were refused, unchanged, or rewritten with a possible description."""
    rng, path = np.random.default_rng(seed), folder / "streams.safetensors"
    result = {"refused": 0, "unchanged": 0, "possible": 0}
    original, streams = stored(clf, path), clf.streams()
    expected, (keys, arrays) = load_states(path, streams), streams.states()
    for number in range(count):
        rewrite = number % 2 == 1
        path.write_bytes(original if rewrite else damaged(original, rng))
        if rewrite:
            rewritten(path, rng)
        streams = clf.streams()
        message, loaded = refusal(load_states, path, streams)
        if message is not None:
            assert str(path) in message
            result["refused"] += 1
            continue
        found_keys, found = streams.states()
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
        same = (loaded, found_keys) == (expected, keys)
        assert same or rewrite, "a damaged file was accepted"
        result["unchanged" if same else "possible"] += 1
    return result


def test_damaged_state_files_are_refused(small, tmp_path):
    assert run_files(small, tmp_path, 60, seed=1)["refused"] > 40


@pytest.mark.slow
def test_campaign_of_damaged_state_files(small, tmp_path):
    result = run_files(small, tmp_path, 1500, seed=0)
    print(f"\n1500 mutated state files: {result}; 0 raw errors, 0 silent changes")
    assert result["refused"] > 1000
