import numpy as np
import pytest
import torch
from torch import nn

from stopwise.features import SmallCNN, encode

FRAMES = np.random.default_rng(0).integers(0, 256, (7, 5, 10, 8, 3)).astype(np.uint8)


def make_encoder():
    encoder = SmallCNN(3, 10, 8, dim=6)
    with torch.no_grad():
        encoder(torch.rand(30, 3, 10, 8))  # changes the running means
    return encoder.eval()


@pytest.mark.parametrize("batch_size", [1, 3, 5, 12, 256])
def test_features_equal_the_output_for_single_frames(batch_size):
    encoder = make_encoder()
    features = encode(encoder, FRAMES, batch_size=batch_size)
    assert (features.shape, features.dtype) == ((7, 5, 6), np.float32)
    for i, t in [(0, 0), (3, 4), (6, 2)]:
        x = torch.from_numpy(FRAMES[i, t].transpose(2, 0, 1)[None] / np.float32(255))
        with torch.no_grad():
            np.testing.assert_allclose(features[i, t], encoder(x)[0].numpy(), rtol=1e-4, atol=1e-5)


def test_encode_changes_neither_training_mode_nor_weights():
    encoder = SmallCNN(3, 10, 8).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    encode(encoder, FRAMES)
    assert encoder.training
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_features_written_to_a_file_equal_those_in_memory(tmp_path):
    encoder = make_encoder()
    lengths = [5, 1, 2, 3, 4, 5, 5]
    mapped = encode(encoder, FRAMES, lengths=lengths, out=tmp_path / "features.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, encode(encoder, FRAMES, lengths=lengths))
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), mapped)
    assert not mapped[1, 1:].any()


def test_file_is_written_atomically(tmp_path):
    class FailsLater(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 3:
                raise RuntimeError("out of memory")
            return x.mean((2, 3))

    (tmp_path / "features.npy").write_bytes(b"kept")
    with pytest.raises(RuntimeError, match="out of memory"):
        encode(FailsLater(), FRAMES, out=tmp_path / "features.npy", batch_size=5)
    assert [path.name for path in tmp_path.iterdir()] == ["features.npy"]
    assert (tmp_path / "features.npy").read_bytes() == b"kept"
    with pytest.raises(ValueError, match=r"`out` must be the name of a \.npy file"):
        encode(make_encoder(), FRAMES, out=tmp_path / "features.txt")
