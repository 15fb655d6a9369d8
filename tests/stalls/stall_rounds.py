#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts faults drawn at random into jobs, and looks whether the launcher names the right process and what it does.

    stall_rounds.py LOCKSTEP STALL_PROCESS [--rounds N] [--seed S] [--jobs J] [--warning SECONDS] [--fault NAME]
                    [--without-launcher | --hosts | --gpu-plugin FILE] [--page docs/hangs.md]

With --hosts processes 0 and 1 are on one host and the others on another, by a remote shell that stays here. With
--gpu-plugin, a plugin that looks like a GPU's, the collectives are the plugin's own, as NCCL's: devices wait for each
other, nobody is told for whom, and processes that differ in a program with collectives wait for ever. There the job is
given a --stall-timeout, and must fail with the process that differs as its cause.
Prints a line for each round that is wrong, and the counts. Exits with 1 where any is.
"""
import argparse
import concurrent.futures
import math
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# The words that must describe each fault.
STALLS = {
    "sleep": r"it sleeps \(clock_nanosleep",
    "spin": r"it runs, using \d+% of a core",
    "lock": r"it waits for a lock or another thread",
    "read": r"it is blocked in a system call \(read\)",
    "stop": r"is stopped by a signal \(kill -CONT \d+ lets it go on\)",
    "disk": r"it is blocked in the kernel, by a disk or file system",
    "phase": r'is in phase "load" \(at stall_process\.cc:\d+\)',
    "trace": r"traces jit@stall_process\.cc:\d+",
    # Of many programs one after the other, each of which is traced first.
    "compile": r"(?:compiles|traces) jit@stall_process\.cc:\d+",
    "input": r"waits for input, batch \d+ \(at stall_process\.cc:\d+\)",
    "save": r"saves a checkpoint, \S+ \(at stall_process\.cc:\d+\)",
    "restore": r"restores a checkpoint, \S+ \(at stall_process\.cc:\d+\)",
    "late": r"has not called initialize\(\)",
}
# The words with which each row of docs/hangs.md's table begins, and the fault that provokes it.
PAGE = {
    "has been in its own code since ": "sleep",
    "it runs, using ": "spin",
    "it is blocked in a system call (read)": "read",
    "it waits for a lock or another thread (futex)": "lock",
    "it is blocked in the kernel, by a disk or file system": "disk",
    "is stopped by a signal": "stop",
    "traces ": "trace",
    "compiles ": "compile",
    'is in phase "load"': "phase",
    "waits for input": "input",
    "saves a checkpoint": "save",
    "restores a checkpoint": "restore",
    "has not called initialize()": "late",
    "has left the job early": "return",
}
# Without a launcher a stopped process is not seen.
DOES_NOT_ANSWER = "does not answer"
ENDS = {
    "kill": r"died: signal 9",
    "return": r"left the job early",
}
# The first launch over the mesh that differs, two of them a step.
DIFFERENCES = {
    "exchanged": lambda step: 2 * step + 2,
    "extra": lambda step: 2 * step + 1,
    "skipped": lambda step: 2 * step + 2,
    "exchanged_local": lambda step: 2 * step + 1,
    "extra_local": lambda step: 2 * step + 2,
}
# Faults after which devices wait for each other for ever.
DEADLOCKS = ("exchanged", "extra", "skipped", "return")
LEFT = r"has left the job early: it waits for the others in shutdown\(\)"
STEPS = 8


def words_of_page(path):
    """What the first column of the page's first table has in code."""
    rows = re.findall(r"^\| (`.*?`) +\|", open(path).read().split("## Options")[0], re.M)
    return [words for row in rows for words in re.findall(r"`([^`]*)`", row)]


def check_page(path):
    """Whether each row of the page is one that a fault provokes, and each of these has a row."""
    words = words_of_page(path)
    known = [*PAGE, DOES_NOT_ANSWER]
    for each in words:
        if not any(each.startswith(start) for start in known):
            sys.exit(f"{path} says '{each}', which no fault provokes")
    for start in known:
        if not any(each.startswith(start) for each in words):
            sys.exit(f"{path} does not say '{start}'")
    if missing := {*STALLS, "return"} - set(PAGE.values()):
        sys.exit(f"PAGE lacks {missing}")
    print(f"each of the {len(words)} things that {os.path.basename(path)} tells apart has a fault")


