#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyPI's safetensors opens every part of a checkpoint of several processes, and an export of it; files that NumPy
writes are read.

    tests/checkpoints/safetensors_reads.py SAVE_STEPS LOCKSTEP VENV
"""
import json
import os
import subprocess
import sys
import tempfile

PACKAGES = ["numpy==2.3.5", "safetensors==0.7.0"]
COUNTS = {"large": 100_000, "small": 7}


def expected(numpy, count, step):
    numbers = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(2654435761) + numpy.uint64(step * 40503)
    return (numbers & numpy.uint64(0xFFFFFFFF)).astype(numpy.uint32).view(numpy.int32)


def read(folder):
    """In the virtual environment."""
    import numpy
    from safetensors import safe_open

    with open(os.path.join(folder, "step-00000002", "manifest.json")) as file:
        manifest = json.load(file)["checkpoint"]
    whole = {name: numpy.zeros(count, numpy.int32) for name, count in COUNTS.items()}
    parts = 0
    for name, array in manifest["arrays"].items():
        for part in array["parts"]:
            with safe_open(os.path.join(folder, "step-00000002", manifest["files"][part["file"]]["name"]), "numpy") as file:
                (start,), (limit,) = part["range"]
                whole[name][start:limit] = file.get_tensor(part["key"])
                parts += 1
    with safe_open(os.path.join(folder, "hf", "model.safetensors"), "numpy") as file:
        exported = {name: file.get_tensor(name) for name in file.keys()}
    for name, count in COUNTS.items():
        assert (whole[name] == expected(numpy, count, 2)).all(), name
        assert (exported[name] == expected(numpy, count, 2)).all(), name
    assert parts > len(COUNTS), "the large array was cut"
    numbers = numpy.load(os.path.join(folder, "numbers.npz"))
    with safe_open(os.path.join(folder, "from_npz", "model.safetensors"), "numpy") as file:
        for name in numbers.files:
            assert (file.get_tensor(name) == numbers[name]).all() and file.get_tensor(name).shape == numbers[name].shape
    print(f"{parts} parts and an export, as they should be")


def write_numbers(folder):
    """In the virtual environment: files of NumPy's."""
    import numpy

    arrays = {"a": numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4), "half": numpy.float16([1.5, -2]),
              "scalar": numpy.int64(7), "empty": numpy.zeros((0, 3), numpy.uint8), "flags": numpy.array([True, False])}
    numpy.savez_compressed(os.path.join(folder, "numbers.npz"), **arrays)
    numpy.savez(os.path.join(folder, "columns.npz"),
                **{name: numpy.array(array, order="F") for name, array in arrays.items()})
    numpy.save(os.path.join(folder, "columns.npy"), numpy.asfortranarray(arrays["a"]))
    with open(os.path.join(folder, "numbers.npz"), "rb") as file:
        damaged = bytearray(file.read())
    damaged[60] ^= 1
    with open(os.path.join(folder, "damaged.npz"), "wb") as file:
        file.write(damaged)


def main():
    if sys.argv[1] == "--write":
        return write_numbers(sys.argv[2])
    if sys.argv[1] == "--read":
        return read(sys.argv[2])
    save_steps, lockstep, venv = sys.argv[1:]
    python = os.path.join(venv, "bin", "python3")
    if not os.path.exists(os.path.join(venv, "ready")):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        open(os.path.join(venv, "ready"), "w").close()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([lockstep, "run", "-n", "4", "--", save_steps, folder, "--count", "2"], check=True)
        subprocess.run([lockstep, "ckpt", "verify", folder], check=True)
        subprocess.run([lockstep, "ckpt", "export", os.path.join(folder, "step-00000002"), os.path.join(folder, "hf")],
                       check=True)
        subprocess.run([python, __file__, "--write", folder], check=True)
        numbers, columns = (os.path.join(folder, f"{name}.npz") for name in ("numbers", "columns"))
        subprocess.run([lockstep, "ckpt", "diff", numbers, columns], check=True)
        shown = subprocess.run([lockstep, "ckpt", "cat", os.path.join(folder, "columns.npy"), ""], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        assert "f32[2,3,4]" in shown and "[12. 13. 14. 15.]" in shown, shown
        damaged = subprocess.run([lockstep, "ckpt", "verify", os.path.join(folder, "damaged.npz")], stderr=subprocess.PIPE,
                                 text=True)
        assert damaged.returncode == 1 and "damaged.npz" in damaged.stderr, damaged.stderr
        subprocess.run([lockstep, "ckpt", "export", numbers, os.path.join(folder, "from_npz")], check=True)
        subprocess.run([python, __file__, "--read", folder], check=True)


main()
