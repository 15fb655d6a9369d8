#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes for Conan and Spack in deploy/ keep up with this tree.

    recipes_test.py SOURCE

With LOCKSTEP_TEST_CONAN=CONAN, the path of Conan 2's command, its package is made and tested, in a Conan home of its own.
LOCKSTEP_TEST_PARTS=DIR is what `scripts/setup --download DIR` made; else XLA's plugin is fetched.
"""
import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv[1])
CONAN = os.environ.get("LOCKSTEP_TEST_CONAN")
# Spack's names of Debian's packages; None where Spack needs none of its own.
SPACK_NAMES = {
    "build-essential": "cxx", "cmake": "cmake", "ninja-build": None, "pkg-config": "pkgconfig", "ccache": None, "file": None,
    "python3": "python", "python3-venv": "py-pip", "ca-certificates": None, "libfmt-dev": "fmt", "libspdlog-dev": "spdlog",
    "nlohmann-json3-dev": "nlohmann-json", "libcli11-dev": "cli11", "libboost-dev": "boost", "libgrpc++-dev": "grpc",
    "libprotobuf-dev": "protobuf", "protobuf-compiler": "protobuf", "protobuf-compiler-grpc": "grpc",
    "libssl-dev": "openssl", "libcurl4-openssl-dev": "curl", "libhwy-dev": "highway", "libhwloc-dev": "hwloc",
    "libdw-dev": "elfutils", "libiberty-dev": "libiberty", "libucx-dev": "ucx", "libopenblas0-pthread": "openblas",
    "libsleef3": "sleef", "libxxhash-dev": "xxhash", "libflatbuffers-dev": "flatbuffers", "flatbuffers-compiler": "flatbuffers",
    "libzip-dev": "libzip", "libpcre2-dev": "pcre2", "libutf8proc-dev": "utf8proc", "zlib1g-dev": "zlib-api", "libpng-dev": None, "openssh-client": "openssh",
}


def packages():
    lines = (SOURCE / "scripts" / "packages.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def calls(path, function):
    """The first arguments of the calls of this function."""
    tree = ast.parse(path.read_text())
    return [node.args[0].value for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function]


class Spack(unittest.TestCase):
    recipe = SOURCE / "deploy" / "spack" / "packages" / "lockstep" / "package.py"

    def test_the_version_is_that_of_the_tree(self):
        version = re.search(r"project\(lockstep VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual(calls(self.recipe, "version"), [version])

    def test_each_debian_package_has_its_dependency(self):
        self.assertEqual(packages(), set(SPACK_NAMES), "SPACK_NAMES and deploy/spack take the same packages")
        depends = {re.split(r"[@ +]", spec)[0] for spec in calls(self.recipe, "depends_on")}
        self.assertEqual(depends, {name for name in SPACK_NAMES.values() if name})


class Conan(unittest.TestCase):
    @unittest.skipUnless(CONAN, "LOCKSTEP_TEST_CONAN is not set")
    def test_its_package_is_made_and_a_project_uses_it(self):
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "CONAN_HOME": home}
            parts = os.environ.get("LOCKSTEP_TEST_PARTS")
            options = ["-c", f"user.lockstep:parts={parts}"] if parts else []
            subprocess.run([CONAN, "profile", "detect"], env=environment, check=True)
            done = subprocess.run([CONAN, "create", SOURCE / "deploy" / "conan", "-s", "compiler.cppstd=20",
                                   "-c", f"tools.cmake.cmake_layout:test_folder={home}/test", *options],
                                  env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.assertIn("[1] sum 2", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
