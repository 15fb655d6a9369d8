# SPDX-License-Identifier: Apache-2.0
"""Conan 2 recipe: Lockstep from this tree, with the libraries of Debian's packages.

    conan create deploy/conan

XLA's plugin is fetched while it builds; `-c user.lockstep:parts=DIR` takes it from a folder that
`scripts/setup --download DIR` made.
"""
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.env import VirtualBuildEnv
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

NOT_SOURCES = [".git/*", ".cache/*", "build/*", "third_party/*", "*/__pycache__/*", "deploy/conan/test_package/build/*"]


class Lockstep(ConanFile):
    name = "lockstep"
    license = "Apache-2.0"
    description = "Multi-process SPMD computations in C++, compiled by XLA"
    settings = "os", "arch", "compiler", "build_type"
    exports = "packages.txt"
    # Installed libraries name the folder of XLA's plugin, so that a binary package stays on its machine.
    upload_policy = "skip"

    @property
    def tree(self):
        return Path(self.recipe_folder).parent.parent

    def set_version(self):
        self.version = re.search(r"project\(lockstep VERSION ([\d.]+)", (self.tree / "CMakeLists.txt").read_text())[1]

    def export(self):
        copy(self, "packages.txt", self.tree / "scripts", self.export_folder)

    def export_sources(self):
        copy(self, "*", self.tree, self.export_sources_folder, excludes=NOT_SOURCES)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        lines = (Path(self.recipe_folder) / "packages.txt").read_text().splitlines()
        Apt(self).install([line.split()[0] for line in lines if line and not line.startswith("#")])

    def generate(self):
        VirtualBuildEnv(self).generate()
        CMakeToolchain(self, generator="Ninja").generate()

    def build(self):
        parts = self.conf.get("user.lockstep:parts")
        self.run(f"python3 scripts/fetch_parts.py {f'--offline {parts}' if parts else ''}", cwd=self.source_folder)
        cmake = CMake(self)
        cmake.configure({f"LOCKSTEP_BUILD_{part}": "OFF" for part in ("EXAMPLES", "TESTS", "BENCHMARKS")})
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # LockstepConfig.cmake, which is installed, finds the libraries.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/Lockstep"]
        self.cpp_info.bindirs = ["bin"]
        self.runenv_info.prepend_path("PATH", str(Path(self.package_folder) / "bin"))
