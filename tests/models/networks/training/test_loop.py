import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from stopwise.data.examples import Examples
from stopwise.data.series import Series
from stopwise.models.networks.modules import Evidence, Integrator, build
from stopwise.models.networks.training import checkpoint as snapshot
from stopwise.models.networks.training import loop as training
from stopwise.models.networks.training.config import RECIPE_FIELDS, Recipe
from stopwise.models.networks.training.loop import train
from stopwise.persistence import tensors as storage
from stopwise.persistence.tensors import StorageError


class Read:
    """Reads series as the estimator does, and counts them."""

    def __init__(self, X, lengths=None):
        self.series, self.count = Series(X, lengths), 0

    def __call__(self, rows):
        self.count += len(rows)
        return self.series.batch(rows)


def world(n=60, seed=0, shift=1.5, unequal=False, shares=(0.5, 0.3, 0.2)):
    """Three classes, of unequal size, whose means are `shift` apart in three channels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), [round(n * share) for share in shares])
    X = [rng.normal(size=(rng.integers(2, 7) if unequal else 6, 3)) + shift * np.eye(3)[k] for k in y]
    return Examples(Read(X if unequal else np.stack(X)), y, 3)


def network(model="accumulator", order=1, seed=0, **params):
    torch.manual_seed(seed)
    params = {} if model == "tandemformer" else {"hidden": 8} | params
    return build(model, features=3, classes=3, order=order, longest=False, **params)


def weights_of(net):
    return {name: value.clone() for name, value in net.state_dict().items()}


def same_weights(a, b):
    a, b = ({**net.state_dict()} if isinstance(net, torch.nn.Module) else net for net in (a, b))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def loss_by_definition(net, data, ratio=1.0):
    """r · LSEL + (1−r) · mCE as classwise means over all series, one by one, in plain numpy."""
    each = []
    for i, k in enumerate(data.y):
        x, _ = data.read(np.array([i]))
        with torch.no_grad():
            evidence = net(torch.from_numpy(x), multiplets=True)
        means = []
        for logits in evidence:
            logits = logits.double().numpy().reshape(-1, 3)
            means.append(np.mean(np.log(np.exp(logits - logits[:, [k]]).sum(1))))
        each.append(ratio * means[0] + (1 - ratio) * means[1])
    return np.mean([np.mean(np.array(each)[data.y == k]) for k in np.unique(data.y)])


# Learning


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize(("loss", "ratio"), [("lsel", 1.0), ("lllr", 0.5), ("lsel", 0.0)])
def test_loss_falls_on_an_easy_world(optimizer, loss, ratio):
    net = network()
    recipe = Recipe(
        max_epochs=15, batch_size=10, learning_rate=0.01, optimizer=optimizer, loss=loss, llre_ratio=ratio
    )
    before = loss_by_definition(net, world(seed=1), ratio=0.5)
    history = train(net, world(), world(seed=1), recipe)
    assert history[-1]["train_loss"] < 0.5 * history[0]["train_loss"]
    assert loss_by_definition(net, world(seed=1), ratio=0.5) < 0.7 * before
    assert not net.training


def test_history_tells_every_epoch():
    history = train(network(), world(), world(seed=1), Recipe(max_epochs=3))
    assert [record["epoch"] for record in history] == [1, 2, 3]
    assert {frozenset(record) for record in history} == {
        frozenset(["epoch", "train_loss", "learning_rate", "validation_loss"])
    }
    without = train(network(), world(), None, Recipe(max_epochs=2))
    assert "validation_loss" not in without[0]
    assert without[0]["train_loss"] == history[0]["train_loss"]


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("ratio", [1.0, 0.3])
@pytest.mark.parametrize("batch_size", [1000, 7])
def test_losses_are_classwise_means_over_all_the_data(unequal, ratio, batch_size):
    train_set, validation_set = world(unequal=unequal), world(n=30, seed=1, unequal=unequal)
    net = network(order=2)
    expected = loss_by_definition(net, train_set, ratio)
    # So small a rate leaves the weights where they are while the first epoch's losses are added up.
    recipe = Recipe(max_epochs=1, batch_size=batch_size, learning_rate=1e-12, llre_ratio=ratio)
    (record,) = train(net, train_set, validation_set, recipe)
    assert record["train_loss"] == pytest.approx(expected, rel=1e-5)
    assert record["validation_loss"] == pytest.approx(
        loss_by_definition(net, validation_set, ratio), rel=1e-5
    )


def test_step_on_a_full_batch_follows_the_slope_of_the_classwise_loss():
    data, net, twin = world(unequal=True), network(), network()
    train(net, data, None, Recipe(max_epochs=1, batch_size=1000, learning_rate=1e-3, optimizer="rmsprop"))
    total = torch.zeros(())
    for i, k in enumerate(data.y):
        x, _ = data.read(np.array([i]))
        scores = twin(torch.from_numpy(x)).scores[0]
        loss = torch.nn.functional.cross_entropy(scores, torch.full((len(scores),), int(k)))
        total = total + loss / (3 * np.count_nonzero(data.y == k))
    total.backward()
    for (name, p), after in zip(twin.named_parameters(), net.parameters()):
        # RMSprop's first step: the slope over the root of 1/100 of its square
        expected = p - 1e-3 * p.grad / (0.1 * p.grad.abs() + 1e-8)
        torch.testing.assert_close(after, expected, rtol=1e-3, atol=1e-5, msg=name)


class Idle(Integrator):
    """Parameters that change nothing: only weight decay can move them."""

    def __init__(self):
        super().__init__(3, 3, 0)
        self.matrix, self.lags = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2, 2, 2)))
        self.bias, self.vector = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2,)))
        self.frozen = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)

    def evidence(self, x, multiplets):
        idle = sum(0 * p.sum() for p in self.parameters())
        return Evidence(x + idle, None)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_weight_decay_touches_matrices_only(optimizer):
    net = Idle()
    train(net, world(), None, Recipe(max_epochs=2, weight_decay=0.1, optimizer=optimizer))
    moved = {name for name, p in net.named_parameters() if not (p == 1).all()}
    assert moved == {"matrix", "lags"}
    assert (net.matrix < 1).all()


def test_biases_of_the_accumulator_are_free():
    net = network(order=3)
    matrices = training._optimizer(net, Recipe(weight_decay=0.1)).param_groups[0]["params"]
    decayed = {name for name, p in net.named_parameters() if any(p is one for one in matrices)}
    assert decayed == {"body.lags", "head.weight"}


@pytest.fixture
def steps(monkeypatch):
    """The learning rate and the gradient's norm at each step of RMSprop."""
    seen = []
    real = torch.optim.RMSprop.step

    def step(self, *args):
        slopes = [p.grad for group in self.param_groups for p in group["params"]]
        rates = {group["lr"] for group in self.param_groups}
        seen.append((rates, math.sqrt(sum(float((slope**2).sum()) for slope in slopes))))
        return real(self, *args)

    monkeypatch.setattr(torch.optim.RMSprop, "step", step)
    return seen


