"""Which columns of a file are channels, and which one names the groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Names of columns that identify whom or what a series comes from.
IDENTIFIERS = re.compile(
    r"(.*[_ -])?(id|index|no|nr|number|patient|person|subject|user|group|session)s?", re.IGNORECASE
)
ENOUGH_SERIES = 10  # with fewer, one integer per series may be a coincidence


@dataclass(frozen=True)
class Columns:
    """The user's choice of columns: channels to use or to drop, and the column of the groups."""

    channels: Sequence[str] | None = None
    drop: Sequence[str] = ()
    groups: str | None = None

    def check(self, where: str, names: Sequence[str]) -> None:
        """Raise an error if a column does not exist, or is used twice."""
        for option, wanted in (
            ("channels", self.channels or ()),
            ("drop", self.drop),
            ("groups", (self.groups,) if self.groups is not None else ()),
        ):
            absent = [name for name in wanted if name not in names]
            if absent:
                raise ValueError(
                    f"{where}: `{option}` names {', '.join(absent)}, which is not a column. Available: "
                    f"{', '.join(names) or 'none'}."
                )
        twice = set(self.channels or ()) & {*self.drop, self.groups}
        if twice:
            raise ValueError(
                f"{where}: {', '.join(sorted(map(str, twice)))} cannot be a channel and also be dropped "
                "or name the groups."
            )

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Return the channels among the columns `names`, in the order of the choice or of the file."""
        if self.channels is not None:
            return list(self.channels)
        return [name for name in names if name not in self.drop and name != self.groups]


def refuse_identifiers(where: str, names: Sequence[str], series: Sequence[np.ndarray]) -> None:
    """Raise an error if a column of series (T_i, d) identifies the series and measures nothing."""
    if max(len(x) for x in series) == 1:
        return
    for column, name in enumerate(names):
        if any((x[:, column] != x[0, column]).any() for x in series):
            continue
        values = np.array([x[0, column] for x in series])
        whole = bool((values == np.round(values)).all())
        distinct = len(np.unique(values)) == len(values) >= ENOUGH_SERIES
        if whole and (distinct or IDENTIFIERS.fullmatch(name)) and len(np.unique(values)) > 1:
            raise ValueError(
                f"{where}: column {name!r} looks like an identifier: one integer per series. Say what it is: "
                f"groups={name!r} (--groups {name}) if series with the same value belong together, "
                f"leave it out (--drop {name}), or list all channels: channels=... (--channels)."
            )
