import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from stopwise.features import SmallCNN, load_encoder, save_encoder
from stopwise.persistence.tensors import TensorFileError, write


def make_encoder(hidden=None):
    encoder = SmallCNN(3, 10, 8, dim=6, hidden=hidden)
    with torch.no_grad():
        encoder(torch.rand(30, 3, 10, 8))  # changes the running means
    return encoder.eval()


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 28, 28), (3, 54, 54), (1, 3, 100), (3, 224, 160)])
def test_encoder_accepts_frames_of_any_size(size):
    encoder = SmallCNN(*size, dim=5).eval()
    with torch.no_grad():
        assert encoder(torch.zeros(2, *size)).shape == (2, 5)


def test_frames_of_another_size_raise():
    with pytest.raises(ValueError, match=r"`x` must have shape \(B, 1, 9, 9\).*got shape \(1, 1, 12, 12\)"):
        SmallCNN(1, 9, 9)(torch.zeros(1, 1, 12, 12))


@pytest.mark.parametrize("hidden", [None, 0.5])
def test_saved_encoder_is_loaded_unchanged(tmp_path, hidden):
    encoder = make_encoder(hidden)
    save_encoder(tmp_path / "encoder", encoder)
    loaded = load_encoder(tmp_path / "encoder")
    assert not loaded.training
    x = torch.rand(4, 3, 10, 8)
    with torch.no_grad():
        assert torch.equal(encoder(x), loaded(x))
    with pytest.raises(TypeError, match="`encoder` must be a SmallCNN; got Identity"):
        save_encoder(tmp_path / "other", nn.Identity())


def test_hidden_pixels_are_marked_by_an_additional_channel():
    encoder = SmallCNN(1, 8, 8, hidden=1.0).eval()
    seen = []
    encoder.grid.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.full((1, 1, 8, 8), 254 / 255)
    x[0, 0, 2] = 1.0
    with torch.no_grad():
        encoder(x)
    values, visible = seen[0][0]
    assert not values[2].any()
    assert not visible[2].any()
    rest = [0, 1, 3, 4, 5, 6, 7]
    assert (visible[rest] == 1).all()
    assert torch.equal(values[rest], x[0, 0, rest])
    # A pixel is hidden if all its channels have the hidden value.
    color = SmallCNN(3, 8, 8, hidden=0.0).eval()
    color.grid.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    y = torch.zeros(1, 3, 8, 8)
    y[0, 1, 4, 4] = 0.3
    with torch.no_grad():
        color(y)
    assert torch.equal(seen[1][0, :3], y[0])
    assert seen[1][0, 3].nonzero().tolist() == [[4, 4]]


def test_invalid_files_raise(tmp_path):
    path = tmp_path / "encoder"
    with pytest.raises(FileNotFoundError, match="No file at"):
        load_encoder(path)
    save_encoder(path, make_encoder())
    content = path.read_bytes()
    path.write_bytes(content[:-50])
    with pytest.raises(TensorFileError, match="damaged"):
        load_encoder(path)
    path.write_bytes(content[:-5] + b"12345")
    with pytest.raises(TensorFileError, match="its checksum differs"):
        load_encoder(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(TensorFileError, match="was not written by stopwise"):
        load_encoder(path)
    write(path, {"a": torch.zeros(2)}, {"kind": "weights"})
    with pytest.raises(TensorFileError, match=r"does not hold a frame encoder .*its kind is 'weights'"):
        load_encoder(path)
    kind = {"kind": "stopwise-frame-encoder", "version": 1}
    write(
        path, {"a": torch.zeros(2)}, kind | {"channels": 1, "height": 8, "width": 8, "dim": 2, "hidden": None}
    )
    with pytest.raises(TensorFileError, match="does not describe a valid frame encoder"):
        load_encoder(path)
    write(path, {}, kind | {"channels": 1, "height": "8", "width": 8, "dim": 2, "hidden": None})
    with pytest.raises(TensorFileError, match="valid frame encoder: `height` must be an integer"):
        load_encoder(path)
    tensors = make_encoder().state_dict()
    sizes = {"channels": 3, "height": 10, "width": 8, "dim": 6, "hidden": None}
    for changed in ({"dim": 10**12}, {"dim": 10**30}, {"channels": 10**9}, {"hidden": 1.0}):
        write(path, tensors, kind | sizes | changed)
        with pytest.raises(TensorFileError, match="does not describe a valid frame encoder"):
            load_encoder(path)
    write(path, {name: value.double() for name, value in tensors.items()}, kind | sizes)
    with pytest.raises(TensorFileError, match="other names or types"):
        load_encoder(path)