def test_gradients_are_clipped(steps):
    recipe = {"max_epochs": 2, "batch_size": 10, "optimizer": "rmsprop"}
    train(network(), world(), None, Recipe(**recipe))
    free = [norm for _, norm in steps]
    clip = float(np.median(free[:6]))
    steps.clear()
    train(network(), world(), None, Recipe(**recipe, gradient_clip=clip))
    clipped = [norm for _, norm in steps]
    assert max(free) > 1.1 * clip
    assert max(clipped) == pytest.approx(clip, rel=1e-4)
    assert clipped[0] == pytest.approx(min(free[0], clip), rel=1e-4)


def test_cosine_schedule_falls_to_zero_over_all_steps(steps):
    recipe = Recipe(max_epochs=4, batch_size=25, optimizer="rmsprop", schedule="cosine", learning_rate=0.02)
    history = train(network(), world(), None, recipe)
    total = 4 * 3  # epochs of 60 series in batches of 25
    expected = [0.01 * (1 + math.cos(math.pi * i / total)) for i in range(total)]
    assert all(len(rates) == 1 for rates, _ in steps)
    assert [rates.pop() for rates, _ in steps] == pytest.approx(expected)
    assert [record["learning_rate"] for record in history] == pytest.approx(expected[2::3])


def test_constant_schedule_stays(steps):
    train(network(), world(), None, Recipe(max_epochs=2, optimizer="rmsprop", learning_rate=0.02))
    assert all(rates == {0.02} for rates, _ in steps)


