#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the docs.

    scripts/pictures.py [--check]               writes docs/pictures/*.svg; --check: fails where one is not what it would
                                                write
    scripts/pictures.py --status build/release  status.png: the page of a job that trains, as a browser without a screen
                                                shows it (Debian: chromium-headless-shell)
    scripts/pictures.py --trace build/release   trace.svg: the trace of such a job, some steps of it (protoc)

Text is in a font of the reader's, so boxes are wider than their text needs to be.
"""
import contextlib
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
INK, SOFT, LINE = "#1f2430", "#5b6475", "#8a93a6"
FILLS = {"plain": "#eef1f8", "main": "#d6e2ff", "other": "#dff2e3", "warm": "#fdebd0"}


class Picture:
    """Shapes in the order in which they are drawn. Coordinates are those of SVG: y goes down."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def box(self, x, y, width, height, lines, fill="plain", size=14, bold=True):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{FILLS[fill]}" '
                          f'stroke="{LINE}"/>')
        lines = [lines] if isinstance(lines, str) else lines
        top = y + height / 2 - (len(lines) - 1) * size * 0.65 + size * 0.35
        for number, line in enumerate(lines):
            first = number == 0
            self.text(x + width / 2, top + number * size * 1.3, line, size if first else size - 2, "middle",
                      bold and first, INK if first else SOFT)

    def text(self, x, y, words, size=13, anchor="start", bold=False, colour=INK):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
                          f"{html.escape(words)}</text>")

    def line(self, x1, y1, x2, y2, arrow=False, dashed=False, colour=SOFT):
        end = ' marker-end="url(#arrow)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="1.5"'
                          f"{dash}{end}/>")

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'font-family="system-ui, sans-serif" role="img">\n<title>{html.escape(self.title)}</title>\n'
                '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
                f'orient="auto"><path d="M0 0 10 5 0 10z" fill="{SOFT}"/></marker></defs>\n'
                f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def dependencies():
    """The layers, each with those that its CMakeLists.txt names."""
    found = {}
    for path in sorted((ROOT / "lockstep").glob("*/CMakeLists.txt")):
        if call := re.search(r"lockstep_layer\(\s*(\w+)\s+DEPS\s+(.*?)(?:PRIVATE|TEST_DEPS|SEPARATE|OPTIMIZED|\))",
                             path.read_text(), re.DOTALL):
            found[call[1]] = re.findall(r"\blockstep_(\w+)", call[2])
    return found


WORDS = {
    "base": "errors, dtypes, text, files", "watch": "what each process does", "storage": "folders, S3",
    "coordination": "JAX's control plane", "cluster": "launchers detected", "pjrt": "XLA's plugins",
    "collectives": "data plane on CPUs", "lapack": "decompositions", "onednn": "convolutions", "sorting": "sorting", "sleef": "functions", "threefry": "random words", "cuda": "calls from GPUs",
    "program": "Program, primitives",
    "transforms": "grad, vmap", "sharding": "Mesh, partitioner", "runtime": "initialize(), devices",
    "array": "Array, tracing, launch", "tree": "trees of arrays", "ops": "jax.numpy", "random": "random numbers",
    "nn": "layers, losses", "optim": "optimizers", "jit": "jit, shard_map, pmap", "sparse": "BCOO, BCSR", "interop": "jax.export",
    "data": "loaders", "tokenizers": "text and token ids", "checkpoint": "saves and restores", "metrics": "logs", "testing": "process tests",
}


def layers():
    depends = dependencies()
    level = {}

    def level_of(layer):
        if layer not in level:
            level[layer] = 1 + max((level_of(below) for below in depends.get(layer, ()) if below in depends), default=0)
        return level[layer]

    for layer in depends:
        level_of(layer)
    rows = [[layer for layer in WORDS if level.get(layer) == number] for number in range(max(level.values()), 0, -1)]
    missing = set(depends) - set(WORDS)
    if missing:
        sys.exit(f"pictures: add words for the layers {sorted(missing)}")
    wide = max(map(len, rows))
    picture = Picture(wide * 172 + 150, len(rows) * 62 + 84, "The layers: each includes only layers of rows below its own")
    top = 14
    picture.text(16, top + 26, "users' programs", 13, colour=SOFT)
    picture.box(140, top, wide * 172 - 6, 40, ["<lockstep/lockstep.h>", "and lockstep run, status, plan, ckpt (cli/)"], "main")
    for row in rows:
        top += 62
        for column, layer in enumerate(row):
            picture.box(140 + column * 172, top, 166, 48, [layer, WORDS[layer]], "plain")
    picture.line(118, 70, 118, top + 44, arrow=True)
    picture.text(16, 104, "includes", 13, colour=SOFT)
    picture.text(16, 122, "lead only", 13, colour=SOFT)
    picture.text(16, 140, "downwards", 13, colour=SOFT)
    return picture


