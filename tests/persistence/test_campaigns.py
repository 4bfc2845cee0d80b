"""Attacks on model folders: mutations, bit flips, concurrent saves, kills, full disks.

The small versions run with the quick tests. The large ones are marked slow; `pytest -m slow -s` prints the
counts.
"""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import early
from stopwise.data.fingerprints import Fingerprints
from stopwise.persistence.description import _scoring, describe
from stopwise.persistence.digests import canonical, digest_json
from stopwise.persistence.folder import ABOUT, ModelFolderError, load_model, save_model

FORK = multiprocessing.get_context("fork")
X, Y, _ = sw.datasets.gaussian(300, offset=2.0, channels=2, length=6, seed=0)
NAMES = np.array(["no", "yes"])[Y]
SMALL = {"tandemformer": {"heads": 1, "head_size": 4, "feed_forward": 4, "mlp": 4}}
MODELS = sorted(sw.models.MODELS)
QUICK, SLOW = [("accumulator", False)], [pytest.param(name, True, marks=pytest.mark.slow) for name in MODELS]
each_model = pytest.mark.parametrize(("name", "full"), QUICK + SLOW)


def fit(name):
    own = SMALL.get(name, {"hidden": 4}) | {"order": 1, "max_epochs": 6, "polish": False}
    clf = early(name, learning_rate=0.1, **own).fit(X[:100], NAMES[:100])
    return clf.calibrate(X[100:], NAMES[100:], error_rate=0.5)


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


# Mutations

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


# Several processes


def variants(name, count):
    """Return models that differ in weights and description, as arguments of `save_model`."""
    clf = fit(name)
    made = []
    for i in range(count):
        # Integers describe the structure of a model, and other ones are refused.
        tensors = {
            key: value + i if value.is_floating_point() else value
            for key, value in clf.model_.tensors().items()
        }
        about = json.loads(json.dumps(describe(clf))) | {"steps": 6 + i}
        about["scoring"] = _scoring(about["model"], about["inputs"], about["classes"], tensors)
        seen = Fingerprints(clf._seen.hashes[: 15 * (i + 1)], clf._seen.scale)
        made.append((tensors, about, seen.to_text()))
    return made


def which(folder, made):
    """Return the number of the complete model that the folder holds."""
    i = sw.load(folder).n_steps_ - 6
    tensors, about, seen, _ = load_model(folder)
    j = about["steps"] - 6
    assert all(torch.equal(tensors[key], value) for key, value in made[j][0].items())
    assert (about["scoring"], seen) == (made[j][1]["scoring"], made[j][2])
    return i


def assert_clean(folder):
    """Check that no temporary files, locks or files of other models are left."""
    found = sorted(file.name for file in folder.iterdir())
    entries = json.loads((folder / ABOUT).read_text())["files"].values()
    assert found == sorted([ABOUT, *(entry["file"] for entry in entries)])


def save_in_rounds(folder, made, i, rounds, barrier, errors):
    for number in range(rounds):
        barrier.wait(120)
        try:
            save_model(folder / str(number), *made[i])
            which(folder / str(number), made)
        except BaseException:
            errors.put(traceback.format_exc())