def overfitting():
    """Labels that mean nothing: the validation loss must rise."""
    noise = world(shift=0), world(seed=1, shift=0)
    return noise, Recipe(max_epochs=60, batch_size=10, learning_rate=0.02, patience=4)


def test_early_stopping_keeps_the_best_weights():
    (train_set, validation_set), recipe = overfitting()
    net = network(order=3, products=0)
    history = train(net, train_set, validation_set, recipe)
    losses = [record["validation_loss"] for record in history]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + recipe.patience < 60
    assert losses[-1] > 1.02 * losses[best]
    assert loss_by_definition(net, validation_set) == pytest.approx(losses[best], rel=1e-5)


def test_without_patience_all_epochs_are_trained_and_the_best_weights_kept():
    (train_set, validation_set), _ = overfitting()
    net = network(order=3)
    recipe = Recipe(max_epochs=20, batch_size=10, learning_rate=0.02, patience=None)
    losses = [record["validation_loss"] for record in train(net, train_set, validation_set, recipe)]
    assert len(losses) == 20
    assert loss_by_definition(net, validation_set) == pytest.approx(min(losses), rel=1e-5)


# Randomness


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_same_seed_gives_the_same_weights_and_another_seed_others(optimizer):
    nets = []
    for seed in (3, 3, 4):
        net = network(dropout=0.3)
        train(
            net, world(), world(seed=1), Recipe(max_epochs=3, batch_size=10, seed=seed, optimizer=optimizer)
        )
        nets.append(net)
    assert same_weights(nets[0], nets[1])
    assert not same_weights(nets[0], nets[2])


def test_global_random_states_neither_change_nor_matter():
    nets = []
    for state in (1, 2):
        net = network(dropout=0.3)
        torch.manual_seed(state)
        np.random.seed(state)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        train(net, world(), world(seed=1), Recipe(max_epochs=2, batch_size=10))
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
        nets.append(net)
    assert same_weights(*nets)


# Divergence


def test_divergence_is_told():
    net = network()
    message = (
        r"diverged: the loss is (nan|inf) in epoch 1, step \d+\. Lower `learning_rate` \(now 1e\+30\) or"
    )
    with pytest.raises(FloatingPointError, match=message):
        train(net, world(), None, Recipe(max_epochs=3, batch_size=10, learning_rate=1e30))


def test_divergence_on_the_validation_data_is_told():
    near = world(seed=1)
    far = Examples(Read(np.sign(near.read(np.arange(60))[0]) * 3e38), near.y, 3)
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) on the validation data after epoch 1\."):
        train(network(), world(), far, Recipe(max_epochs=3))


# Checkpoints


def checkpointed(path, net=None, train_set=None, validation_set=None, progress=False, **changes):
    net = net or network(dropout=0.3)
    recipe = Recipe(**{"max_epochs": 4, "batch_size": 20} | changes)
    history = train(
        net, train_set or world(), validation_set or world(seed=1), recipe, checkpoint=path, progress=progress
    )
    return net, history


class Stop(Exception):
    """Stands for a kill."""


def stop_after(monkeypatch, epochs):
    real = training._Run._epoch

    def epoch(self, number):
        if number > epochs:
            raise Stop
        real(self, number)

    monkeypatch.setattr(training._Run, "_epoch", epoch)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("model", ["accumulator", "b2bsqrt", "tandemformer"])
def test_interrupted_run_ends_as_one_left_alone(tmp_path, monkeypatch, optimizer, model):
    expected, expected_history = checkpointed(None, network(model), optimizer=optimizer)
    for epochs in (1, 3):
        with monkeypatch.context() as patch:
            stop_after(patch, epochs)
            with pytest.raises(Stop):
                checkpointed(tmp_path / "run", network(model), optimizer=optimizer)
    net, history = checkpointed(tmp_path / "run", network(model), optimizer=optimizer)
    assert same_weights(net, expected)
    assert history == expected_history
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


