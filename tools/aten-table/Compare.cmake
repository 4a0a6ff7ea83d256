# A checked-in table of operators is what LibTorch's dispatcher says.
execute_process(COMMAND ${TOOL} ${ARGUMENT} OUTPUT_VARIABLE generated
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${TABLE} table)
if(NOT generated STREQUAL table)
  message(FATAL_ERROR "${TABLE} differs from LibTorch's operators; "
    "regenerate it: aten-table ${ARGUMENT} > ${TABLE}")
endif()
