"""Stored states of streams: arrays with a version, the hash of the model and a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from stopwise.models.step import State, Step

STATE_VERSION = 3
MAX_TIME = 10**15  # more samples than any stream has: a thousand per second for 30 000 years
ABOUT = ("version", "model", "decided", "checksum")


def pack(digest: bytes, state: State, decided: np.ndarray) -> dict[str, np.ndarray]:
    """Return a state to store.

    Parameters
    ----------
    digest
        Hash of the model.
    state
        Arrays of one stream, or of n streams with a leading axis.
    decided
        () or (n,) integer per stream: -1 for none, the decided class, or -2 - class if it was forced.
    """
    arrays = {
        "version": np.array(STATE_VERSION),
        "model": np.frombuffer(digest, dtype=np.uint8),
        "decided": decided,
    } | state
    return arrays | {"checksum": checksum(arrays)}


def checksum(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the checksum (16,) of arrays: their names, types, shapes and values.

    Examples
    --------
    >>> checksum({"time": np.array(1)}).tolist() == checksum({"time": np.array(2)}).tolist()
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(set(arrays) - {"checksum"}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {np.shape(arrays[name])}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


class StateChecker:
    """Check stored states; raise a ValueError if they are damaged or impossible.

    Parameters
    ----------
    digest
        Hash of the model.
    fresh
        The state (1, ...) of a stream before its first sample.
    step
        The step of the model.
    classes
        K, the number of classes.
    """

    def __init__(self, digest: bytes, fresh: State, step: Step, classes: int) -> None:
        self.digest, self.fresh, self.step, self.classes = digest, fresh, step, classes

    def one(self, stored: Any) -> tuple[State, np.ndarray]:
        """Return the state (1, ...) and the decision code (1,) of one stored stream."""
        arrays = self._arrays(stored)
        self._check_shapes(arrays, ())
        return self._checked(arrays, {name: value[None] for name, value in arrays.items()})

    def many(self, stored: Any, streams: int) -> tuple[State, np.ndarray]:
        """Return the states (n, ...) and the decision codes (n,) of n streams that were stored together."""
        arrays = self._arrays(stored)
        self._check_shapes(arrays, (streams,))
        return self._checked(arrays, arrays)

    def _arrays(self, stored: Any) -> dict[str, np.ndarray]:
        """Return the arrays by name; check the version, the model, and that none is missing."""
        if not isinstance(stored, Mapping):
            raise ValueError(
                f"`state` must be a result of Stream.state(), a dict of arrays; got {type(stored).__name__}."
            )
        try:
            arrays = {name: np.asarray(stored[name]) for name in stored}
        except Exception as error:  # an archive that numpy reads on access fails in many ways
            raise ValueError(f"`state` is damaged: it cannot be read ({type(error).__name__}).") from error
        version, model = arrays.get("version"), arrays.get("model")
        if version is None or model is None or version.dtype.kind not in "iu" or version.shape != ():
            raise ValueError(
                "`state` must be a result of Stream.state(); its version or model is missing or invalid."
            )
        if version != STATE_VERSION:
            raise ValueError(f"`state` has version {version}; this stopwise reads version {STATE_VERSION}.")
        if not np.array_equal(model, np.frombuffer(self.digest, dtype=np.uint8)):
            raise ValueError("`state` must come from the same model; it was created by another model.")
        wanted = {*ABOUT, *self.fresh}
        for names, what in ((wanted - set(arrays), "missing"), (set(arrays) - wanted, "unexpected")):
            if names:
                raise ValueError(f"`state` is damaged: {', '.join(sorted(map(str, names)))} is {what}.")
        return arrays

    def _check_shapes(self, arrays: dict[str, np.ndarray], streams: tuple[int, ...]) -> None:
        """Check types and shapes; `streams` is the leading axis, if there is one."""
        for name, fresh in self.fresh.items():
            array, own = arrays[name], fresh.shape[1:]
            leading, shape = array.shape[: len(streams)], array.shape[len(streams) :]
            fits = shape == own if name == "held" else self.step.accepts(name, shape)
            if leading != streams or not fits or array.dtype != fresh.dtype:
                raise ValueError(
                    f"`state` is damaged: {name} must be {fresh.dtype} of shape {(*streams, *own)}; got "
                    f"{array.dtype} of shape {array.shape}."
                )
        decided = arrays["decided"]
        if decided.dtype.kind != "i" or decided.shape != streams:
            raise ValueError(
                f"`state` is damaged: decided must be integers of shape {streams}; got {decided.dtype} of "
                f"shape {decided.shape}."
            )

    def _checked(
        self, arrays: dict[str, np.ndarray], stacked: dict[str, np.ndarray]
    ) -> tuple[State, np.ndarray]:
        if not np.array_equal(arrays["checksum"], checksum(arrays)):
            raise ValueError(
                "`state` is damaged: its checksum differs. Use an earlier copy, or a new stream."
            )
        state, decided = {name: stacked[name].copy() for name in self.fresh}, stacked["decided"]
        problem = self._impossible(state, decided)
        if problem is not None:
            raise ValueError(f"`state` is impossible: {problem}. Use an earlier copy, or a new stream.")
        return state, decided.astype(np.int64)

    def _impossible(self, state: State, decided: np.ndarray) -> str | None:
        """Return what cannot be in a state (n, ...) with decision codes (n,), or None."""
        for name, value in state.items():
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                return f"{name} holds NaN or infinity"
        time = state["time"]
        if ((time < 0) | (time > MAX_TIME)).any():
            return f"time must be in [0, {MAX_TIME}]; got {time[(time < 0) | (time > MAX_TIME)][0]}"
        classes = np.where(decided >= -1, decided, -2 - decided)
        if (classes >= self.classes).any():
            return f"it is decided for class {classes.max()}, but there are only {self.classes} classes"
        if ((decided != -1) & (time == 0)).any():
            return "it is decided before the first sample"
        for name, value in state.items():
            own = self.fresh[name] if value.shape[1:] == self.fresh[name].shape[1:] else 0
            if (value[time == 0] != own).any():
                return f"time is 0, but {name} is not that of a new stream"
        return self.step.impossible(state)
