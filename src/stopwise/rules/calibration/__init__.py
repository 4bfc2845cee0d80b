"""Thresholds from held-out series, with a guarantee: learn, then test."""
