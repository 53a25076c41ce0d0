# Installs quern into a temporary folder, moves the tree, and builds and runs one consumer by CMake and one by pkg-config.
#   cmake -D BUILD=build -D WORK=folder -D CONSUMER=consumer -D CC=cc -D PKG_CONFIG=pkg-config -D LIBDIR=lib
#         -D WANTED=include/quern.h;... -P check_install.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    string(JOIN " " line ${ARGN})
    message(FATAL_ERROR "${line}: ${code}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
# Nothing in the tree may know where it was put.
file(RENAME ${WORK}/first ${WORK}/moved)
set(prefix ${WORK}/moved)
foreach(file IN LISTS WANTED)
  if(NOT EXISTS ${prefix}/${file})
    message(SEND_ERROR "${file} was not installed")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/by-cmake -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${WORK}/by-cmake)
run(${WORK}/by-cmake/consumer)

set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --cflags --libs quern)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CC} -std=c99 -o ${WORK}/by-pkg-config ${CONSUMER}/main.c ${flags})
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
run(${WORK}/by-pkg-config)
unset(ENV{LD_LIBRARY_PATH})

if(EXISTS ${prefix}/bin/quern)
  run(${prefix}/bin/quern --version)
endif()
file(REMOVE_RECURSE ${WORK})
