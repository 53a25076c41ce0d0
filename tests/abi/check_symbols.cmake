# Holds three lists against each other: what libquern exports, what quern.h declares, and symbols.txt; and the structs that
# quern.h defines against layout.def.
#   cmake -D NM=nm -D LIBRARY=libquern.so -D HEADER=quern.h -D LIST=symbols.txt -D LAYOUT=layout.def -P check_symbols.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

function(hold what actual expected)
  set(extra ${${actual}})
  list(REMOVE_ITEM extra ${${expected}})
  set(missing ${${expected}})
  list(REMOVE_ITEM missing ${${actual}})
  if(extra OR missing)
    message(SEND_ERROR "${what}: not expected: [${extra}]; missing: [${missing}]")
  endif()
endfunction()

execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${table}")
set(exported "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^.* ([^ ]+)$" "\\1" symbol "${line}")
  string(REGEX REPLACE "@.*$" "" symbol "${symbol}")
  # The name of the version itself.
  if(NOT symbol STREQUAL "QUERN_1")
    list(APPEND exported ${symbol})
  endif()
endforeach()

file(STRINGS ${LIST} listed)
file(READ ${HEADER} header)
string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" header "${header}") # comments
string(REGEX MATCHALL "quern_[a-z0-9_]+\\(" declared "${header}")
list(TRANSFORM declared REPLACE "\\($" "")
list(REMOVE_DUPLICATES declared)

hold("libquern exports" exported listed)
hold("quern.h declares" declared listed)

string(REGEX MATCHALL "} quern_[a-z0-9_]+" defined "${header}")
list(TRANSFORM defined REPLACE "^} " "")
file(STRINGS ${LAYOUT} structs REGEX "^QUERN_STRUCT\\(quern_")
list(TRANSFORM structs REPLACE "^QUERN_STRUCT\\((.*)\\)$" "\\1")
hold("quern.h defines" defined structs)
