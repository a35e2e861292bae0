# SPDX-License-Identifier: Apache-2.0
# Run at build time: writes SOURCE's git revision to OUTPUT, and only when it changed. Sources that were carried without
# their history have it in the file REVISION (see bench/gpu_suite.sh --prepare).
set(described unknown)
find_program(git git)
if(git AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --abbrev=12 --dirty --exclude=*
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(described "${answer}")
  endif()
elseif(EXISTS "${SOURCE}/REVISION")
  file(STRINGS "${SOURCE}/REVISION" described LIMIT_COUNT 1 REGEX "^[0-9a-f]+(-dirty)?$")
endif()
set(dirty false)
if(described MATCHES "-dirty$")
  set(dirty true)
endif()
string(REGEX REPLACE "-dirty$" "" revision "${described}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
#define DOVETAIL_GIT_REVISION \"${revision}\"
#define DOVETAIL_GIT_DIRTY ${dirty}
")
