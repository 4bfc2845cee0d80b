"""Tests of the selection of kernels and the distribution of rows over threads."""

import pytest
import torch

from stopwise.models.networks.kernels import fused


@pytest.mark.parametrize("name", ["fused_lstm", "fused_prefix", "fused_prefix_norm"])
def test_unsupported_types_use_torch(name):
    assert fused.kernels_for(name, torch.zeros(1, dtype=torch.bfloat16)) is None
    assert fused.kernels_for(name, torch.zeros(1), torch.zeros(1, dtype=torch.float64)) is None


@pytest.mark.parametrize("name", ["fused_lstm", "fused_prefix", "fused_prefix_norm"])
def test_torch_is_used_without_numba(name, monkeypatch):
    monkeypatch.setattr(fused, "numba_is_there", lambda: False)
    assert fused.kernels_for(name, torch.zeros(1)) is None


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(fused, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_every_row_is_visited_once(threads, rows):
    seen = []
    fused.in_threads(lambda start, stop, add: seen.extend(range(start, stop)), rows, 1 << 20, None)
    assert sorted(seen) == list(range(rows))


def test_error_in_a_part_is_raised(threads):
    def kernel(start, stop):
        raise ValueError(f"row {start}")

    with pytest.raises(ValueError, match="row"):
        fused.in_threads(kernel, 8, 1 << 20)


def test_small_tasks_run_in_one_part(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    parts = []
    fused.in_threads(lambda start, stop: parts.append((start, stop)), 8, 1)
    assert parts == [(0, 8)]
