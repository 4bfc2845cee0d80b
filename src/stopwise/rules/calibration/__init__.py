"""Calibration of thresholds on held-out series, with a statistical guarantee (learn then test)."""
