# SPDX-License-Identifier: Apache-2.0
# How this project makes libraries, programs and tests. Sources are listed in the folders' CMakeLists.txt.

# Most of a compile goes into the headers and templates of libraries. So the sources of a folder are compiled together, in
# equal batches of at most 8. Names in unnamed namespaces must therefore differ within a folder; a test checks this. A
# file must still include what it uses: CI compiles every header alone, and clang-tidy reads each source by itself.
function(dovetail_compile_together target)
  if(NOT DOVETAIL_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(folders "")
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "sources_${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND ${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    list(SORT ${folder})
    list(LENGTH ${folder} count)
    math(EXPR batches "(${count} + 7) / 8")
    set(index 0)
    foreach(source ${${folder}})
      math(EXPR batch "${index} * ${batches} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${batch}")
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
endfunction()

# dovetail_library(NAME SOURCES a.cpp... [LINKS public...] [PRIVATE_LINKS ...]) -> dovetail_NAME, dovetail::NAME
function(dovetail_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS;PRIVATE_LINKS")
  if(NOT arg_SOURCES)  # an option took all of them away: keep the target, so that nobody needs an `if`
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp" CONTENT "")
    set(arg_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp")
  endif()
  add_library(dovetail_${name} STATIC ${arg_SOURCES})
  add_library(dovetail::${name} ALIAS dovetail_${name})
  set_target_properties(dovetail_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY DOVETAIL_LIBRARIES dovetail_${name})
  target_compile_features(dovetail_${name} PUBLIC cxx_std_20)
  target_include_directories(dovetail_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/dovetail>)
  target_link_libraries(dovetail_${name} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS}
    $<BUILD_INTERFACE:dovetail_flags>)
  dovetail_compile_together(dovetail_${name})
  install(TARGETS dovetail_${name} EXPORT dovetail ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# dovetail_program(NAME SOURCES main.cpp... [LINKS ...]) -> build/<preset>/bin/NAME
function(dovetail_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(arg_SOURCES)
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LINKS} dovetail_flags)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

# dovetail_test(NAME SOURCES a_test.cpp... [LINKS ...] [ENVIRONMENT A=1...] [TIMEOUT s] [SERIAL] [GPU])
# -> test_NAME, each of its test cases a ctest of its own.
# SERIAL: measures time, so nothing else runs beside it. GPU: exits 77 where there is no GPU, shown as skipped.
function(dovetail_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;GPU" "TIMEOUT" "SOURCES;LINKS;ENVIRONMENT")
  if(NOT arg_SOURCES)
    return()
  endif()
  set(environment OPENBLAS_NUM_THREADS=1 "DOVETAIL_DATA=${PROJECT_SOURCE_DIR}/data" ${arg_ENVIRONMENT})
  set(properties LABELS ${name} TIMEOUT 300)  # the slowest takes 80 s on a slow machine
  if(DOVETAIL_SANITIZE)
    list(APPEND properties TIMEOUT 600)
  endif()
  set(arguments "")
  if(arg_TIMEOUT)
    list(APPEND properties TIMEOUT ${arg_TIMEOUT})
  endif()
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(arg_GPU)
    list(APPEND properties SKIP_RETURN_CODE 77)
    set(arguments --abort)  # Catch exits with the number of failures: 77 of them would look skipped
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_LINKS} Catch2::Catch2WithMain dovetail_flags)
  dovetail_compile_together(test_${name})
  if(COMMAND catch_discover_tests)
    # A name that does not come through ctest as it is, such as one with a semicolon, would pass without having run.
    catch_discover_tests(test_${name} TEST_PREFIX "${name}: " WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      EXTRA_ARGS --warn NoTests ${arguments} PROPERTIES ${properties})
    # Catch's script would take the list apart, so ctest sets it on what the script found.
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/test_${name}_environment.cmake" CONTENT
      "set_tests_properties(\${test_${name}_TESTS} PROPERTIES ENVIRONMENT \"${environment}\")\n" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES
      "${CMAKE_CURRENT_BINARY_DIR}/test_${name}_environment.cmake")
  else()  # only Catch's header is there
    add_test(NAME ${name} COMMAND test_${name} ${arguments} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES ${properties})
    set_property(TEST ${name} PROPERTY ENVIRONMENT ${environment})
  endif()
endfunction()

# dovetail_mpi_test(NAME RANKS n... SOURCES a_test.cpp... [LINKS ...]) -> test_NAME, for each number of ranks one ctest
# that runs all its cases under mpirun.
function(dovetail_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "RANKS;SOURCES;LINKS")
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_LINKS} dovetail_flags)
  # mpirun gives up before ctest would kill it: killed, it leaves its segments in /dev/shm.
  foreach(ranks ${arg_RANKS})
    add_test(NAME "${name}: ${ranks} ranks" COMMAND ${MPIEXEC_EXECUTABLE} --timeout 100 -n ${ranks} $<TARGET_FILE:test_${name}>
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties("${name}: ${ranks} ranks" PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2
      ENVIRONMENT "${DOVETAIL_MPI_ENVIRONMENT};DOVETAIL_DATA=${PROJECT_SOURCE_DIR}/data")
  endforeach()
endfunction()

# A ctest that is shown as skipped, with the reason.
function(dovetail_skipped_test name reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# Open MPI as root, in a container, with more ranks than cores; it leaks at exit by design.
set(DOVETAIL_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_btl=self,vader
  OMPI_MCA_pml=ob1
  OMPI_MCA_btl_vader_single_copy_mechanism=none
  OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none
  OPENBLAS_NUM_THREADS=1
  ASAN_OPTIONS=detect_leaks=0)
