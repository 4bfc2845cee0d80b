"""A report on a classifier: one HTML page that works offline and needs no Python to read."""

from stopwise.reporting.create import Report, report

__all__ = ["Report", "report"]
