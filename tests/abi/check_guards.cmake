# No static variable of a function in libquern is made at its first use: a child of fork() would wait for ever for the
# guard that another thread of its parent held. jit/lazy.h has what to use instead.
#   cmake -D NM=nm -D LIBRARY=libquern.so -P check_guards.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${NM} -C ${LIBRARY} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
if(NOT table MATCHES "quern::jit::")
  message(FATAL_ERROR "${LIBRARY} has no symbols of its own: is it stripped?")
endif()
string(REGEX MATCHALL "guard variable for quern::[^\n]*" guards "${table}")
foreach(guard IN LISTS guards)
  message(SEND_ERROR "libquern has a ${guard}")
endforeach()
