# Writes down the ABI of a libquern with debugging information, a member or function a line, without a path of the machine.
#   cmake -D ABIDW=abidw -D LIBRARY=libquern.so -D SUPPRESSIONS=quern.suppr -D OUTPUT=quern.abi -P write_abi.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND ${ABIDW} --exported-interfaces-only --suppressions ${SUPPRESSIONS} --no-comp-dir-path --no-corpus-path
          --no-show-locs --no-elf-needed --type-id-style hash ${LIBRARY}
  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " path='[^']*/([^'/]*)'" " path='\\1'" text "${text}")
string(REGEX REPLACE "(<data-member [^>]*>)\n *(<[^>]*/>)\n *(</data-member>)" "\\1\\2\\3" text "${text}")
string(REGEX REPLACE "\n *(<(parameter|return|subrange) [^>]*/>)" "\\1" text "${text}")
string(REGEX REPLACE "\n *(</(function-decl|function-type|array-type-def)>)" "\\1" text "${text}")
file(WRITE ${OUTPUT} "${text}")
