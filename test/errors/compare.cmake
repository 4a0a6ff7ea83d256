execute_process(COMMAND ${TOOL} OUTPUT_VARIABLE generated COMMAND_ERROR_IS_FATAL ANY)
file(READ ${DOCUMENT} checked_in)
if(NOT generated STREQUAL checked_in)
  message(FATAL_ERROR "docs/Errors.md is not what runtime/support/Errors.def "
                      "gives; write it anew with: ninja errors-doc")
endif()
