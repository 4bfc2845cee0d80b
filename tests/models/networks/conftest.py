import pytest

from stopwise.models.networks.kernels import fused as kernels


@pytest.fixture(params=["numba", "torch"])
def form(request, monkeypatch):
    """Run a test with the numba kernels and with plain torch."""
    if request.param == "numba":
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(kernels, "numba_is_there", lambda: False)
    return request.param
