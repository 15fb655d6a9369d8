# SPDX-License-Identifier: Apache-2.0
"""Holds scripts/setup to what it says of itself: setup_test.py SOURCE_DIR. Needs no network; installs nothing."""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1)).resolve()


class Setup(unittest.TestCase):
    """A copy of scripts/ in a folder of its own, on a machine that is pretended: no package is installed on it."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name) / "clone"
        shutil.copytree(SOURCE / "scripts", self.root / "scripts")
        self.programs = Path(self.scratch.name) / "bin"
        self.programs.mkdir()
        self.pretend("id", "echo 1000")
        self.pretend("sudo", "exit 1")
        self.pretend("apt-get", "echo 'a test may not install' >&2; exit 100")
        self.plugin = self.root / "plugin.so"
        self.plugin.touch()

    def pretend(self, program, text):
        path = self.programs / program
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def pretend_installed(self):
        names = [line.split()[0] for name in ("packages.txt", "packages-tests.txt")
                 for line in (SOURCE / "scripts" / name).read_text().splitlines() if line and line[0] != "#"]
        self.pretend("dpkg-query", "\n".join(f"echo installed {name}" for name in names))

    def environment(self):
        rest = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_INSTALL"}
        return {**rest, "PATH": f"{self.programs}:{os.environ['PATH']}", "LOCKSTEP_PJRT_PLUGIN": str(self.plugin)}

    def setup(self, *arguments, cwd=None, variables=None):
        return subprocess.run([self.root / "scripts" / "setup", *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=self.environment() | (variables or {}), cwd=cwd,
                              check=False)

    def test_without_root_it_says_in_one_line_what_is_missing(self):
        self.pretend("dpkg-query", "echo installed cmake")
        done = self.setup()
        self.assertEqual(done.returncode, 1)
        [line] = done.stderr.splitlines()
        self.assertRegex(line, "^setup: these packages are missing; run: sudo apt-get install -y .*libgrpc")
        self.assertNotIn(" cmake", line)
        for daemon in ("openssh-server", "slurmd", "slurmctld", "munge", "openmpi", "mpich", "gtest"):
            self.assertNotIn(daemon, line)

    def pretend_sudo(self):
        """One that needs no password: it notes what it was told, and does nothing, so that setup ends there."""
        self.noted = Path(self.scratch.name) / "noted"
        self.pretend("dpkg-query", "echo installed cmake")
        self.pretend("sudo", f'echo "$@" >> {self.noted}; test "$1" != env')

    def told(self):
        return self.noted.read_text() if self.noted.exists() else ""

    def test_sudo_is_not_run_unasked(self):
        self.pretend_sudo()
        done = self.setup()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "run: sudo apt-get install -y .*scripts/setup --install")
        self.assertEqual(self.told(), "")

    def test_an_option_or_a_variable_lets_sudo_run(self):
        for arguments, variables in ((["--install"], {}), ([], {"LOCKSTEP_INSTALL": "1"})):
            self.pretend_sudo()
            self.setup(*arguments, variables=variables)
            self.assertRegex(self.told(), "apt-get update\nenv DEBIAN_FRONTEND=noninteractive apt-get install -y")
            self.noted.unlink()

    def test_on_a_terminal_it_asks(self):
        for answer, runs in (("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("\4", False)):
            self.pretend_sudo()
            terminal, end = pty.openpty()
            os.write(terminal, answer.encode())
            subprocess.run([self.root / "scripts" / "setup"], stdin=end, stderr=end, stdout=subprocess.DEVNULL,
                           env=self.environment(), check=False, timeout=60)
            os.close(end)
            said = ""
            try:
                while piece := os.read(terminal, 1 << 16):
                    said += piece.decode()
            except OSError:  # all is read
                pass
            self.assertIn("sudo apt-get install -y", said)
            self.assertIn("run it? [y/N]", said)
            self.assertEqual("apt-get install" in self.told(), runs, said)
            self.noted.unlink(missing_ok=True)
            os.close(terminal)

    def test_root_is_not_asked(self):
        self.pretend_sudo()
        self.pretend("id", "echo 0")
        done = self.setup()
        self.assertIn("a test may not install", done.stdout)  # what apt-get says
        self.assertEqual(self.told(), "")

    def test_the_tests_need_more(self):
        self.pretend("dpkg-query", "exit 0")
        [line] = self.setup("--tests").stderr.splitlines()
        for package in ("libgrpc++-dev", "openssh-server", "slurmd", "libgtest-dev"):
            self.assertIn(package, line)

    def test_a_downloaded_folder_is_all_that_it_needs_offline(self):
        self.pretend_installed()
        shutil.copytree(SOURCE / "third_party" / "xla", self.root / "third_party" / "xla")
        shutil.copytree(SOURCE / "third_party" / "data", self.root / "third_party" / "data")
        done = self.setup("--download", "parts", cwd=self.scratch.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(self.root / "third_party")
        done = self.setup("--offline", "parts", cwd=self.scratch.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("xla/include/xla/pjrt/c/pjrt_c_api.h", "data/digits.csv.gz", "data/devil.dict.dz"):
            self.assertEqual((self.root / "third_party" / name).read_bytes(),
                             (SOURCE / "third_party" / name).read_bytes())

        digits = Path(self.scratch.name) / "parts" / "data" / "digits.csv.gz"
        (self.root / "third_party" / "data" / "digits.csv.gz").unlink()
        digits.write_bytes(b"damaged")
        self.assertRegex(self.setup("--offline", str(digits.parent.parent)).stderr,
                         "the handwritten digits.*digits.csv.gz has SHA-256 .* is pinned")
        digits.unlink()
        self.assertRegex(self.setup("--offline", str(digits.parent.parent)).stderr,
                         "digits.csv.gz is missing; make the folder anew with scripts/setup --download")

    def test_offline_it_installs_nothing(self):
        self.pretend("dpkg-query", "exit 0")
        self.pretend("id", "echo 0")
        done = self.setup("--offline", self.scratch.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("these packages are missing; run: sudo apt-get install", done.stderr)

    def test_bad_folders(self):
        self.pretend_installed()
        self.assertIn("--offline needs a folder", self.setup("--offline").stderr)
        self.assertIn("/nowhere is not a folder", self.setup("--offline", "/nowhere").stderr)


if __name__ == "__main__":
    unittest.main()
