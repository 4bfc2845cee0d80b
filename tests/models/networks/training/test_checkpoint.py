"""Tests of training checkpoints: resuming, checkpoints of other runs, and damaged files."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_worlds
import torch
from small_worlds import examples, network, same_weights, task, world

from stopwise.models import Training
from stopwise.models.networks.training import checkpoint as checkpoints
from stopwise.models.networks.training.loop import TrainingRun, train
from stopwise.persistence import tensors as files
from stopwise.persistence.tensors import TensorFileError


def checkpointed(path, net=None, train_set=None, validation_set=None, progress=False, **changes):
    net = net or network(dropout=0.3)
    options = {"max_epochs": 4, "batch_size": 20} | changes
    run = task(train_set or world(), validation_set or world(seed=1), **options)
    return net, train(net, run, path=path, progress=progress)


class Stop(Exception):
    """Interrupts a run in place of a kill."""


def stop_after(monkeypatch, epochs):
    real = TrainingRun._epoch

    def epoch(self, number):
        if number > epochs:
            raise Stop
        real(self, number)

    monkeypatch.setattr(TrainingRun, "_epoch", epoch)


# Interrupted runs


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *(
            (model, {"optimizer": optimizer})
            for model in ("accumulator", "b2bsqrt", "tandemformer")
            for optimizer in ("adam", "rmsprop")
        ),
        ("b2bsqrt", {"weight_average": 0.9}),
        ("b2bsqrt", {"epoch_series": 30}),
    ],
)
def test_resumed_run_equals_uninterrupted_run(tmp_path, monkeypatch, options, model):
    expected, expected_history = checkpointed(None, network(model), **options)
    for epochs in (1, 3):
        with monkeypatch.context() as patch:
            stop_after(patch, epochs)
            with pytest.raises(Stop):
                checkpointed(tmp_path / "run", network(model), **options)
    net, history = checkpointed(tmp_path / "run", network(model), **options)
    assert same_weights(net, expected)
    assert history == expected_history
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_run_interrupted_by_keyboard_resumes(tmp_path):
    expected, expected_history = checkpointed(None)
    net, run = network(dropout=0.3), task(world(), world(seed=1), max_epochs=4, batch_size=20)
    random = torch.get_rng_state()
    # Python ignores SIGINT if a shell starts it in the background.
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(net, run, path=tmp_path / "run", on_epoch=lambda _: os.kill(os.getpid(), signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, outside)
    assert torch.equal(torch.get_rng_state(), random)
    assert len(files.read(tmp_path / "run")[1]["history"]) == 1
    net, history = checkpointed(tmp_path / "run")
    assert same_weights(net, expected)
    assert history == expected_history


KILLING = """
import json, os, random, signal, sys, time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, sys.argv[1])
from small_worlds import network, task, world
from stopwise.models.networks.training.loop import train

def work(checkpoint, out):
    net = network(dropout=0.3)
    options = dict(max_epochs=6, batch_size=5, schedule="cosine", optimizer=sys.argv[2])
    history = train(net, task(world(), world(seed=1), llre_ratio=0.5, **options), path=checkpoint)
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    np.savez(out, history=json.dumps(history), **weights)

def start(checkpoint, out):
    child = os.fork()
    if not child:
        try:
            work(checkpoint, out)
        finally:
            os._exit(0)
    return child

folder = Path(sys.argv[3])
torch.set_num_threads(1)
work(None, folder / "alone.npz")  # before the forks, so that children inherit what torch loads on first use
clock, kills = random.Random(0), 0
while not (folder / "killed.npz").exists():
    child = start(folder / "checkpoint", folder / "killed.part.npz")
    # Increase the time with each kill, so that some epochs complete even on a slow machine.
    deadline = time.monotonic() + clock.uniform(0.0, 0.03 + 0.02 * kills)
    while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    else:
        if time.monotonic() < deadline:
            os.rename(folder / "killed.part.npz", folder / "killed.npz")
            break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kills += 1