def sequence(title, actors, steps, width=860):
    """Actors as columns; a step is (from, to, words), or (actor, None, words)."""
    picture = Picture(width, 76 + 38 * len(steps), title)
    at = [width * (2 * number + 1) / (2 * len(actors)) for number in range(len(actors))]
    for x in at:
        picture.line(x, 56, x, picture.height - 12, dashed=True, colour=LINE)
    for x, (name, fill) in zip(at, actors):
        picture.box(x - 104, 12, 208, 44, name, fill)
    y = 84
    for start, end, words in steps:
        if end is None:
            picture.box(at[start] - 100, y - 14, 200, 28, words, "warm", 12, bold=False)
        else:
            picture.line(at[start], y + 6, at[end], y + 6, arrow=True)
            middle, half = (at[start] + at[end]) / 2, 4 * len(words)
            picture.parts.append(f'<rect x="{middle - half:g}" y="{y - 12}" width="{2 * half}" height="15" fill="#ffffff"/>')
            picture.text(middle, y, words, 12, "middle")
        y += 38
    return picture


def start():
    return sequence(
        "How the processes of a job meet",
        [(["coordinator", "in the launcher or process 0"], "main"), ("process 0", "plain"), (["process 1", "and the others"], "plain")],
        [(1, None, "detects who started it"), (2, None, "detects who started it"),
         (1, 0, "proves the job's secret, registers"), (2, 0, "the same"),
         (0, 1, "all are there"), (0, 2, "all are there"),
         (1, None, "loads XLA's plugin"), (2, None, "loads XLA's plugin"),
         (2, 0, "own host, devices, addresses"), (0, 1, "everybody's"), (1, 0, "the topology, in one value"),
         (0, 2, "the topology"), (1, 2, "shared memory, or TCP between hosts"),
         (1, 0, "heartbeats, until the end"), (2, 0, "heartbeats, until the end")])


def launch():
    picture = Picture(900, 330, "A call of a jitted function, from the call to its collectives")
    first = [("call", "types become a key"), ("trace", "function to Program"), ("transform", "grad, vmap"),
             ("partition", "per-device Program"), ("lower", "StableHLO"), ("compile", "XLA, once per job")]
    for number, (name, words) in enumerate(first):
        x = 14 + number * 148
        picture.box(x, 40, 132, 56, [name, words], "main" if number == 0 else "plain")
        if number:
            picture.line(x - 16, 68, x, 68, arrow=True)
    picture.text(14, 26, "the first call with these shapes, dtypes and shardings", 13, colour=SOFT)
    picture.text(14, 150, "every call", 13, colour=SOFT)
    picture.box(14, 164, 132, 56, ["launch", "program, arrays"], "main")
    picture.line(80, 96, 80, 164, arrow=True)
    picture.text(90, 134, "a call with a known key goes straight on", 12, colour=SOFT)
    picture.line(820, 96, 820, 124)
    picture.line(820, 124, 380, 124)
    picture.line(380, 124, 380, 164, arrow=True)
    picture.box(310, 164, 140, 56, ["executable", "a device's program"], "plain")
    picture.line(146, 192, 310, 192, arrow=True)
    picture.box(520, 164, 150, 56, ["custom call", "a collective's number"], "plain")
    picture.line(450, 192, 520, 192, arrow=True)
    picture.box(740, 136, 146, 48, ["shared memory", "within a host"], "other")
    picture.box(740, 200, 146, 48, ["TCP, TLS or UCX", "between hosts"], "other")
    picture.line(670, 186, 740, 164, arrow=True)
    picture.line(670, 198, 740, 222, arrow=True)
    picture.box(310, 264, 360, 48, ["results", "Arrays whose parts lie on the devices"], "warm")
    picture.line(380, 220, 380, 264, arrow=True)
    return picture


