# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A cold build takes less time where the sources of a folder are compiled together:
# their headers are read, and what these define is compiled, once.
# Who edits one source compiles those beside it, too, so presets leave it off;
# ./check and ./quickstart turn it on.
option(FSDP_UNITY "compile the sources of a folder together" OFF)
set(FSDP_UNITY_MOST 16 CACHE STRING "how many sources are compiled together at most")
mark_as_advanced(FSDP_UNITY_MOST)
if(FSDP_UNITY AND NOT FSDP_PRECOMPILE)
  # LibTorch's headers name a Device, as the project does, whose namespace is open
  # where a second source of a group includes them.
  message(FATAL_ERROR "FSDP_UNITY=ON needs FSDP_PRECOMPILE=ON, found OFF; leave one of both out")
endif()

# What of a target is compiled otherwise than the rest of it stays alone.
function(fsdp_may_unite out target source)
  set(${out} OFF PARENT_SCOPE)
  if(NOT source MATCHES "[.]cpp$" OR source MATCHES "[$]<")
    return()
  endif()
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES
      SKIP_PRECOMPILE_HEADERS SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(value ${source} TARGET_DIRECTORY ${target} ${property})
    if(value)
      return()
    endif()
  endforeach()
  set(${out} ON PARENT_SCOPE)
endfunction()

# The sources of each folder of a target in groups of one size, since a name that is
# a source's own is to be its folder's.
function(fsdp_unite target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(home ${target} SOURCE_DIR)
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${path}" ours)
    fsdp_may_unite(may ${target} "${path}")
    if(ours AND may)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
      cmake_path(GET folder PARENT_PATH folder)
      string(MAKE_C_IDENTIFIER "${folder}" key)
      list(APPEND folders ${key})
      list(APPEND ${key} ${path})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(key IN LISTS folders)
    list(LENGTH ${key} length)
    if(length EQUAL 1)
      continue()
    endif()
    math(EXPR groups "(${length} + ${FSDP_UNITY_MOST} - 1) / ${FSDP_UNITY_MOST}")
    set(index 0)
    foreach(source IN LISTS ${key})
      math(EXPR group "${index} * ${groups} / ${length}")
      math(EXPR index "${index} + 1")
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${key}_${group})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# fsdp_unite_all(FOLDER): the targets of a folder and those below it, but those with
# the property FSDP_ALONE. At the end, when each has its sources.
function(fsdp_unite_all folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(alone ${target} FSDP_ALONE)
    if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type STREQUAL "INTERFACE_LIBRARY" AND NOT alone)
      fsdp_unite(${target})
    endif()
  endforeach()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS below)
    fsdp_unite_all(${folder})
  endforeach()
endfunction()
