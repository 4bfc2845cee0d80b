"""Loading weight files that match a network, and errors for those that do not."""

import pytest
import torch
from torch import nn

from stopwise.features.weights import fingerprint, load_weights


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.fc = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Linear(4, 10)


@pytest.fixture
def state():
    return Tiny().state_dict()


def test_files_with_other_heads_without_counters_or_wrapped_are_loaded(tmp_path, state):
    for name, content in {
        "head": state | {"fc.weight": torch.zeros(101, 4), "fc.bias": torch.zeros(101)},
        "headless": {name: value for name, value in state.items() if not name.startswith("fc.")},
        "old": {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")},
        "wrapped": {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in state.items()}},
    }.items():
        torch.save(content, tmp_path / name)
        net = Tiny()
        load_weights(net, tmp_path / name)
        assert torch.equal(net.conv1.weight, state["conv1.weight"]), name


def test_weights_that_do_not_match_raise(tmp_path, state):
    path = tmp_path / "w.pth"
    torch.save(
        {name: value for name, value in state.items() if name != "bn1.bias"} | {"extra": torch.zeros(1)}, path
    )
    with pytest.raises(
        ValueError, match=r"does not match the network: 1 missing: bn1.bias; 1 unexpected: extra. Choose"
    ):
        load_weights(Tiny(), path)
    torch.save(state | {"conv1.weight": torch.zeros(4, 1, 3, 3)}, path)
    message = r"1 with another shape: conv1.weight \(4, 1, 3, 3\) instead of \(4, 3, 3, 3\)"
    with pytest.raises(ValueError, match=message):
        load_weights(Tiny(), path)
    torch.save(state | {"fc.weight": torch.zeros(10, 99)}, path)
    with pytest.raises(ValueError, match=r"1 with another shape: fc.weight \(10, 99\) instead of \(10, 4\)"):
        load_weights(Tiny(), path)
    torch.save(state, path)
    with pytest.raises(
        ValueError,
        match=r"does not match the network: 2 missing: bias, weight; 7 unexpected: bn1.bias, .*, …\.",
    ):
        load_weights(nn.Linear(2, 2), path)


def test_files_that_hold_no_weights_raise(tmp_path, state):
    with pytest.raises(FileNotFoundError, match=r"`weights` must be an existing file; got .*none.pth"):
        load_weights(Tiny(), tmp_path / "none.pth")
    path = tmp_path / "w.pth"
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match=r"w.pth (is damaged or holds objects other than|cannot be read)"):
        load_weights(Tiny(), path)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"w.pth must hold a dict of tensors by name"):
        load_weights(Tiny(), path)
    torch.save(state, path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(
        ValueError, match=r"w.pth cannot be read: it is damaged, truncated or in another format"
    ):
        load_weights(Tiny(), path)
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match=r"w.safetensors cannot be read: it is damaged"):
        load_weights(Tiny(), path)


class Malicious:
    def __reduce__(self):
        return print, ("this file ran code",)


def test_weight_file_cannot_run_code(tmp_path, capsys):
    torch.save({"conv1.weight": Malicious()}, tmp_path / "w.pth")
    with pytest.raises(
        ValueError, match=r"holds objects other than tensors, which are not read because they could run code"
    ):
        load_weights(Tiny(), tmp_path / "w.pth")
    assert capsys.readouterr().out == ""


def test_fingerprint_depends_only_on_the_weights(tmp_path, state):
    torch.save(state, tmp_path / "w.pth")
    net, other = Tiny(), Tiny()
    load_weights(net, tmp_path / "w.pth")
    load_weights(other, tmp_path / "w.pth")
    assert fingerprint(net) == fingerprint(other)
    with torch.no_grad():
        other.bn1.running_var[0] += 1e-6
    assert fingerprint(net) != fingerprint(other)
