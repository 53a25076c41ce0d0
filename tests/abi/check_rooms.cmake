# Calls run one way: no room below capi calls the C ABI.
#   cmake -D NM=nm "-D LIBRARIES=a.a;b.a" -P check_rooms.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${NM} ${library} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
  if(NOT table MATCHES " T ")
    message(SEND_ERROR "${library} defines nothing: the check would prove nothing")
  endif()
  string(REGEX MATCHALL "[UTtWw] quern_[a-z_]*" calls "${table}")
  if(calls)
    message(SEND_ERROR "${library} refers to ${calls}")
  endif()
endforeach()
