#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and restores the same arrays with Lockstep, Orbax and PyTorch DCP, alternately, and prints medians and ratios.

    benchmarks/compare_checkpoints.py FOLDER [--mib 1024] [--rounds 5] [--build build/release] [--venv DIR]

One process on the CPU; FOLDER is on the disk to measure. The peers are used as their guides do; Lockstep's save has
everything on disk for good when it returns, theirs need not (a `sync` behind them is measured as well). Restores are cold
where the page cache may be dropped (root). Makes a virtual environment with the peers; PyTorch is left out where it
cannot be installed.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

PEERS = {"orbax": ["jax==0.10.2", "jaxlib==0.10.2", "orbax-checkpoint==0.12.8", "numpy==2.4.6"], "dcp": ["torch==2.15.0", "numpy==2.4.6"]}


def drop_caches():
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass


def arrays(numpy, mib):
    random = numpy.random.default_rng(0)
    rows = (mib << 20) // 16 // 4 // 1024
    state = {f"w{i}": random.standard_normal((rows, 1024), dtype=numpy.float32) for i in range(16)}
    return state | {f"b{i}": random.standard_normal(1024, dtype=numpy.float32) for i in range(16)}


def timed(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def orbax(folder, mib):
    import jax
    import numpy
    import orbax.checkpoint as ocp

    state = jax.tree.map(jax.numpy.asarray, arrays(numpy, mib))
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
    with ocp.StandardCheckpointer() as checkpointer:
        def save():
            checkpointer.save(folder, state)
            checkpointer.wait_until_finished()

        yield timed(save)
        yield timed(os.sync)
        drop_caches()
        yield timed(lambda: jax.block_until_ready(checkpointer.restore(folder, like)))


def dcp(folder, mib):
    import numpy
    import torch
    import torch.distributed.checkpoint as checkpoint

    state = {name: torch.from_numpy(array) for name, array in arrays(numpy, mib).items()}
    yield timed(lambda: checkpoint.save(state, checkpoint_id=folder))
    yield timed(os.sync)
    drop_caches()
    yield timed(lambda: checkpoint.load({name: torch.empty_like(x) for name, x in state.items()}, checkpoint_id=folder))


def interpreter(folder, packages):
    python = folder / "bin" / "python"
    stamp = folder / "pinned"
    if not (stamp.exists() and stamp.read_text() == "\n".join(packages)):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        if subprocess.run([str(python), "-m", "pip", "install", "-q", *packages]).returncode != 0:
            return None
        stamp.write_text("\n".join(packages))
    return str(python)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--venv", default="build/compare_checkpoints")
    parser.add_argument("--peers", default="orbax,dcp")
    parser.add_argument("--peer")
    arguments = parser.parse_args()
    if arguments.peer:
        save, sync, restore = {"orbax": orbax, "dcp": dcp}[arguments.peer](arguments.folder, arguments.mib)
        return print(json.dumps({"save": save, "sync": sync, "restore": restore}))
    folder = pathlib.Path(arguments.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    commands = {"lockstep": [f"{arguments.build}/benchmarks/checkpoint_bench", str(folder / "lockstep"), "--rounds", "1",
                             "--mib", str(arguments.mib), "--raw"]}
    for peer in arguments.peers.split(","):
        if python := interpreter(pathlib.Path(arguments.venv).resolve() / peer, PEERS[peer]):
            commands[peer] = [python, __file__, str(folder / peer), "--mib", str(arguments.mib), "--peer", peer]
    found = {name: [] for name in commands}
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                                  env={**os.environ, "LOCKSTEP_LOG": "warning"})
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            shutil.rmtree(folder / name, ignore_errors=True)
    medians = {name: {what: statistics.median(each[what] for each in times) for what in times[0]}
               for name, times in found.items()}
    mine = medians["lockstep"]
    # The disk alone, by O_DIRECT in blocks of 8 MiB, and a restore that copies in place of mapping.
    medians["the disk"] = {"save": mine["write"], "restore": mine["read"]}
    medians["by copying"] = {"restore": mine["copied"]}
    print(f"{arguments.mib} MiB, medians of {arguments.rounds}")
    print(f"{'':12}{'save':>10}{'with sync':>12}{'restore, cold':>16}")
    for name, times in medians.items():
        save, restore = times.get("save"), times["restore"]
        saves = f"{save:8.2f} s{save + times.get('sync', 0):10.2f} s" if save else " " * 22
        print(f"{name:12}{saves}{restore:14.2f} s   " +
              (f"{save / mine['save']:.2f} and " if save else "") + f"{restore / mine['restore']:.2f} times Lockstep's")


main()
