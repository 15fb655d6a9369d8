# SPDX-License-Identifier: Apache-2.0
"""Finding the processes of a job from outside it, and what this machine lets a test do."""
import os
import subprocess


def processes_with(name, value):
    """The environments, by pid, of the processes in which the variable has this value."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(entry.split("=", 1) for entry in os.fsdecode(file.read()).split("\0") if "=" in entry)
        except OSError:
            continue
        if variables.get(name) == value:
            found[int(pid)] = variables
    return found


def namespaces_can_be_made():
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"],
                          stderr=subprocess.DEVNULL).returncode == 0
