# Run at build time: writes SOURCE's git revision to OUTPUT, and only when it changed.
set(revision unknown)
set(dirty false)
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --abbrev=12 --dirty --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    if(described MATCHES "-dirty$")
      set(dirty true)
    endif()
    string(REGEX REPLACE "-dirty$" "" revision "${described}")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
#define DOVETAIL_GIT_REVISION \"${revision}\"
#define DOVETAIL_GIT_DIRTY ${dirty}
")