@each_model
def test_processes_that_save_at_a_time_lose_nothing(name, full, tmp_path):
    processes, rounds = (16, 15) if full else (4, 4)
    made, errors, barrier = variants(name, processes), FORK.SimpleQueue(), FORK.Barrier(processes)
    workers = [
        FORK.Process(target=save_in_rounds, args=(tmp_path, made, i, rounds, barrier, errors))
        for i in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors.empty(), errors.get()
    assert [worker.exitcode for worker in workers] == [0] * processes
    winners = Counter()
    for number in range(rounds):
        winners[which(tmp_path / str(number), made)] += 1
        assert_clean(tmp_path / str(number))
    print(
        f"\n{name}: {rounds} x {processes} saves and loads, 0 errors; last saves by {len(winners)} processes"
    )


# Kills


@contextmanager
def child(function, *args):
    """Run a function in a process of its own; kill the process at the end."""
    process = FORK.Process(target=function, args=args)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def save_forever(folder, made, ready):
    for i in range(10**9):
        save_model(folder, *made[i % len(made)])
        ready.set()


@each_model
def test_a_save_that_is_killed_at_a_random_time_loses_nothing(name, full, tmp_path):
    made, rng, kills = variants(name, 2), random.Random(name), 75 if full else 5
    folder, left = tmp_path / "model", 0
    for _ in range(kills):
        ready = FORK.Event()
        with child(save_forever, folder, made, ready):
            assert ready.wait(60)
            time.sleep(rng.uniform(0, 0.03))
        left += len(list(folder.iterdir())) > 3
        which(folder, made)
    save_model(folder, *made[0])
    assert which(folder, made) == 0
    assert_clean(folder)
    print(f"\n{name}: {kills} kills, {left} of them left temporary files; 0 models lost")


def save_until(folder, model, event):
    """Save, and die right before a system call."""
    count = 0

    def hook(name, _):
        nonlocal count
        if name in ("open", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.listdir", "fcntl.flock"):
            count += 1
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    save_model(folder, *model)


@each_model
@pytest.mark.parametrize("before", [0, None], ids=["over a model", "to a new folder"])
def test_a_save_that_is_killed_before_any_system_call_loses_nothing(name, full, before, tmp_path):
    made = variants(name, 3)
    for event in range(1, 1000, 1 if full else 4):
        folder = tmp_path / str(event)
        if before is not None:
            save_model(folder, *made[before])
        with child(save_until, folder, made[1], event) as process:
            process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        if before is not None:
            assert which(folder, made) in (0, 1)
        elif (folder / ABOUT).exists():
            assert which(folder, made) == 1
        save_model(folder, *made[2])
        assert which(folder, made) == 2
        assert_clean(folder)
    assert 15 < event < 100
    assert which(folder, made) == 1
    print(f"\n{name}: killed before each of {event - 1} system calls; 0 models lost")


# A full disk


def save_with_limit(folder, model, limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save_model(folder, *model)
    except OSError:
        os._exit(3)


@each_model
def test_a_save_to_a_full_disk_keeps_the_old_model(name, full, tmp_path):
    made = variants(name, 2)
    folder, failed = tmp_path / "model", 0
    save_model(folder, *made[0])
    largest = max(file.stat().st_size for file in folder.iterdir())
    for limit in np.linspace(0, largest - 1, 40 if full else 6).astype(int).tolist():
        with child(save_with_limit, folder, made[1], limit) as process:
            process.join()
        assert process.exitcode == 3
        failed += 1
        assert which(folder, made) == 0
        assert_clean(folder)
    save_model(folder, *made[1])
    assert which(folder, made) == 1
    print(f"\n{name}: {failed} saves without space; 0 models lost")


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_save_to_a_small_file_system_keeps_the_old_model(name, small_disk):
    made = variants(name, 2)
    folder, counts = small_disk / "model", Counter()
    save_model(folder, *made[0])
    # From a full disk to one with space for two more models.
    most = 20 + 2 * sum(file.stat().st_size for file in folder.iterdir()) // 4096
    for step in range(100):
        filler = small_disk / "filler"
        filler.write_bytes(b"")
        try:
            with open(filler, "wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
        except OSError:
            pass
        with open(filler, "r+b") as file:
            file.truncate(max(0, filler.stat().st_size - 4096 * (step * most // 100)))
        try:
            save_model(folder, *made[1])
        except OSError:
            counts["no space"] += 1
            assert which(folder, made) == 0
        else:
            counts["saved"] += 1
            assert which(folder, made) == 1
            filler.unlink()
            save_model(folder, *made[0])
        assert_clean(folder)
    print(f"\n{name}: {dict(counts)}; 0 models lost")
    assert min(counts.values()) >= 10
    assert len(counts) == 2
