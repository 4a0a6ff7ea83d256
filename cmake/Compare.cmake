# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A test: FILE, which is checked in, is what TOOL prints with ARGUMENTS. AGAIN says
# how it is written anew.
execute_process(COMMAND ${TOOL} ${ARGUMENTS} OUTPUT_VARIABLE generated
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${FILE} checked_in)
if(NOT generated STREQUAL checked_in)
  message(FATAL_ERROR "${FILE} is not what the code says; write it anew with: ${AGAIN}")
endif()
