# Calls run one way: no room below capi refers to a function of the C ABI.
#   cmake -D NM=nm -D LIST=symbols.txt "-D LIBRARIES=a.a;b.a" -P check_rooms.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${LIST} listed)
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${NM} ${library} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
  if(NOT table MATCHES " T ")
    message(SEND_ERROR "${library} defines nothing: the check would prove nothing")
  endif()
  string(REGEX MATCHALL " U quern_[a-z_]+" calls "${table}")
  list(TRANSFORM calls REPLACE "^ U " "")
  foreach(call IN LISTS calls)
    if(call IN_LIST listed)
      message(SEND_ERROR "${library} calls ${call}")
    endif()
  endforeach()
endforeach()
