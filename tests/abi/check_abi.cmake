# Holds libquern against the ABI that quern.abi describes. Additions are fine; whatever a compiled caller could trip over is not.
#   cmake -D ABIDIFF=abidiff -D BASELINE=quern.abi -D LIBRARY=libquern.so -D HEADERS=capi -P check_abi.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND ${ABIDIFF} --no-added-syms --headers-dir2 ${HEADERS} --drop-private-types ${BASELINE} ${LIBRARY}
  OUTPUT_VARIABLE report RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "abidiff says ${code}:\n${report}")
endif()
