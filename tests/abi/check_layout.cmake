# Runs the layout program and holds what it prints against layout.txt.
#   cmake -D PROGRAM=layout -D GOLDEN=layout.txt -P check_layout.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE actual COMMAND_ERROR_IS_FATAL ANY)
file(READ ${GOLDEN} golden)
if(NOT actual STREQUAL golden)
  string(REGEX MATCHALL "[^\n]+" actual_lines "${actual}")
  string(REGEX MATCHALL "[^\n]+" golden_lines "${golden}")
  foreach(was is IN ZIP_LISTS golden_lines actual_lines)
    if(NOT was STREQUAL is)
      message(FATAL_ERROR "first difference: pinned \"${was}\", now \"${is}\"")
    endif()
  endforeach()
  message(FATAL_ERROR "the layout is not the pinned one")
endif()
