# A program that links to the package, and runs.
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestQuern(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        # The consumer that the tests of the installed tree build, too.
        cmake.configure(build_script_folder=str(Path(self.recipe_folder).parents[3] / "tests" / "install" / "consumer"))
        cmake.build()

    def test(self):
        if can_run(self):
            # Path would take the "./" away that a shell needs.
            self.run(f"{self.cpp.build.bindir}/consumer", env="conanrun")
