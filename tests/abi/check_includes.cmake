# Calls run one way, and so do includes: a room includes its own headers and those of the next room below it.
#   bindings -> capi -> sources -> jit -> cache
# quern.h's plain types are for all rooms. What else crosses is in includes.txt, each with its reason; what is listed there
# and crosses no longer is an error too.
#   cmake -D ROOT=. -D LIST=includes.txt -P check_includes.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

set(rooms bindings capi sources jit cache)
set(may_bindings bindings capi)
set(may_capi capi sources)
set(may_sources sources jit)
set(may_jit jit cache)
set(may_cache cache)

# "FILE includes FILE: reason", one a line.
file(STRINGS ${LIST} lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([^ ]+) includes ([^ ]+): .+")
    message(FATAL_ERROR "${LIST}: not 'FILE includes FILE: reason': ${line}")
  endif()
  list(APPEND listed "${CMAKE_MATCH_1} includes ${CMAKE_MATCH_2}")
endforeach()

set(seen)
set(count 0)
foreach(room IN LISTS rooms)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${room}/*.h ${ROOT}/${room}/*.c ${ROOT}/${room}/*.cpp ${ROOT}/${room}/*.cuh)
  foreach(file IN LISTS files)
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]+\"")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE ".*#[ \t]*include[ \t]+\"([^\"]+)\".*" "\\1" header "${include}")
      math(EXPR count "${count} + 1")
      string(REGEX MATCH "^[^/]+" into ${header})
      # Device sources name each other from their own folders.
      if(header STREQUAL "capi/quern.h" OR into IN_LIST may_${room} OR NOT into IN_LIST rooms)
        continue()
      endif()
      if("${file} includes ${header}" IN_LIST listed)
        list(APPEND seen "${file} includes ${header}")
      else()
        list(JOIN may_${room} " and " may)
        message(SEND_ERROR "${file} includes ${header}: ${room} may include what is in ${may}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(count LESS 500)
  message(SEND_ERROR "${count} includes were found under ${ROOT}: the check would prove nothing")
endif()
foreach(one IN LISTS listed)
  if(NOT one IN_LIST seen)
    message(SEND_ERROR "includes.txt lists what is so no longer: ${one}")
  endif()
endforeach()
