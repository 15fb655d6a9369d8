#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyPI's tensorboard reads the event files of a job that was restarted: the values, and of a step that was written twice
the second.

    tests/metrics/tensorboard_reads.py LOCKSTEP WRITE_METRICS VENV

WRITE_METRICS logs steps 0 to 5 and fails in its first life; it goes on from step 3 in the second.
"""
import json
import os
import subprocess
import sys
import tempfile

# Without what its server needs: the reader imports no more than these.
PACKAGES = ["tensorboard==2.20.0", "numpy==2.3.5", "protobuf==7.36.2", "absl-py==2.5.1"]


def read(folder):
    """In the virtual environment."""
    import math

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder)
    events.Reload()
    scalars = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert sorted(scalars) == ["lives/attempt", "loss", "not a number"], scalars
    assert scalars["loss"] == [(step, step / 4) for step in range(8)], scalars
    assert scalars["lives/attempt"] == [(step, 0 if step < 3 else 1) for step in range(8)], scalars
    assert all(math.isnan(value) for _, value in scalars["not a number"]), scalars


def main():
    if sys.argv[1] == "read":
        return read(sys.argv[2])
    lockstep, write_metrics, venv = sys.argv[1:]
    python = os.path.join(venv, "bin", "python3")
    if not os.path.exists(os.path.join(venv, "ready")):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", *PACKAGES],
                       check=True)
        open(os.path.join(venv, "ready"), "w").close()
    with tempfile.TemporaryDirectory() as folder:
        logs = os.path.join(folder, "logs")
        subprocess.run([lockstep, "run", "-n", "2", "--max-restarts", "1", "--log-dir", logs, "--", write_metrics],
                       check=True)
        subprocess.run([python, __file__, "read", logs], check=True)
        with open(os.path.join(logs, "process-0.metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        steps = [(line["attempt"], line["step"]) for line in lines]
        assert steps == [(0, step) for step in range(6)] + [(1, step) for step in range(3, 8)], steps
        assert lines[4]["values"] == {"loss": 1.0, "lives/attempt": 0.0, "not a number": "NaN"}, lines[4]


if __name__ == "__main__":
    main()
