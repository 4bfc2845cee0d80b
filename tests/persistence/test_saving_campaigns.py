"""Attacks on saves to model folders: concurrent saves, kills, full disks."""

import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import stopwise as sw
from persistence.campaigns import MODELS, each_model, fit
from stopwise.data.fingerprints import Fingerprints
from stopwise.persistence.description import _scoring, describe
from stopwise.persistence.folder import ABOUT, load_model, save_model

FORK = multiprocessing.get_context("fork")


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