KILLING = """
import json, os, random, signal, sys, time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, sys.argv[1])
from test_loop import Recipe, network, train, world

def work(checkpoint, out):
    net = network(dropout=0.3)
    recipe = Recipe(max_epochs=8, batch_size=5, schedule="cosine", llre_ratio=0.5, optimizer=sys.argv[2])
    history = train(net, world(100), world(seed=1), recipe, checkpoint=checkpoint)
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
work(None, folder / "alone.npz")  # here, so that what torch loads at first use is there for the children
clock, kills = random.Random(0), 0
while not (folder / "killed.npz").exists():
    child = start(folder / "checkpoint", folder / "killed.part.npz")
    # ever longer, so that on any machine some epochs are reached
    deadline = time.monotonic() + clock.uniform(0.0, 0.03 + 0.01 * kills)
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


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_run_killed_many_times_ends_as_one_left_alone(tmp_path, optimizer):
    script = tmp_path / "killing.py"
    script.write_text(KILLING)
    here = str(Path(__file__).parent)
    command = [sys.executable, str(script), here, optimizer, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    with np.load(tmp_path / "alone.npz") as alone, np.load(tmp_path / "killed.npz") as killed:
        assert alone.files == killed.files
        for name in alone.files:
            np.testing.assert_array_equal(alone[name], killed[name])
        assert len(json.loads(str(alone["history"]))) == 8
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("end", ["max_epochs", "patience"])
def test_finished_run_returns_at_once(tmp_path, monkeypatch, end):
    (train_set, validation_set), recipe = overfitting()
    changes = {} if end == "max_epochs" else {name: getattr(recipe, name) for name in RECIPE_FIELDS}
    arguments = {"train_set": train_set, "validation_set": validation_set, **changes}
    net, history = checkpointed(tmp_path / "run", network(order=3), **arguments)
    stop_after(monkeypatch, 0)
    again, told = checkpointed(tmp_path / "run", network(order=3), **arguments)
    assert same_weights(net, again)
    assert told == history
    assert not again.training


@pytest.fixture
def checkpoint(tmp_path):
    checkpointed(tmp_path / "run", max_epochs=2)
    return tmp_path / "run"


def negated(data):
    return Examples(Read(-data.read.series._data), data.y, 3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batch_size": 30}, r"batch_size \(there 20, here 30\)"),
        ({"learning_rate": 0.1}, r"learning_rate \(there 0.001, here 0.1\)"),
        ({"max_epochs": 9}, r"max_epochs \(there 2, here 9\)"),
        ({"seed": 1}, r"seed \(there 0, here 1\)"),
        ({"optimizer": "rmsprop"}, r"optimizer \(there 'adam', here 'rmsprop'\)"),
        ({"gradient_clip": 1}, r"gradient_clip \(there None, here 1.0\)"),
        ({"net": network(dropout=0.4)}, r"network.dropout.p \(there 0.3, here 0.4\)"),
        ({"net": network(dropout=0.3, skip=False)}, "skip"),
        ({"net": network(dropout=0.3, order=2)}, "network.order"),
        ({"net": network("lstm")}, "network"),
        ({"train_set": negated(world())}, "training data"),
        ({"train_set": world(seed=5)}, "training data"),
        ({"train_set": Examples(world().read, world().y[::-1].copy(), 3)}, "training data"),
        ({"train_set": world(50)}, "training data .there '60 series, .*', here '50 series, "),
        ({"validation_set": world(seed=5)}, "validation data"),
    ],
)
def test_checkpoint_of_another_run_is_refused(checkpoint, changes, named):
    before = checkpoint.read_bytes()
    with pytest.raises(
        ValueError, match=f"`checkpoint`: .*belongs to another run.*differs in .*{named}.*delete"
    ):
        checkpointed(checkpoint, **{"max_epochs": 2} | changes)
    assert checkpoint.read_bytes() == before


def test_formula_of_a_checkpoint_is_told(tmp_path):
    checkpointed(tmp_path / "run", network("b2bsqrt"))
    with pytest.raises(ValueError, match=r"network.formula \(there 'tandem', here 'oblivion'\)"):
        checkpointed(tmp_path / "run", network("b2bsqrt", formula="oblivion"))


def test_activation_of_a_checkpoint_is_told(tmp_path):
    checkpointed(tmp_path / "run", network("b2bsqrt"))
    with pytest.raises(ValueError, match=r"belongs to another run, which differs in network\.lstm"):
        checkpointed(tmp_path / "run", network("lstm"))


def test_progress_does_not_matter(checkpoint, capsys):
    checkpointed(checkpoint, max_epochs=2, progress=True)
    assert capsys.readouterr().err == "training: 2/2\n"


def test_progress_is_told(capsys):
    train(network(), world(), world(seed=1), Recipe(max_epochs=2), progress=True)
    line = capsys.readouterr().err
    assert line.startswith("training: 2/2 loss ")
    assert " · validation " in line


@pytest.mark.parametrize("model", ["accumulator", "b2bsqrt", "lstm", "tandemformer"])
def test_settings_survive_json(model):
    recipe = Recipe(
        max_epochs=np.int64(3),
        learning_rate=np.float32(0.1),
        weight_decay=1 / 3,
        gradient_clip=np.float64(2),
        patience=np.int32(4),
        seed=np.uint8(7),
        device=torch.device("cpu"),
    )
    settings = snapshot.settings(network(model), world(), None, recipe)
    assert json.loads(json.dumps(settings)) == settings
    assert settings["learning_rate"] == float(np.float32(0.1))
    assert not any("training" in name.split(".") for name in settings)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)


def forget_the_weights(path):
    tensors, about = storage.read(path)
    storage.write(path, {name: value for name, value in tensors.items() if "head" not in name}, about)


def forget_the_history(path):
    tensors, about = storage.read(path)
    storage.write(path, tensors, {name: value for name, value in about.items() if name != "history"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is damaged or not a safetensors file"),
        (flip, "checksum differs"),
        (lambda path: path.write_bytes(b""), "is damaged or not"),
        (lambda path: path.write_text("notes"), "is damaged or not"),
        (lambda path: storage.write(path, {}, {"kind": "weights"}), "is not a training checkpoint"),
        (
            lambda path: storage.write(path, {}, {"kind": "training"}),
            "is no whole training checkpoint.*Delete",
        ),
        (lambda path: storage.write(path, {}, {"kind": "training", "settings": 3}), "is no whole training"),
        (forget_the_weights, "is no whole training checkpoint"),
        (forget_the_history, "is no whole training checkpoint"),
    ],
)
def test_damaged_checkpoint_is_told(checkpoint, damage, message):
    damage(checkpoint)
    with pytest.raises(StorageError, match=message):
        checkpointed(checkpoint, max_epochs=2)


def test_folder_as_checkpoint_is_told(tmp_path):
    with pytest.raises(StorageError, match=r"is a folder, not a file"):
        checkpointed(tmp_path)


# Recipes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "lsell"}, "`loss` must be one of 'lsel', 'lllr'; got 'lsell'. Did you mean 'lsel'"),
        ({"llre_ratio": 1.5}, r"`llre_ratio` must be in \[0, 1\]; got 1.5"),
        ({"max_epochs": 0}, "`max_epochs` must be >= 1; got 0"),
        ({"max_epochs": 2.0}, "`max_epochs` must be a whole number; got 2.0"),
        ({"batch_size": 0}, "`batch_size` must be >= 1"),
        ({"learning_rate": 0}, r"`learning_rate` must be in \(0, inf\)"),
        ({"optimizer": "sgd"}, "`optimizer` must be one of 'adam', 'rmsprop'; got 'sgd'"),
        ({"schedule": "linear"}, "`schedule` must be one of 'constant', 'cosine'"),
        ({"weight_decay": -1}, r"`weight_decay` must be in \[0, inf\)"),
        ({"gradient_clip": 0}, r"`gradient_clip` must be in \(0, inf\)"),
        ({"patience": 0}, "`patience` must be >= 1"),
        ({"seed": -1}, "`seed` must be >= 0"),
        ({"device": "gpu"}, "`device` must be a torch device of this machine, such as 'cpu'.*got 'gpu'"),
        ({"device": 1.5}, "`device` must be a torch device"),
        ({"devices": 0}, "`devices` must be >= 1"),
    ],
)
def test_wrong_recipe_is_told(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Recipe(**changes)


def test_weights_of_examples_give_each_class_present_one_share():
    y = np.array([0, 0, 0, 2])
    weights = Examples(None, y, 4).weights()
    assert weights.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


# Several processes


def test_missing_fabric_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(
        ImportError, match=r"devices=2 needs Lightning Fabric: pip install 'stopwise\[distributed"
    ):
        train(network(), world(), None, Recipe(devices=2))


def run_script(tmp_path, body):
    """Run a script that may start processes: they import it again."""
    script = tmp_path / "several.py"
    start = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import numpy as np
        import torch
        from test_loop import *

        if __name__ == "__main__":
    """
    script.write_text(textwrap.dedent(start) + textwrap.indent(textwrap.dedent(body), "    "))
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        told, errors = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes it started, which wait for each other
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return told


