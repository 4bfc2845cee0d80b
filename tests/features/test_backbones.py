"""Building backbones by name, with and without weights."""

import pytest
import torch
from safetensors.torch import save_file

from stopwise.features import SmallCNN, build_backbone, save_encoder
from stopwise.features.resnet import ResNet


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(1)
    net = ResNet("resnet18")
    for name, buffer in net.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_()
    return net.state_dict()


def inner(backbone):
    return backbone.net.net.net.state_dict()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_are_loaded_from_both_formats(tmp_path, state, suffix):
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    backbone = build_backbone("resnet18", path)
    assert backbone.trained
    assert all(torch.equal(inner(backbone)[name], value) for name, value in state.items())


def test_images_are_standardized_before_the_network(tmp_path, state):
    torch.save(state, tmp_path / "w.pth")
    backbone, net = build_backbone("resnet18", tmp_path / "w.pth", size=64), ResNet("resnet18").eval()
    net.load_state_dict(state)
    x = torch.rand(2, 3, 64, 64)
    channels = [
        (x[:, c] - m) / s for c, (m, s) in enumerate([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)])
    ]
    with torch.no_grad():
        torch.testing.assert_close(backbone.net(x), net.features(torch.stack(channels, dim=1)))


def test_random_weights_depend_only_on_the_seed():
    first, same, other = (build_backbone("resnet18", seed=seed) for seed in (0, 0, 1))
    assert not first.trained
    assert torch.equal(inner(first)["conv1.weight"], inner(same)["conv1.weight"])
    assert not torch.equal(inner(first)["conv1.weight"], inner(other)["conv1.weight"])
    before = torch.random.get_rng_state()
    build_backbone("small")
    assert torch.equal(before, torch.random.get_rng_state())


def test_small_backbone_has_the_size_of_its_encoder(tmp_path):
    save_encoder(tmp_path / "e.safetensors", SmallCNN(3, 40, 40, dim=5))
    backbone = build_backbone("small", tmp_path / "e.safetensors")
    assert (backbone.size, backbone.short_side, backbone.trained) == (40, 40, True)
    with pytest.raises(
        ValueError, match=r"is for frames of 3 channels and 40×40 pixels; .* 64×64 pixels. Omit `size`"
    ):
        build_backbone("small", tmp_path / "e.safetensors", size=64)
    with pytest.raises(ValueError, match=r"`backbone` must be one of 'small', 'resnet18'"):
        build_backbone("vgg")


def test_projection_maps_the_features_of_a_resnet(tmp_path, state):
    torch.save(state, tmp_path / "w.pth")
    plain, projected = (build_backbone("resnet18", tmp_path / "w.pth", size=32, dim=dim) for dim in (None, 7))
    assert plain.trained
    assert not projected.trained  # the file has no projection
    x = torch.rand(2, 3, 32, 32)
    layer = projected.net.net.net.projection
    with torch.no_grad():
        torch.testing.assert_close(projected.net(x), layer(plain.net(x)))
    save_file(projected.net.net.net.state_dict(), tmp_path / "p.safetensors")
    for dim in (None, 7):
        again = build_backbone("resnet18", tmp_path / "p.safetensors", size=32, dim=dim)
        assert again.trained
        with torch.no_grad():
            torch.testing.assert_close(again.net(x), projected.net(x))
    with pytest.raises(ValueError, match=r"with another shape: projection.bias \(7,\) instead of \(5,\)"):
        build_backbone("resnet18", tmp_path / "p.safetensors", dim=5)


def test_invalid_dim_raises():
    for name in ("small", "resnet18"):
        with pytest.raises(ValueError, match="`dim` must be >= 1; got 0"):
            build_backbone(name, dim=0)
