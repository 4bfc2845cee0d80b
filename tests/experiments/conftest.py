import pytest


@pytest.fixture(autouse=True)
def short_polish(monkeypatch):
    """Shorten the polish: these tests check sweeps, tables and pictures, not its precision."""
    training = "stopwise.models.networks.training"
    monkeypatch.setattr(f"{training}.polish.FINISHING", {"passes": 3, "tolerance": 1e-3})
    monkeypatch.setattr(f"{training}.polish.RIDGES", (1e-3,))
    monkeypatch.setattr(f"{training}.trials.FEW_RIDGES", (1e-3,))
    monkeypatch.setattr("stopwise.experiments.score_average.CANDIDATES", [((), 1e-2)])
