# How this project makes libraries, programs and tests. Sources are listed in the folders' CMakeLists.txt.

# dovetail_library(NAME SOURCES a.cpp... [LINKS public...] [PRIVATE_LINKS ...]) -> dovetail_NAME, dovetail::NAME
function(dovetail_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS;PRIVATE_LINKS")
  if(NOT arg_SOURCES)  # an option took all of them away: keep the target, so that nobody needs an `if`
    file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp" CONTENT "")
    set(arg_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp")
  endif()
  add_library(dovetail_${name} STATIC ${arg_SOURCES})
  add_library(dovetail::${name} ALIAS dovetail_${name})
  set_target_properties(dovetail_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(dovetail_${name} PUBLIC cxx_std_20)
  target_include_directories(dovetail_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include/dovetail>)
  target_link_libraries(dovetail_${name} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS}
    $<BUILD_INTERFACE:dovetail_flags>)
endfunction()

# dovetail_program(NAME SOURCES main.cpp... [LINKS ...]) -> build/<preset>/bin/NAME
function(dovetail_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(arg_SOURCES)
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LINKS} dovetail_flags)
  endif()
endfunction()

# dovetail_test(FOLDER SOURCES a_test.cpp... [LINKS ...] [LABELS ...] [ENVIRONMENT A=1...]) -> test_FOLDER,
# each of its test cases a ctest of its own.
function(dovetail_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS;LABELS;ENVIRONMENT")
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_LINKS} Catch2::Catch2WithMain dovetail_flags)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    PROPERTIES TIMEOUT 120 LABELS "${name};${arg_LABELS}"
    ENVIRONMENT "OPENBLAS_NUM_THREADS=1;DOVETAIL_DATA=${PROJECT_SOURCE_DIR}/data;${arg_ENVIRONMENT}")
endfunction()
