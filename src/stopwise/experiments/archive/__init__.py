"""The archive benchmark: cost of early decisions on 40 real datasets, next to other early classifiers."""

from stopwise.experiments.archive.benchmark import reproduce

__all__ = ["reproduce"]