def resharding():
    picture = Picture(860, 270, "An array over 4 devices, split by rows, then by columns: an all-to-all")
    colours = ["#cfe0ff", "#d9f2dd", "#fde3c0", "#f8d3d8"]

    def square(x, of, title):
        picture.text(x + 88, 30, title, 14, "middle", True)
        for row in range(4):
            for column in range(4):
                owner = row if of == "rows" else column
                picture.parts.append(f'<rect x="{x + column * 44}" y="{46 + row * 44}" width="44" height="44" '
                                     f'fill="{colours[owner]}" stroke="#ffffff" stroke-width="2"/>')
        for number in range(4):
            if of == "rows":
                picture.text(x + 88, 74 + number * 44, f"device {number}", 13, "middle")
            else:
                picture.text(x + 22 + number * 44, 140, str(number), 13, "middle")

    square(40, "rows", 'P("x")')
    square(640, "columns", 'P(None, "x")')
    picture.line(240, 134, 620, 134, arrow=True)
    picture.text(430, 112, "all-to-all", 15, "middle", True)
    picture.text(430, 162, "each device keeps one block", 13, "middle", colour=SOFT)
    picture.text(430, 182, "and gives one to each of the others:", 13, "middle", colour=SOFT)
    picture.text(430, 202, "3/4 of its part is received", 13, "middle", colour=SOFT)
    picture.text(430, 254, "The colour is the device that has a block.", 12, "middle", colour=SOFT)
    return picture


def checkpoint():
    picture = Picture(900, 300, "How four processes save a step, and what makes it published")
    picture.text(14, 28, "each process writes its own part", 13, colour=SOFT)
    for number in range(4):
        picture.box(14, 42 + number * 58, 150, 46, [f"process {number}", "its parts of the arrays"], "plain")
        picture.line(164, 65 + number * 58, 250, 65 + number * 58, arrow=True)
        picture.box(250, 42 + number * 58, 210, 46, [f"part-0000{number}-of-00004", "safetensors, synced"], "other")
    picture.text(250, 28, "step-00001000.tmp-JOB-NONCE-tTIME/", 13, colour=SOFT)
    picture.line(460, 152, 540, 152, arrow=True)
    picture.text(500, 140, "all done", 12, "middle")
    picture.box(540, 126, 130, 52, ["manifest.json", "checksums, synced"], "warm")
    picture.line(670, 152, 740, 152, arrow=True)
    picture.text(705, 140, "rename", 12, "middle")
    picture.box(740, 126, 146, 52, ["step-00001000/", "published"], "main")
    picture.text(540, 214, "A kill before the rename leaves the", 13, colour=SOFT)
    picture.text(540, 232, "step before; after it, the new one.", 13, colour=SOFT)
    picture.text(540, 258, "In an object store the manifest is", 13, colour=SOFT)
    picture.text(540, 276, "written last, if none is there.", 13, colour=SOFT)
    return picture


PICTURES = {"layers": layers, "start": start, "launch": launch, "resharding": resharding, "checkpoint": checkpoint}


