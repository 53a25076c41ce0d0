# A toolchain that makes binaries for every x86-64 Linux of glibc 2.28 or newer (manylinux_2_28: Debian 10, RHEL 8, Ubuntu
# 20.04): clang and its C++ library, linked statically, as they come from PyPI with ziglang. `./dev package` uses it.
#   cmake -DCMAKE_TOOLCHAIN_FILE=bindings/packages/manylinux.cmake -DQUERN_ZIG_PYTHON=python-that-has-ziglang
# What libquern is linked with statically (SQLite, libsodium, Mbed TLS) and headers are the machine's own: its folder of
# headers is not given to the compiler, which has the older glibc's, but one with links to those that are needed.
# SPDX-License-Identifier: Apache-2.0
set(QUERN_GLIBC 2.28)
set(QUERN_ZIG_PYTHON python3 CACHE FILEPATH "A Python that has ziglang")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUERN_ZIG_PYTHON)

set(folder ${CMAKE_BINARY_DIR}/zig)
if(CMAKE_BINARY_DIR MATCHES "CMakeFiles/CMakeScratch|CMakeTmp")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/zig)
endif()
# CMake wants one program each, with no arguments.
foreach(tool cc c++)
  file(CONFIGURE OUTPUT ${folder}/${tool} @ONLY CONTENT
    "#!/bin/sh\nexec '@QUERN_ZIG_PYTHON@' -m ziglang @tool@ -target x86_64-linux-gnu.@QUERN_GLIBC@ \"$@\"\n")
endforeach()
foreach(tool ar ranlib)
  file(CONFIGURE OUTPUT ${folder}/${tool} @ONLY CONTENT "#!/bin/sh\nexec '@QUERN_ZIG_PYTHON@' -m ziglang @tool@ \"$@\"\n")
endforeach()
file(CHMOD ${folder}/cc ${folder}/c++ ${folder}/ar ${folder}/ranlib PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(CMAKE_C_COMPILER ${folder}/cc)
set(CMAKE_CXX_COMPILER ${folder}/c++)
set(CMAKE_AR ${folder}/ar CACHE FILEPATH "" FORCE)
set(CMAKE_RANLIB ${folder}/ranlib CACHE FILEPATH "" FORCE)

# Links to headers of libraries.
foreach(header sqlite3.h sodium.h sodium mbedtls psa xxhash.h xxh3.h nlohmann CLI)
  foreach(place /usr/include /usr/include/x86_64-linux-gnu)
    if(EXISTS ${place}/${header})
      file(MAKE_DIRECTORY ${folder}/include)
      file(CREATE_LINK ${place}/${header} ${folder}/include/${header} SYMBOLIC)
      break()
    endif()
  endforeach()
endforeach()
# Debian's Python.h includes its own part for this processor by a path from /usr/include.
file(GLOB pythons RELATIVE /usr/include /usr/include/x86_64-linux-gnu/python3*)
foreach(python ${pythons})
  file(MAKE_DIRECTORY ${folder}/include/x86_64-linux-gnu)
  file(CREATE_LINK /usr/include/${python} ${folder}/include/${python} SYMBOLIC)
endforeach()
# Without debugging information, which this compiler makes unasked, and without paths: equal files in every folder.
set(equal "-g0 -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build")
set(CMAKE_C_FLAGS_INIT "-isystem ${folder}/include ${equal}")
set(CMAKE_CXX_FLAGS_INIT "-isystem ${folder}/include ${equal}")
# Packages of CMake's bring /usr/include along, which would hide the older glibc's headers: taken for the compiler's own it
# is left out. What the compiler says of itself would undo this if it were set here.
file(WRITE ${folder}/after_project.cmake
  "list(APPEND CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)\nlist(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)\n")
set(CMAKE_PROJECT_quern_INCLUDE ${folder}/after_project.cmake)
set(CMAKE_INCLUDE_PATH ${folder}/include)
set(CMAKE_LIBRARY_PATH /usr/lib/x86_64-linux-gnu /usr/lib)