def start_by_itself(program, arguments, processes, warning, environment):
    """Each process by its variables, as a user's own scripts start them; one shell is the parent of all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    each = " & ".join(f"LOCKSTEP_PROCESS_ID={i} {shlex.join([program, *arguments])} 1>&2" for i in range(processes))
    return subprocess.Popen(["sh", "-c", each + " & wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**environment, "LOCKSTEP_COORDINATOR_ADDRESS": address,
                                 "LOCKSTEP_NUM_PROCESSES": str(processes), "LOCKSTEP_STALL_WARNING": str(warning)})


def places_of(processes, how):
    """The launcher's arguments that say where the processes are."""
    if not how.hosts:
        return ["-n", str(processes)]
    return ["--hosts", f"a:{min(processes, 2)}" + (f",b:{processes - 2}" if processes > 2 else ""), "--rsh", how.rsh,
            "--coordinator-address", "127.0.0.1"]


def run_round(tool, program, fault, processes, process, step, how):
    """Nothing where all is right, else what is wrong; and after how many seconds the first word came."""
    warning = how.warning
    # Long enough for two looks of a second each after the warning, on a machine that is busy.
    hold = warning + 6
    arguments = [fault, str(process), str(step), str(hold), str(STEPS)]
    environment = {**os.environ, "STALL_FOLDER": tempfile.mkdtemp(dir=how.folder)}
    environment["GPU_ON_CPU_FOLDER"] = environment["STALL_FOLDER"]
    deadlocks = bool(how.gpu_plugin) and fault in DEADLOCKS
    timeout = ["--stall-timeout", str(math.ceil(warning) + 3)] if deadlocks else []
    started = time.monotonic()
    if not how.without_launcher:
        job = subprocess.Popen([tool, "run", *places_of(processes, how), "--stall-warning", str(warning), *timeout,
                                program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment)
    else:
        job = start_by_itself(program, arguments, processes, warning, environment)
    lines, word_at, came = [], None, None

    def read_out():
        for line in job.stdout:
            lines.append(line)

    reader = threading.Thread(target=read_out)
    reader.start()
    for line in job.stderr:
        # A process's own lines begin with their level, the time and the process.
        line = re.sub(r"^[IW] [0-9:.]+ \[process \d+ of \d+\] (?=stalled|waiting|went)", "lockstep: ", line)
        lines.append(line)
        if "cluster launcher" in line or "cluster explicit" in line:
            came = came or time.monotonic()
        if line.startswith(("lockstep: stalled for", "lockstep: waiting for")) and word_at is None:
            word_at = time.monotonic()
            pid = re.search(r"for process \d+ \((?:host \S+, )?pid (\d+)\)", line)
            if fault == "stop" and pid:
                os.kill(int(pid.group(1)), signal.SIGCONT)
        if time.monotonic() > started + hold + 60:
            job.kill()
    reader.join()
    job.wait()
    text = "".join(lines)
    if deadlocks and fault == "return":
        wrong = judge_early(text, process)
    else:
        wrong = judge(fault, text, process, step, job.returncode, how.without_launcher)
    if not wrong and deadlocks and fault != "return":
        wrong = judge_deadlock(fault, text, process, processes, job.returncode)
    return wrong and f"{wrong}:\n{text}", (word_at - min(came or started, word_at)) if word_at else None


def round_of(*arguments):
    """As run_round, but once more, at most twice, where a process was slow to compile: then the words rightly name that one
    instead of the fault; and where the look fell between two programs of one that compiles many."""
    for _ in range(3):
        wrong, after = run_round(*arguments)
        between = r"own code since jit@stall_process\.cc:\d+, \d+ ms ago"
        if not wrong or not re.search(between if arguments[2] == "compile" else r"which compiles jit@stall_process\.cc", wrong):
            break
        print(f"{arguments[2]}: a process compiled, or was between two programs; again", flush=True)
    return wrong, after


def several_compile(word):
    """A fault is one process's. On a busy machine several compile the first program for seconds, which is said too."""
    several = "all for processes " in word or "; and process" in word
    return several and all(reason == "compiles" for reason in re.findall(r"which (\w+)", word))


def judge(fault, text, process, step, status, without_launcher):
    if fault in STALLS:
        is_named = DOES_NOT_ANSWER if fault == "stop" and without_launcher else STALLS[fault]
        words = re.findall(r"^lockstep: (?:stalled|waiting) for .*$", text, re.M)
        words = [word for word in words if not several_compile(word)]
        if not words:
            return "no word on the stall"
        for word in words:
            blamed = re.search(r"all for process (\d+)(?: \([^)]*\))?, which (.*)", word)
            if not blamed or int(blamed.group(1)) != process:
                return "another process is named"
        if not any(re.search(is_named, word) for word in words):
            return "another reason is named"
        # What compiles is traced before, and a look may fall into that.
        words = [word.replace("which traces ", "which compiles ") for word in words]
        page = [start for start, provoked in PAGE.items() if provoked == fault and is_named == STALLS[fault]]
        if not all(any(start in word for word in words) for start in page):
            return "it is not in the words of docs/hangs.md"
        if fault == "phase" and not words[0].startswith("lockstep: waiting for"):
            return "a declared phase is called a stall"
        if "went on after" not in text:
            return "its end is not said"
        return status != 0 and f"the job ended with {status}"
    if fault in ENDS:
        if status == 0:
            return "the job ended well"
        if "lockstep: the job failed" not in text:
            return "the launcher does not say that the job failed"
        last = text[text.rindex("lockstep: the job failed"):]
        return not re.search(rf"process {process} \(.*{ENDS[fault]}", last) and "another cause is named"
    found = re.search(r"launch (\d+) over the mesh differs: (.*)", text)
    if not found:
        return "no difference is named"
    if int(found.group(1)) != DIFFERENCES[fault](step):
        return f"launch {found.group(1)} is named, expected {DIFFERENCES[fault](step)}"
    return not re.search(rf"process {process} of", found.group(2)) and "the minority is not named"


def judge_early(text, process):
    """Who waits for a device is not told by it that another process has left; the launcher sees that. Before, on a busy
    machine, the process may have been slow at something else."""
    words = re.findall(r"^lockstep: stalled for .*$", text, re.M)
    if not all(re.search(rf"all for process {process} ", word) for word in words):
        return "another process is named"
    if not any(re.search(rf"which {LEFT}", word) for word in words):
        return "another reason is named"
    return not re.search(rf"the job failed: .*all for process {process} .*{LEFT}", text) and "another process is the cause"


def judge_deadlock(fault, text, process, processes, status):
    # A process that skips a step comes to its end first, and waits there.
    left = fault == "skipped" and re.search(rf"all for process {process} .*{LEFT}", text)
    # Those that launch a program for the first time compare it; the others wait for each other.
    compared = "the processes launch different programs: " in text
    if "they wait for each other" not in text and not left and not compared:
        return "it is not said that they wait for each other"
    if status == 0 or "lockstep: the job failed" not in text:
        return "the difference did not end the job"
    last = text[text.rindex("lockstep: the job failed"):]
    # Either of two processes may be the one that differs.
    differs = rf"launch \d+ over the mesh differs: .*but process {process} of"
    return not re.search(differs if processes > 2 else "launch .* differs", last) and \
        "the process that differs is not said at the end"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--warning", type=float, default=2)
    parser.add_argument("--fault", action="append")
    parser.add_argument("--without-launcher", action="store_true")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--gpu-plugin")
    parser.add_argument("--page", help="docs/hangs.md, whose table must have what the faults provoke, and no more")
    given = parser.parse_args()
    if given.page:
        check_page(given.page)
    names = given.fault or sorted([*STALLS, *ENDS, *DIFFERENCES])
    folder = tempfile.TemporaryDirectory()
    given.folder, given.rsh = folder.name, os.path.join(folder.name, "rsh")
    with open(os.open(given.rsh, os.O_CREAT | os.O_WRONLY, 0o755), "w") as script:
        script.write('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    if given.gpu_plugin:
        behind = os.path.join(os.path.dirname(__file__), "../../third_party/pjrt/pjrt_c_api_cpu_plugin.so")
        os.environ.update(GPU_ON_CPU_BEHIND=os.environ.get("LOCKSTEP_PJRT_PLUGIN", behind),
                          LOCKSTEP_PJRT_PLUGIN=given.gpu_plugin)
    draw = random.Random(given.seed)
    rounds = []
    for number in range(given.rounds):
        fault = names[number % len(names)]
        processes = draw.randint(2, 6)
        # The usual time of a launch is known after a few: the first ones wait for processes that start late.
        step = draw.randrange(3, STEPS - 1)
        # Where devices connect by themselves, the first launch of a program is the one that blocks.
        if given.gpu_plugin and draw.random() < 0.25:
            step = 0
        rounds.append((fault, processes, draw.randrange(processes), step))
    wrong, seconds = 0, []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        work = [pool.submit(round_of, given.tool, given.program, *each, given) for each in rounds]
        for each, result in zip(rounds, work):
            problem, after = result.result()
            if after is not None:
                seconds.append(after)
            if problem:
                wrong += 1
                print("WRONG: {} in process {} of {} at step {}".format(each[0], each[2], each[1], each[3]), problem,
                      flush=True)
    if seconds:
        print(f"first words after {sorted(seconds)[len(seconds) // 2]:.1f} s (median), {max(seconds):.1f} s (last)")
    print(f"{given.rounds - wrong} of {given.rounds} right")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