@contextlib.contextmanager
def training_job(build, *options, steps, **variables):
    """Four processes that train a GPT until the end of the block."""
    environment = {**os.environ, "PATH": f"{build.resolve()}{os.pathsep}{os.environ['PATH']}", **variables}
    command = ["lockstep", "run", "-n", "4", *options, "--", "examples/train_gpt", "--layers", "2", "--steps", str(steps)]
    job = subprocess.Popen(command, cwd=build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        yield job
    finally:
        job.terminate()
        job.communicate()


def photograph_status(build):
    token = "a-token-for-one-picture"
    with tempfile.TemporaryDirectory() as scratch, \
            training_job(build, "--status-port", "0", steps=100000, LOCKSTEP_STATUS_TOKEN=token) as job:
        url = next(filter(None, (re.search(r"http://127.0.0.1:\d+", line) for line in job.stdout)), None)
        time.sleep(60)  # until it has compiled, and the last 5 s are training
        if not url or job.poll() is not None:
            sys.exit("pictures: the job ended before its picture was taken")
        browser = ["chromium-headless-shell", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={scratch}", "--window-size=1200,660", "--virtual-time-budget=3000",
                   "--run-all-compositor-stages-before-draw", f"--screenshot={FOLDER / 'status.png'}"]
        subprocess.run([*browser, f"{url.group()}/?token={token}"], stderr=subprocess.DEVNULL, check=True)


def slices_of(trace):
    """A trace's slices by process and thread, each as (start, end, depth, name); times in ns."""
    text = subprocess.run(["protoc", "--decode=lockstep.perfetto.Trace", f"-I{ROOT / 'cli' / 'trace'}", "perfetto.proto"],
                          stdin=open(trace, "rb"), capture_output=True, text=True, check=True).stdout
    processes, tracks, names, open_slices, slices = {}, {}, {}, {}, {}
    for packet in re.split(r"^packet ", text, flags=re.MULTILINE):
        value = lambda key: (re.search(rf'\b{key}: "?([^"\n]*)', packet) or [None, None])[1]
        sequence = value("trusted_packet_sequence_id")  # names are numbered in each by itself
        for iid, name in re.findall(r'event_names \{\s+iid: (\d+)\s+name: "(.*)"', packet):
            names[sequence, iid] = name
        if "process_name" in packet:
            processes[value("pid")] = value("process_name")
        elif "thread_name" in packet:
            tracks[value("uuid")] = (processes[value("pid")], value("thread_name"))
        elif value("track_uuid") in tracks:
            track, time_of = tracks[value("track_uuid")], int(value("timestamp"))
            opened = open_slices.setdefault(track, [])
            if named := re.search(r"TYPE_SLICE_BEGIN\s+name_iid: (\d+)", packet):
                opened.append((time_of, len(opened), names[sequence, named[1]]))
            elif opened:
                begin, depth, name = opened.pop()
                slices.setdefault(track, []).append((begin, time_of, depth, name))
    return slices


def draw_trace(slices, seconds):
    """So many seconds, from the middle of what is there: of each process what its main thread launches, and below the
    collectives, on whichever thread they run."""
    rows = {}
    for (process, thread), found in slices.items():
        for begin, end, depth, name in found:
            if thread == "main thread" and depth == 0:
                rows.setdefault(process, ([], []))[0].append((begin, end, name))
            elif name.startswith(("wait", "transfer")):
                rows.setdefault(process, ([], []))[1].append((begin, end, name))
    every = [each for launches, _ in rows.values() for each in launches]
    begin = (min(each[0] for each in every) + max(each[1] for each in every)) // 2
    left, width, row = 110, 1030, 26
    picture = Picture(left + width + 40, 90 + len(rows) * (2 * row + 12), "Some steps of four processes that train a GPT")
    scale = width / (seconds * 1e9)
    for mark in range(6):
        x = left + width * mark / 5
        picture.line(x, 32, x, picture.height - 40, dashed=True, colour=LINE)
        picture.text(x, 24, f"{seconds * 1e3 * mark / 5:g} ms", 12, "middle", colour=SOFT)
    for number, (process, kinds) in enumerate(sorted(rows.items())):
        top = 40 + number * (2 * row + 12)
        picture.text(10, top + 17, process.split(" (")[0], 14, bold=True)
        for line, found in enumerate(kinds):
            for first, last, name in sorted(found):
                x, right = (max(0, min((at - begin) * scale, width)) for at in (first, last))
                if right > x:
                    fill = "warm" if name.startswith("wait") else "other" if name.startswith("transfer") else "main"
                    picture.box(round(left + x, 1), top + line * row, round(max(right - x, 0.8), 1), row - 2,
                                name if len(name) * 7 < right - x else "", fill, 12, bold=False)
    top = picture.height - 28
    for number, (fill, words) in enumerate((("main", "a launch of step"), ("warm", "waits in a collective for the others"),
                                            ("other", "moves a collective's data"))):
        picture.box(left + number * 290, top, 18, 18, "", fill)
        picture.text(left + number * 290 + 26, top + 14, words, 13)
    return picture


def record_trace(build):
    with tempfile.TemporaryDirectory() as scratch, training_job(build, steps=600) as job:
        if not any(re.search(r"\bloss\b", line) for line in job.stdout):
            sys.exit("pictures: the job ended before its trace was taken")
        trace = f"{scratch}/t.pftrace"
        subprocess.run([build.resolve() / "lockstep", "trace", "--seconds", "1", "-o", trace], check=True)
        (FOLDER / "trace.svg").write_text(draw_trace(slices_of(trace), 0.1).svg())


def main():
    if len(sys.argv) == 3 and sys.argv[1] in ("--status", "--trace"):
        return {"--status": photograph_status, "--trace": record_trace}[sys.argv[1]](Path(sys.argv[2]))
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, draw in PICTURES.items():
        path, text = FOLDER / f"{name}.svg", draw().svg()
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"pictures: {', '.join(stale)}: not what scripts/pictures.py draws; run it")


if __name__ == "__main__":
    main()
