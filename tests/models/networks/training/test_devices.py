"""Tests of training with several processes."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import small_worlds
from small_worlds import network, task

from stopwise.models.networks.training.loop import train


def test_missing_fabric_raises_error_with_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(
        ImportError, match=r"devices=2 needs lightning_fabric: pip install 'stopwise\[distributed"
    ):
        train(network(), task(devices=2))


def test_on_epoch_needs_one_device():
    with pytest.raises(ValueError, match="`on_epoch` can only be used with devices=1; got devices=2"):
        train(network(), task(devices=2), on_epoch=print)


def run_script(tmp_path, body):
    """Run a script that may start processes, which import the script again; return its output."""
    script = tmp_path / "several.py"
    start = f"""
        import sys
        sys.path.insert(0, {str(Path(small_worlds.__file__).parent)!r})
        import torch
        from small_worlds import network, same_weights, task, world
        from stopwise.models.networks.training.loop import train

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
        printed, errors = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # also kills its child processes, which wait for each other
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return printed


SEVERAL = """
    # 41 series in batches of 20 leave a last batch of 1; 17 validation series are one part for two processes
    train_set = world(41, unequal=True, shares=(0.5, 0.3, 0.22))
    validation_set = world(17, seed=1, unequal=True, shares=(0.5, 0.3, 0.235))
    assert (len(train_set), len(validation_set)) == (41, 17)
    nets, histories = [], []
    for devices in (1, 2):
        nets.append(network(order=2))
        options = dict(max_epochs=4, batch_size=20, gradient_clip=0.5, devices=devices)
        histories.append(train(nets[-1], task(train_set, validation_set, llre_ratio=0.5, **options)))
    assert not nets[1].training
    for one, two in zip(*(net.state_dict().values() for net in nets)):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    assert not same_weights(nets[1], network(order=2))
    for one, two in zip(*histories):
        assert one.keys() == two.keys()
        assert all(abs(one[name] - two[name]) < 1e-4 for name in one)
    print("the same")
"""


def test_two_processes_give_weights_of_one(tmp_path):
    pytest.importorskip("lightning_fabric")
    assert "the same" in run_script(tmp_path, SEVERAL)


@pytest.mark.slow
def test_two_processes_resume_and_raise_errors(tmp_path):
    pytest.importorskip("lightning_fabric")
    body = """
        from pathlib import Path
        path = Path("@") / "run"
        two = task(world(), world(seed=1), max_epochs=3, batch_size=8, devices=2)
        alone = network(dropout=0.3)
        expected = train(alone, two)
        net = network(dropout=0.3)
        assert train(net, two, path=path) == expected
        again = network(dropout=0.3)
        assert train(again, two, path=path) == expected
        assert same_weights(again, net) and same_weights(alone, net)
        for kind, changed, place in (
            (ValueError, {"seed": 1}, path),
            (FloatingPointError, {"learning_rate": 1e30}, None),
        ):
            try:
                train(network(), task(devices=2, **changed), path=place)
            except kind as error:
                print(kind.__name__, error)
    """
    printed = run_script(tmp_path, body.replace("@", str(tmp_path)))
    assert "ValueError `checkpoint`: " in printed
    assert "FloatingPointError Training diverged: the loss is " in printed