SEVERAL = """
    pytest.importorskip("lightning_fabric")
    # 41 series in batches of 20 leave one; 17 are one part for two processes
    train_set = world(41, unequal=True, shares=(0.5, 0.3, 0.22))
    validation_set = world(17, seed=1, unequal=True, shares=(0.5, 0.3, 0.235))
    assert (len(train_set), len(validation_set)) == (41, 17)
    nets, histories = [], []
    for devices in (1, 2):
        nets.append(network(order=2))
        recipe = Recipe(max_epochs=4, batch_size=20, llre_ratio=0.5, gradient_clip=0.5, devices=devices)
        histories.append(train(nets[-1], train_set, validation_set, recipe))
    assert not nets[1].training
    for one, two in zip(*(net.state_dict().values() for net in nets)):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    assert not same_weights(nets[1], network(order=2))
    for one, two in zip(*histories):
        assert one.keys() == two.keys()
        assert all(abs(one[name] - two[name]) < 1e-4 for name in one)
    print("the same")
"""


def test_two_processes_end_as_one(tmp_path):
    assert "the same" in run_script(tmp_path, SEVERAL)


@pytest.mark.slow
def test_two_processes_resume_and_tell_what_is_wrong(tmp_path):
    body = """
        from pathlib import Path
        path = Path("@") / "run"
        recipe = Recipe(max_epochs=3, batch_size=8, devices=2)
        alone = network(dropout=0.3)
        expected = train(alone, world(), world(seed=1), recipe)

        def train_two(net, recipe):
            return train(net, world(), world(seed=1), recipe, checkpoint=path)

        net = network(dropout=0.3)
        assert train_two(net, recipe) == expected
        again = network(dropout=0.3)
        assert train_two(again, recipe) == expected
        assert same_weights(again, net) and same_weights(alone, net)
        for kind, changed, place in (
            (ValueError, {"seed": 1}, path),
            (FloatingPointError, {"learning_rate": 1e30}, None),
        ):
            try:
                train(network(), world(), None, Recipe(devices=2, **changed), checkpoint=place)
            except kind as error:
                print(kind.__name__, error)
    """
    told = run_script(tmp_path, body.replace("@", str(tmp_path)))
    assert "ValueError `checkpoint`: " in told
    assert "FloatingPointError Training diverged: the loss is " in told


# Telling of each epoch


def test_on_epoch_sees_each_record_and_a_network_that_scores():
    data, seen = world(), []
    net = network(dropout=0.5)

    def look(record):
        seen.append(record)
        assert not net.training

    history = train(net, data, None, Recipe(max_epochs=3), on_epoch=look)
    assert seen == history
    plain = network(dropout=0.5)
    train(plain, data, None, Recipe(max_epochs=3))
    assert same_weights(net, plain)


def test_what_on_epoch_raises_ends_the_training():
    seen = []

    def stop(record):
        seen.append(record["epoch"])
        if record["epoch"] == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        train(network(), world(), None, Recipe(max_epochs=9), on_epoch=stop)
    assert seen == [1, 2]
    with pytest.raises(ValueError, match="`on_epoch` needs devices=1; got devices=2"):
        train(network(), world(), None, Recipe(devices=2), on_epoch=stop)
