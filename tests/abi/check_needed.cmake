# libquern needs libc's own libraries only, binds at load, and stays loaded.
#   cmake -D READELF=readelf -D LIBRARY=libquern.so -P check_needed.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${READELF} --wide --dynamic --program-headers ${LIBRARY} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*" needed "${dynamic}")
if(NOT needed)
  message(FATAL_ERROR "${READELF} lists no needed library at all:\n${dynamic}")
endif()
foreach(line IN LISTS needed)
  if(NOT line MATCHES "\\[(lib(c|m|dl|pthread|rt)\\.so\\.[0-9]+|ld-linux.*)\\]")
    message(SEND_ERROR "libquern needs ${line}")
  endif()
endforeach()
foreach(wanted "Library soname: \\[libquern\\.so\\.1\\]" "FLAGS_1\\)[^\n]*NOW" "FLAGS_1\\)[^\n]*NODELETE" "GNU_RELRO")
  if(NOT dynamic MATCHES "${wanted}")
    message(SEND_ERROR "the dynamic section has no ${wanted}")
  endif()
endforeach()
if(dynamic MATCHES "\\((RPATH|RUNPATH)\\)")
  message(SEND_ERROR "libquern carries a run path")
endif()
