# SPDX-License-Identifier: Apache-2.0
"""The package builds the project of tests/consumer, whose program runs in two processes."""
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class LockstepTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self, src_folder="../../../tests/consumer")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # which would be written beside the project's sources
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(f"lockstep run -n 2 -- {Path(self.build_folder, self.cpp.build.bindir, 'consumer')}", env="conanrun")
