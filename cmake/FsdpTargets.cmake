# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# How every library and executable of the project is made.

# Linker and compiler launcher: used when there, never required.
find_program(FSDP_CCACHE ccache)
if(FSDP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What it asks for before it keeps sources with precompiled headers, in which
  # macros of the command line and times of files could hide.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros ${FSDP_CCACHE})
endif()
find_program(FSDP_MOLD mold)
if(FSDP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Members that an initializer leaves out are zero or empty, as is meant.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -fvisibility-inlines-hidden)
# For those who change the project; another compiler may warn of what this one does not.
option(FSDP_WERROR "warnings are errors" OFF)
if(FSDP_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
# g++ 12 sees overlaps in `"a" + std::string` (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)
endif()
# libstdc++ 12 sorts with what it calls deprecated itself.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

# fsdp_compile_soon(TARGET…): what is done once, or for a moment, is compiled in less
# time rather than for it.
function(fsdp_compile_soon)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# Installed executables find the project's libraries beside them.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
