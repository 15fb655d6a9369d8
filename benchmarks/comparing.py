# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with other systems share: JAX's interpreter, MPI's tools, running programs, tables."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PINNED = ["jax==0.10.2", "jaxlib==0.10.2", "optax==0.2.8"]


def python_with(packages, folder):
    """The interpreter of a virtual environment in `folder` with these packages, made where it is not there yet. A link is
    replaced, and what it led to spared."""
    python, stamp = folder / "bin" / "python", folder / "pinned"
    if folder.is_symlink() or not (stamp.exists() and stamp.read_text().split() == packages):
        print(f"making {folder} with {' '.join(packages)}", file=sys.stderr)
        if folder.is_symlink():
            folder.unlink()
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                       check=True)
        stamp.write_text("\n".join(packages))
    return str(python)


def jax_python(folder=ROOT / "build" / "compare_jax" / "venv"):
    return python_with(PINNED, folder)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def jax_commands(command, processes, environment={}):
    """What `run` takes to start a program of JAX's side in some processes, which meet on this machine."""
    coordinator = f"127.0.0.1:{free_port()}"
    return [(command, {"COMPARE_PROCESSES": str(processes), "COMPARE_PROCESS": str(i), "COMPARE_COORDINATOR": coordinator,
                       "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "benchmarks" / "compare_jax"), **environment})
            for i in range(processes)]


def human(microseconds):
    if microseconds is None:
        return "-"
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1e3 else f"{microseconds:.3g} us"


def stop(processes):
    """Ends what is left of these processes, each the leader of its own group."""
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def run(commands, timeout):
    """Runs the commands, given as (command line, environment), side by side. Returns the measurements they printed,
    with the wall time of their start. Raises RuntimeError where one fails or the time is over; none is left running."""
    processes, outputs, names = [], [], " and ".join(sorted({shlex.join(c) for c, _ in commands}))
    started = time.time()
    try:
        for command, environment in commands:
            output = tempfile.TemporaryFile("w+")
            outputs.append(output)
            processes.append(subprocess.Popen(command, env={**os.environ, **environment}, stdout=output,
                                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                              start_new_session=True))
        deadline = time.monotonic() + timeout
        failed = None
        while failed is None and any(p.poll() is None for p in processes):
            if time.monotonic() > deadline:
                failed = f"did not end within {timeout} s"
            elif any(p.poll() not in (None, 0) for p in processes):
                failed = f"ended with status {next(p.poll() for p in processes if p.poll())}"
            time.sleep(0.02)
        if failed is None and any(p.returncode for p in processes):
            failed = f"ended with status {next(p.returncode for p in processes if p.returncode)}"
    finally:
        stop(processes)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read())
        output.close()
    if failed is not None:
        tails = "\n".join(f"--- process {i}\n{text[-3000:]}" for i, text in enumerate(texts))
        raise RuntimeError(f"{names} {failed}\n{tails}")
    measurements = []
    for text in texts:
        for line in text.splitlines():
            at = line.find('{"measure"')  # `lockstep run` puts the process before each line
            if at >= 0:
                measurements.append(json.loads(line[at:]))
    return started, measurements


def try_run(name, commands, timeout, failures):
    """The measurements of `run`; None if it fails, which is said and added to `failures`."""
    print(name, file=sys.stderr)
    try:
        return run(commands, timeout)[1]
    except RuntimeError as error:
        failures.append(f"{name}: {error}")
        print(f"FAILED {failures[-1]}", file=sys.stderr)
        return None


class Mpi:
    """An MPI with its own compiler and launcher."""

    def __init__(self, name, flavor, package, options):
        self.name, self.flavor, self.package, self.options = name, flavor, package, options

    @staticmethod
    def there():
        """Those that can compile and start programs here. As many processes as cores are bound to them, more are not bound."""
        kinds = [Mpi("Open MPI", "openmpi", "openmpi-bin", ["--allow-run-as-root", "--oversubscribe"]),
                 Mpi("MPICH", "mpich", "mpich", [])]
        there = []
        for mpi in kinds:
            missing = mpi.missing()
            if missing is None:
                there.append(mpi)
            else:
                print(f"{mpi.name} is left out: {missing}; apt-get install {mpi.package} lib{mpi.flavor}-dev",
                      file=sys.stderr)
        return there

    def missing(self):
        """What this MPI lacks here, None for nothing. The compiler's script and the launcher may be there without the
        headers or the library."""
        for tool in (f"mpicxx.{self.flavor}", f"mpirun.{self.flavor}"):
            if not shutil.which(tool):
                return f"there is no {tool}"
        with tempfile.TemporaryDirectory() as folder:
            tried = subprocess.run([f"mpicxx.{self.flavor}", "-x", "c++", "-", "-o", f"{folder}/program"], text=True,
                                   input="#include <mpi.h>\nint main() { return MPI_Init(nullptr, nullptr); }\n",
                                   capture_output=True)
        if tried.returncode == 0:
            return None
        lines = tried.stderr.strip().splitlines() or [f"status {tried.returncode}"]
        return f"mpicxx.{self.flavor} compiles no program: " + next((l for l in lines if "error" in l), lines[0])

    def compile(self, source, folder, *options):
        """The program's path in the folder."""
        program = folder / f"{source.stem}.{self.flavor}"
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([f"mpicxx.{self.flavor}", "-std=c++20", *options, f"-I{ROOT}", "-o", str(program), str(source)],
                       check=True)
        return str(program)

    def command(self, processes, command):
        return [f"mpirun.{self.flavor}", *self.options, "-n", str(processes), *command]


def warn_if_busy():
    """Says so if other programs run. Returns the load average."""
    load = os.getloadavg()[0]
    if load > 0.3 * os.cpu_count():
        print(f"warning: the machine is busy (load average {load:.1f} on {os.cpu_count()} cores): "
              "figures will be worse than they are", file=sys.stderr)
    return load


def print_table(head, body):
    """A table of Markdown, to be pasted into a page: the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]

    def show(line):
        print("| " + " | ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]) + " |")
    show(head)
    print("| " + " | ".join(["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]) + " |")
    for line in body:
        show(line)
