"""How notebooks show a classifier: what it is, and if it is fitted, what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from stopwise import markup
from stopwise.models import Model
from stopwise.rules import Calibrated, Rule

MOST_CLASSES = 12


class DisplayMixin:
    """The HTML form of `EarlyClassifier`; scikit-learn's diagram would show the parameters only."""

    classes_: np.ndarray
    prior_: np.ndarray
    model_: Model
    rule_: Rule
    n_steps_: int
    n_channels_: int

    def _html_repr(self) -> str:
        if not hasattr(self, "rule_"):
            return markup.block("EarlyClassifier, not fitted", markup.paragraph(repr(self)))
        rows = [
            ("Settings", repr(self)),
            ("Classes", _classes(self.classes_.tolist(), self.prior_)),
            ("Series", f"up to {self.n_steps_} steps, {self.n_channels_} channels"),
            ("Model", repr(self.model_)),
            ("Rule", repr(_plain(self.rule_))),
            ("Guarantee", self.rule_.guarantee if isinstance(self.rule_, Calibrated) else "none"),
        ]
        return markup.block("EarlyClassifier, fitted", markup.facts(rows), *_tried(self.model_))

    def _repr_html_inner(self) -> str:
        """Return the HTML that scikit-learn hands to notebooks without MIME bundles."""
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        # The setting of scikit-learn that turns HTML off.
        return shown | {"text/html": self._html_repr()} if get_config()["display"] == "diagram" else shown


def _classes(labels: list[Any], prior: np.ndarray) -> str:
    shown = [f"{label} ({100 * share:.3g} %)" for label, share in zip(labels, prior)][:MOST_CLASSES]
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _plain(rule: Rule) -> Rule:
    return rule.without_guarantee() if isinstance(rule, Calibrated) else rule


def _tried(model: Model) -> list[markup.Html]:
    """Return the table of the models that were compared, if any were."""
    tried = (getattr(model, "report_", None) or {}).get("tried")
    if not isinstance(tried, list):
        return []
    rows = [[one["model"], f"{one['loss']:.4g}", f"{one['weight']:.3g}"] for one in tried]
    return [markup.paragraph("Models compared:"), markup.table(["model", "held-out loss", "weight"], rows)]
