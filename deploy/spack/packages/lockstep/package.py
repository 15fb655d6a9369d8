# SPDX-License-Identifier: Apache-2.0
"""Spack recipe: Lockstep from the tree in the current folder.

    spack repo add deploy/spack
    spack dev-build lockstep@0.1.0

XLA's plugin and its headers are fetched with pip while it builds, unless they are in third_party/.
"""
from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Lockstep(CMakePackage):
    """Multi-process SPMD computations in C++, compiled by XLA."""

    license("Apache-2.0")
    version("0.1.0")

    generator("ninja")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("py-pip", type="build")

    # The versions of Debian 12, on which the tests run. Programs link the first group, too.
    depends_on("fmt@9:")
    depends_on("spdlog@1.10:")
    depends_on("nlohmann-json@3.11:")
    depends_on("grpc@1.50: +shared")
    depends_on("protobuf@3.21: +shared")
    depends_on("zlib-api")
    depends_on("openssl@3:")
    depends_on("curl@7.88:")
    depends_on("highway@1.0.3:")
    depends_on("xxhash@0.8:")
    depends_on("libzip@1.7:")
    depends_on("pcre2@10.40: +jit")
    depends_on("utf8proc@2.6:")
    depends_on("hwloc@2.9:")
    depends_on("elfutils@0.188:")
    depends_on("libiberty@2.40: +pic")
    depends_on("cli11@2.3:", type="build")
    depends_on("boost@1.74:", type="build")
    depends_on("flatbuffers@2:", type="build")
    depends_on("ucx@1.13:")
    depends_on("openblas threads=pthreads", type=("build", "run"))
    depends_on("sleef@3.5:", type=("build", "run"))
    depends_on("openssh", type="run")

    conflicts("%gcc@:11", msg="Lockstep needs g++ 12 or later")
    conflicts("%clang@:15", msg="Lockstep needs clang 16 or later")
    conflicts("platform=darwin", msg="Lockstep runs on Linux")

    def setup_run_environment(self, env):
        for loaded_when_needed in ("openblas", "sleef", "ucx", "curl"):
            env.prepend_path("LD_LIBRARY_PATH", self.spec[loaded_when_needed].prefix.lib)

    @run_before("cmake")
    def fetch_parts(self):
        if not (Path(self.stage.source_path) / "third_party" / "pjrt").is_dir():
            with working_dir(self.stage.source_path):
                python = which("python3", required=True)
                python("scripts/fetch_parts.py")

    def cmake_args(self):
        return [self.define(f"LOCKSTEP_BUILD_{part}", False) for part in ("EXAMPLES", "TESTS", "BENCHMARKS")]
