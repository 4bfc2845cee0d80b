"""Tests of the number of threads: chosen inside a call, unchanged outside."""

import numpy as np
import pytest
import torch
from small_worlds import examples, gaussian, small_model
from threadpoolctl import ThreadpoolController

from stopwise.models.networks import base
from stopwise.models.networks.training import threads
from stopwise.models.networks.training.threads import one_blas_thread, threads_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def blas():
    return [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]


@pytest.mark.parametrize(("share", "expected"), [(0.1, 1), (1.0, 2), (10, 2)])
def test_small_work_uses_one_thread(two_threads, share, expected):
    with threads_for(share * threads.WORTH_THREADS):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 2


def test_threads_are_restored_after_an_error(two_threads):
    def fail():
        with one_blas_thread(), threads_for(0):
            assert set(blas()) == {1}
            raise RuntimeError("boom")

    before = blas()
    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert torch.get_num_threads() == 2
    assert blas() == before


@pytest.mark.parametrize("order", [1, "auto"])
def test_fit_chooses_threads_and_restores_them(two_threads, monkeypatch, order):
    X, y, _ = gaussian(40)
    seen, train = [], base.train

    def spy(*given, **options):
        seen.append((torch.get_num_threads(), set(blas())))
        return train(*given, **options)

    monkeypatch.setattr(base, "train", spy)
    before = blas()
    small_model("accumulator", order=order).fit(examples(X, y))
    assert seen == [(1, {1})]
    assert torch.get_num_threads() == 2
    assert blas() == before


def test_failed_fit_restores_threads(two_threads):
    X, y, _ = gaussian(40)

    def fail(record):
        raise InterruptedError

    before = blas()
    with pytest.raises(InterruptedError):
        small_model("accumulator").fit(examples(X, y), on_epoch=fail)
    assert torch.get_num_threads() == 2
    assert blas() == before


def test_scores_choose_threads_and_restore_them(two_threads, monkeypatch):
    X, y, _ = gaussian(40)
    model = small_model("accumulator").fit(examples(X, y))
    seen, score = [], type(model.net_).score

    def spy(net, x):
        seen.append(torch.get_num_threads())
        return score(net, x)

    monkeypatch.setattr(type(model.net_), "score", spy)
    model.scores(X.astype(np.float32))
    monkeypatch.setattr(threads, "WORTH_THREADS", 1)
    model.scores(X.astype(np.float32))
    assert seen == [1, 2]
    assert torch.get_num_threads() == 2
