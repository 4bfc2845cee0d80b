import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from stopwise.features import SmallCNN, encode, load_encoder, save_encoder
from stopwise.persistence.tensors import StorageError, write

FRAMES = np.random.default_rng(0).integers(0, 256, (7, 5, 10, 8, 3)).astype(np.uint8)


def trained_like(hidden=None):
    encoder = SmallCNN(3, 10, 8, dim=6, hidden=hidden)
    with torch.no_grad():
        encoder(torch.rand(30, 3, 10, 8))  # moves the running means
    return encoder.eval()


@pytest.mark.parametrize("batch_size", [1, 3, 5, 12, 256])
def test_features_are_those_of_single_frames(batch_size):
    encoder = trained_like()
    features = encode(encoder, FRAMES, batch_size=batch_size)
    assert (features.shape, features.dtype) == ((7, 5, 6), np.float32)
    for i, t in [(0, 0), (3, 4), (6, 2)]:
        x = torch.from_numpy(FRAMES[i, t].transpose(2, 0, 1)[None] / np.float32(255))
        with torch.no_grad():
            np.testing.assert_allclose(features[i, t], encoder(x)[0].numpy(), rtol=1e-4, atol=1e-5)


def test_an_encoder_in_training_is_left_in_training_and_unchanged():
    encoder = SmallCNN(3, 10, 8).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    encode(encoder, FRAMES)
    assert encoder.training
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_to_a_file(tmp_path):
    encoder = trained_like()
    lengths = [5, 1, 2, 3, 4, 5, 5]
    mapped = encode(encoder, FRAMES, lengths=lengths, out=tmp_path / "features.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, encode(encoder, FRAMES, lengths=lengths))
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), mapped)
    assert not mapped[1, 1:].any()


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    class Tires(nn.Module):
        asked = 0

        def forward(self, x):
            self.asked += 1
            if self.asked > 3:
                raise RuntimeError("out of breath")
            return x.mean((2, 3))

    (tmp_path / "features.npy").write_bytes(b"kept")
    with pytest.raises(RuntimeError, match="out of breath"):
        encode(Tires(), FRAMES, out=tmp_path / "features.npy", batch_size=5)
    assert [path.name for path in tmp_path.iterdir()] == ["features.npy"]
    assert (tmp_path / "features.npy").read_bytes() == b"kept"
    with pytest.raises(ValueError, match=r"`out` must be the name of a \.npy file"):
        encode(trained_like(), FRAMES, out=tmp_path / "features.txt")


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 28, 28), (3, 54, 54), (1, 3, 100), (3, 224, 160)])
def test_frames_of_any_size(size):
    encoder = SmallCNN(*size, dim=5).eval()
    with torch.no_grad():
        assert encoder(torch.zeros(2, *size)).shape == (2, 5)


@pytest.mark.parametrize("hidden", [None, 0.5])
def test_save_and_load(tmp_path, hidden):
    encoder = trained_like(hidden)
    save_encoder(tmp_path / "encoder", encoder)
    again = load_encoder(tmp_path / "encoder")
    assert not again.training
    np.testing.assert_array_equal(encode(encoder, FRAMES), encode(again, FRAMES))
    with pytest.raises(TypeError, match="`encoder` must be a SmallCNN; got Identity"):
        save_encoder(tmp_path / "other", nn.Identity())


def test_hidden_pixels_are_told_from_shown_ones_next_to_them():
    encoder = SmallCNN(1, 8, 8, hidden=1.0).eval()
    seen = []
    encoder.grid.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.full((1, 1, 8, 8), 254 / 255)
    x[0, 0, 2] = 1.0
    with torch.no_grad():
        encoder(x)
    values, shown = seen[0][0]
    assert not values[2].any()
    assert not shown[2].any()
    rest = [0, 1, 3, 4, 5, 6, 7]
    assert (shown[rest] == 1).all()
    assert torch.equal(values[rest], x[0, 0, rest])
    # A pixel of several channels is hidden if all of them are.
    colour = SmallCNN(3, 8, 8, hidden=0.0).eval()
    colour.grid.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    y = torch.zeros(1, 3, 8, 8)
    y[0, 1, 4, 4] = 0.3
    with torch.no_grad():
        colour(y)
    assert torch.equal(seen[1][0, :3], y[0])
    assert seen[1][0, 3].nonzero().tolist() == [[4, 4]]


def test_bad_files(tmp_path):
    path = tmp_path / "encoder"
    with pytest.raises(FileNotFoundError, match="No file at"):
        load_encoder(path)
    save_encoder(path, trained_like())
    content = path.read_bytes()
    path.write_bytes(content[:-50])
    with pytest.raises(StorageError, match="damaged"):
        load_encoder(path)
    path.write_bytes(content[:-5] + b"12345")
    with pytest.raises(StorageError, match="its checksum differs"):
        load_encoder(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(StorageError, match="was not written by stopwise"):
        load_encoder(path)
    write(path, {"a": torch.zeros(2)}, {"kind": "weights"})
    with pytest.raises(StorageError, match=r"holds no frame encoder .*its kind is 'weights'"):
        load_encoder(path)
    kind = {"kind": "stopwise-frame-encoder", "version": 1}
    write(
        path, {"a": torch.zeros(2)}, kind | {"channels": 1, "height": 8, "width": 8, "dim": 2, "hidden": None}
    )
    with pytest.raises(StorageError, match="does not describe a frame encoder"):
        load_encoder(path)
    write(path, {}, kind | {"channels": 1, "height": "8", "width": 8, "dim": 2, "hidden": None})
    with pytest.raises(StorageError, match="does not describe a frame encoder: `height` must be a whole"):
        load_encoder(path)
