# Holds libquern against the ABI that quern.abi describes. Additions are fine; whatever a compiled caller could trip over is
# not. After an intended change: cmake --build build --target write-abi
#   cmake -D ABIDIFF=abidiff -D BASELINE=quern.abi -D LIBRARY=libquern.so -D SUPPRESSIONS=quern.suppr -P check_abi.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND ${ABIDIFF} --no-added-syms --exported-interfaces-only --suppressions ${SUPPRESSIONS} ${BASELINE} ${LIBRARY}
  OUTPUT_VARIABLE report ERROR_VARIABLE report RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "abidiff says ${code}:\n${report}")
endif()
