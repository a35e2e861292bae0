# SPDX-License-Identifier: Apache-2.0
# Run by ctest with -P; any failing step ends it.
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix} -DDOVETAIL_HEADERS_PATH=${HEADERS_PATH}
  -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${prefix}/bin
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)

# Beside the installed program lies the installed data.
unset(ENV{DOVETAIL_DATA})
execute_process(COMMAND ${prefix}/bin/consumer OUTPUT_VARIABLE data OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT data STREQUAL "${prefix}/share/dovetail/data")
  message(FATAL_ERROR "the installed program reads its data from ${data}")
endif()

execute_process(COMMAND ${prefix}/bin/custom_moe COMMAND_ERROR_IS_FATAL ANY)

# So does the Python module, whose program is the one beside it.
find_program(python python3)
if(python)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=DOVETAIL "PYTHONPATH=${prefix}/bin" ${python} -B -c
    "import dovetail; print(dovetail.find_program(), dovetail.doctor().text)"
    OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${found}" "${prefix}/bin/dovetail " program)
  string(FIND "${found}" "${prefix}/share/dovetail/data\n" data)
  if(NOT program EQUAL 0 OR data EQUAL -1)
    message(FATAL_ERROR "the installed Python module finds ${found}")
  endif()
endif()

# Its state is kept between runs.
foreach(run 1 2)
  execute_process(COMMAND ${prefix}/bin/online_planner ${WORK}/state.json COMMAND_ERROR_IS_FATAL ANY)
endforeach()
