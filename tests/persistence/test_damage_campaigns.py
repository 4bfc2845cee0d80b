"""Attacks on model folders: mutations and bit flips."""

import json
import random
import resource
import shutil
import time
import warnings
from collections import Counter
from contextlib import suppress

import torch

import stopwise as sw
from persistence.campaigns import X, each_model, fit
from stopwise.persistence.description import _scoring, describe
from stopwise.persistence.digests import canonical, digest_json
from stopwise.persistence.folder import ABOUT, ModelFolderError, load_model, save_model


def behavior(clf):
    """Return all that a saved classifier consists of, and what it computes."""
    seen = None if clf._seen is None else clf._seen.to_text()
    held_out = clf._held_out and [array.tobytes() for array in clf._held_out]
    decisions = clf.decide(X[:20])
    return canonical(describe(clf)), seen, held_out, clf.scores(X[:20]).tobytes(), decisions.labels.tolist()


def attempt(folder):
    """Load a classifier; return it, or None if it is refused. Other errors are those of the test."""
    try:
        return sw.load(folder)
    except (ModelFolderError, FileNotFoundError) as error:
        message = str(error)
    assert str(folder) in message
    assert len(message) < 1500
    return None


VALUES = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 5_000_000, 10**9, 2**63, 10**30, 0.5, -0.0, 1e308, 5e-324),
    *("", "x", "inf", "cuda", "meta", "U100000000", "<U100000000", "os.system", "auto", "lstm", "oblivion"),
    *([], {}, [[]], [1, 2, 3], ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"a": 1}, list(range(1000))),
]


def places(values, path=()):
    """Return the paths of all values in a JSON document."""
    yield path
    items = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def mutate_json(about, rng):
    """Change one place of a description in place."""
    path = rng.choice([path for path in places(about) if path])
    *before, last = path
    for key in before:
        about = about[key]
    kind = rng.random()
    if kind < 0.15:
        del about[last]
    elif kind < 0.25 and isinstance(about, list):
        about.append(about[last])
    elif kind < 0.4 and isinstance(about[last], int | float):
        about[last] = about[last] * rng.choice([-1, 2, 1 + 1e-9, 1e6]) + rng.choice([0, 1])
    else:
        about[last] = rng.choice(VALUES)


def mutate_tensors(tensors, rng):
    """Change the name, shape, type or values of one tensor."""
    name = rng.choice(sorted(tensors))
    value = tensors.pop(name)
    change = rng.choice(["drop", "rename", "flatten", "grow", "empty", "double", "integer", "nan", "scale"])
    if change == "drop":
        return
    tensors[f"{name}.more" if change == "rename" else name] = {
        "flatten": value.reshape(-1),
        "grow": torch.cat([value, value]),
        "empty": value[:0],
        "double": value.double(),
        "integer": value.long(),
        "nan": value * float("nan"),
        "scale": value * 1e30,
    }.get(change, value)


def resealed(folder, rng):
    """Change the description or the tensors, with correct checksums, as an attacker can."""
    tensors, about, seen, held_out = load_model(folder)
    if rng.random() < 0.7:
        mutate_json(about, rng)
    elif held_out is not None and rng.random() < 0.5:
        mutate_tensors(held_out, rng)
    else:
        mutate_tensors(tensors, rng)
    with suppress(Exception):  # the description may have no model any more
        about["scoring"] = _scoring(about["model"], about["inputs"], about["classes"], tensors)
    shutil.rmtree(folder)
    added = ("sha256", "format", "format_version", "files", "versions")
    save_model(folder, tensors, {k: v for k, v in about.items() if k not in added}, seen, held_out)
    if rng.random() < 0.3:  # also the part that `save_model` writes
        about = json.loads((folder / ABOUT).read_text())
        mutate_json(about, rng)
        about["sha256"] = digest_json({k: v for k, v in about.items() if k != "sha256"})
        (folder / ABOUT).write_text(json.dumps(about))


def damaged(folder, rng):
    """Damage one file, without correct checksums."""
    file = rng.choice(sorted(folder.iterdir()))
    data = bytearray(file.read_bytes())
    change = rng.choice(["bit", "bytes", "cut", "insert", "json", "delete", "folder"])
    if change == "bit":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif change == "bytes":
        start = rng.randrange(len(data))
        data[start : start + rng.randrange(1, 20)] = rng.randbytes(rng.randrange(20))
    elif change == "cut":
        del data[rng.randrange(len(data)) :]
    elif change == "insert":
        start = rng.randrange(len(data))
        data[start:start] = rng.choice([b" ", b"0", b"\0", b'"', b"[" * 10_000, b"9" * 10_000])
    elif change == "json":
        file = folder / ABOUT
        about = json.loads(file.read_text())
        mutate_json(about, rng)
        data = json.dumps(about).encode()
    file.unlink()
    if change == "folder":
        file.mkdir()
    elif change != "delete":
        file.write_bytes(data)


@each_model
def test_mutated_folders_are_refused_or_unchanged(name, full, tmp_path):
    """Damage is detected or has no effect. With correct checksums, a wrong value is a clear error."""
    rng = random.Random(name)
    clf = fit(name)
    clf.save(tmp_path / "whole", held_out=clf.has_held_out_scores)
    expected = behavior(clf)
    counts, slowest = Counter(), 0.0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(1000 if full else 60):
        folder = tmp_path / "mutated"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        sealed = i % 2
        (resealed if sealed else damaged)(folder, rng)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a device that this machine does not have
            loaded = attempt(folder)
        slowest = max(slowest, time.process_time() - start)
        kind = "with correct checksums" if sealed else "damaged"
        if loaded is None:
            counts[f"{kind}: refused"] += 1
            continue
        if sealed:
            counts[f"{kind}: loaded, {'unchanged' if used(loaded) == expected else 'another model'}"] += 1
        else:
            assert behavior(loaded) == expected
            counts[f"{kind}: loaded, unchanged"] += 1
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(f"\n{name}: {dict(counts)}, slowest load {slowest:.2f} s, memory +{memory:.0f} MB")
    assert counts["damaged: refused"] > 0.8 * (500 if full else 30)
    assert memory < 300
    assert slowest < 1 or not full


def used(clf):
    """Return the behavior of a loaded model. Its author chose it, so it may refuse to score."""
    try:
        return behavior(clf)
    except (ValueError, TypeError) as error:
        return str(error)


@each_model
def test_every_bit_of_a_description_is_detected_or_has_no_effect(name, full, tmp_path):
    clf = fit(name)
    clf.save(tmp_path, held_out=clf.has_held_out_scores)
    expected, counts = behavior(clf), Counter()
    data = (tmp_path / ABOUT).read_bytes()
    for bit in range(0, 8 * len(data), 1 if full else 101):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / ABOUT).write_bytes(changed)
        loaded = attempt(tmp_path)
        if loaded is not None:
            assert behavior(loaded) == expected
        counts["refused" if loaded is None else "no effect"] += 1
    print(f"\n{name}: {dict(counts)} of {8 * len(data)} bits")
    assert counts["refused"] > 100 * counts["no effect"]
