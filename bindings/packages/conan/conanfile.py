# Conan 2: libquern with its compile helper, of the checkout that the recipe lies in.
# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Quern(ConanFile):
    name = "quern"
    description = "GPU kernels ground to order: specialised, compiled and cached at run time, behind one C header"
    license = "Apache-2.0"
    topics = ("gpu", "cuda", "kernels", "inference")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        header = Path(self.recipe_folder).parents[2] / "capi" / "quern.h"
        text = header.read_text(encoding="utf-8")
        parts = (re.search(rf"#define QUERN_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(parts)

    def export_sources(self):
        root = str(Path(self.recipe_folder).parents[2])
        for folder in ("bindings", "cache", "capi", "jit", "sources"):
            copy(self, f"{folder}/*", root, self.export_sources_folder)
        for file in ("CMakeLists.txt", "LICENSE"):
            copy(self, file, root, self.export_sources_folder)

    def requirements(self):
        # All of it ends up inside libquern, hidden.
        self.requires("libsodium/[>=1.0.18 <2]")
        self.requires("mbedtls/[>=2.28 <4]")
        self.requires("sqlite3/[>=3.40 <4]")
        self.requires("xxhash/[>=0.8.1 <1]")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("quern runs on Linux")
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["QUERN_TESTS"] = False
        toolchain.cache_variables["QUERN_TOOLS"] = False
        # The build looks for headers and static libraries, not for packages.
        # What a profile's [platform_requires] has is the system's, and no package.
        folders = [one.package_folder for one in self.dependencies.values() if one.package_folder is not None]
        toolchain.cache_variables["CMAKE_PREFIX_PATH"] = ";".join(folders)
        # By Conan's own folders the compile helper would go to "bin", where libquern does not look for it.
        toolchain.blocks.remove("output_dirs")
        toolchain.cache_variables["CMAKE_INSTALL_LIBDIR"] = "lib"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for file in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
            copy(self, file, self.source_folder, str(Path(self.package_folder) / "licenses"))
            copy(self, file, str(Path(self.source_folder) / "capi"), str(Path(self.package_folder) / "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["quern"]
        self.cpp_info.set_property("cmake_file_name", "quern")
        self.cpp_info.set_property("cmake_target_name", "quern::quern")
        self.cpp_info.set_property("pkg_config_name", "quern")
