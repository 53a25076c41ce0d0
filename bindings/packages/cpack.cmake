# Debian packages by CPack: libquern1 (the library and its compile helper), libquern-dev (headers, CMake and pkg-config
# files), quern (the command). `./dev package` makes them of a build for older C libraries; `cpack -G TGZ` makes archives.
# SPDX-License-Identifier: Apache-2.0
set(CPACK_PACKAGE_NAME quern)
set(CPACK_PACKAGE_VENDOR "the quern project")
set(CPACK_PACKAGE_CONTACT "the quern project <quern@localhost>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU kernels ground to order")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ${QUERN_STRIP})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL library development tools)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# The others need the library's package, of which dpkg-shlibdeps knows nothing yet, and with it the C library.
if(QUERN_GLIBC) # manylinux.cmake's: this machine's C library knows of symbols that have moved since
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libc6 (>= ${QUERN_GLIBC})")
else()
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What belongs to the version of the ABI, so that two of them can be installed side by side.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libquern${QUERN_ABI_VERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libnvidia-nvrtc | libnvrtc13 | nvidia-cuda-toolkit")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "g++")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
  "GPU kernels, specialised, compiled and cached at run time: the library
 libquern specialises kernel sources for the tensors and the GPU at hand,
 compiles them in process, keeps the binaries in a cache and launches them.
 It opens drivers and compilers when it needs them, and links to none.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libquern-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libquern${QUERN_ABI_VERSION} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "GPU kernels, specialised, compiled and cached at run time: to build with
 The headers quern.h (C99), quern.hpp (C++20) and quern.ffi.h, and what CMake
 and pkg-config read.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME quern)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "libquern${QUERN_ABI_VERSION} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
  "GPU kernels, specialised, compiled and cached at run time: the command
 Warms caches for models without a GPU, ships them as bundles, tunes, measures,
 and looks after them; with its manual page and completions.")
include(CPack)