print(kills)
"""


@pytest.mark.parametrize("optimizer", ["adam", pytest.param("rmsprop", marks=pytest.mark.slow)])
def test_run_killed_many_times_equals_uninterrupted_run(tmp_path, optimizer):
    script = tmp_path / "killing.py"
    script.write_text(KILLING)
    helpers = str(Path(small_worlds.__file__).parent)
    command = [sys.executable, str(script), helpers, optimizer, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    with np.load(tmp_path / "alone.npz") as alone, np.load(tmp_path / "killed.npz") as killed:
        assert alone.files == killed.files
        for name in alone.files:
            np.testing.assert_array_equal(alone[name], killed[name])
        assert len(json.loads(str(alone["history"]))) == 6
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("end", ["max_epochs", "patience"])
def test_finished_run_does_not_train_again(tmp_path, monkeypatch, end):
    noise = world(shift=0), world(seed=1, shift=0)
    stopping = {"max_epochs": 60, "batch_size": 10, "learning_rate": 0.02, "patience": 4}
    changes = stopping if end == "patience" else {}
    net, history = checkpointed(tmp_path / "run", network(order=3), *noise, **changes)
    assert len(history) < 60
    stop_after(monkeypatch, 0)
    again, resumed = checkpointed(tmp_path / "run", network(order=3), *noise, **changes)
    assert same_weights(net, again)
    assert resumed == history
    assert not again.training


# Checkpoints of other runs


@pytest.fixture
def checkpoint(tmp_path):
    checkpointed(tmp_path / "run", max_epochs=2)
    return tmp_path / "run"


def negated(data):
    return examples(-data.read.series._data, data.y)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batch_size": 30}, r"batch_size \(checkpoint: 20, this run: 30\)"),
        ({"learning_rate": 0.1}, r"learning_rate \(checkpoint: 0.001, this run: 0.1\)"),
        ({"max_epochs": 9}, r"max_epochs \(checkpoint: 2, this run: 9\)"),
        ({"seed": 1}, r"random_state \(checkpoint: 0, this run: 1\)"),
        ({"llre_ratio": 0.5}, r"llre_ratio \(checkpoint: 1.0, this run: 0.5\)"),
        ({"loss": "lllr"}, r"loss \(checkpoint: 'lsel', this run: 'lllr'\)"),
        ({"optimizer": "rmsprop"}, r"optimizer \(checkpoint: 'adam', this run: 'rmsprop'\)"),
        ({"gradient_clip": 1}, r"gradient_clip \(checkpoint: None, this run: 1.0\)"),
        ({"net": network(dropout=0.4)}, r"network.dropout.p \(checkpoint: 0.3, this run: 0.4\)"),
        ({"net": network(dropout=0.3, skip=False)}, "skip"),
        ({"net": network(dropout=0.3, order=2)}, "network.order"),
        ({"net": network("tanh")}, "network"),
        ({"train_set": negated(world())}, "training data"),
        ({"train_set": world(seed=5)}, "training data"),
        ({"train_set": examples(world().read.series, world().y[::-1].copy())}, "training data"),
        ({"train_set": world(50)}, "training data .checkpoint: '60 series, .*', this run: '50 series, "),
        ({"validation_set": world(seed=5)}, "validation data"),
    ],
)
def test_checkpoint_of_another_run_raises(checkpoint, changes, named):
    before = checkpoint.read_bytes()
    with pytest.raises(
        ValueError, match=f"`checkpoint`: .*belongs to another run.*differs in .*{named}.*delete"
    ):
        checkpointed(checkpoint, **{"max_epochs": 2} | changes)
    assert checkpoint.read_bytes() == before


def test_checkpoint_with_other_formula_raises(tmp_path):
    checkpointed(tmp_path / "run", network("b2bsqrt"))
    with pytest.raises(ValueError, match=r"network.formula \(checkpoint: 'tandem', this run: 'oblivion'\)"):
        checkpointed(tmp_path / "run", network("b2bsqrt", formula="oblivion"))


def test_checkpoint_with_other_activation_raises(tmp_path):
    checkpointed(tmp_path / "run", network("b2bsqrt"))
    with pytest.raises(ValueError, match=r"belongs to another run, which differs in network\.lstm"):
        checkpointed(tmp_path / "run", network("tanh"))


def test_progress_setting_may_differ_on_resume(checkpoint, capsys):
    checkpointed(checkpoint, max_epochs=2, progress=True)
    assert capsys.readouterr().err == "training: 2/2\n"


@pytest.mark.parametrize("model", ["accumulator", "b2bsqrt", "tanh", "tandemformer"])
def test_settings_are_json(model):
    options = {
        "max_epochs": np.int64(3),
        "learning_rate": np.float32(0.1),
        "weight_decay": 1 / 3,
        "gradient_clip": np.float64(2),
        "patience": np.int32(4),
        "device": torch.device("cpu"),
    }
    settings = checkpoints.settings(network(model), task(**options, llre_ratio=np.float32(0.5)))
    assert json.loads(json.dumps(settings)) == settings
    assert settings["learning_rate"] == float(np.float32(0.1))
    assert not any("training" in name.split(".") for name in settings)
    assert set(Training().get_params()) < set(settings)


# Damaged checkpoints


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)


def remove_weights(path):
    tensors, about = files.read(path)
    files.write(path, {name: value for name, value in tensors.items() if "head" not in name}, about)


def remove_history(path):
    tensors, about = files.read(path)
    files.write(path, tensors, {name: value for name, value in about.items() if name != "history"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is damaged or not a safetensors file"),
        (flip, "checksum differs"),
        (lambda path: path.write_bytes(b""), "is damaged or not"),
        (lambda path: path.write_text("notes"), "is damaged or not"),
        (lambda path: files.write(path, {}, {"kind": "weights"}), "is not a training checkpoint"),
        (
            lambda path: files.write(path, {}, {"kind": "training"}),
            "is not a complete training checkpoint.*Delete",
        ),
        (
            lambda path: files.write(path, {}, {"kind": "training", "settings": 3}),
            "is not a complete training checkpoint",
        ),
        (remove_weights, "is not a complete training checkpoint"),
        (remove_history, "is not a complete training checkpoint"),
    ],
)
def test_damaged_checkpoint_raises(checkpoint, damage, message):
    damage(checkpoint)
    with pytest.raises(TensorFileError, match=message):
        checkpointed(checkpoint, max_epochs=2)


def test_folder_as_checkpoint_raises(tmp_path):
    with pytest.raises(TensorFileError, match=r"is a folder, not a file"):
        checkpointed(tmp_path)
