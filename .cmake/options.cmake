# SPDX-License-Identifier: Apache-2.0
# The user's choices and the compiler settings that follow from them.

foreach(library SIMGRID MPI CUDA NCCL OPENBLAS NLOPT OPENSSL JEMALLOC YAMLCPP)
  set(DOVETAIL_WITH_${library} AUTO CACHE STRING "AUTO (use it where found), ON (required) or OFF")
  set_property(CACHE DOVETAIL_WITH_${library} PROPERTY STRINGS AUTO ON OFF)
endforeach()
set(DOVETAIL_HEADERS_PATH "" CACHE PATH "Folders with header-only dependencies, for machines without packages")
set(DOVETAIL_NCCL_ROOT "" CACHE PATH "Folder with include/nccl.h and lib/libnccl.so*; looked at alone when given")
set(DOVETAIL_CUBLAS_ROOT "" CACHE PATH "Folder with include/cublas_v2.h and lib/libcublas.so*, where the toolkit has none")
set(DOVETAIL_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
option(DOVETAIL_WARNINGS "Compile with the project's warning flags" ON)
option(DOVETAIL_BENCHMARKS "Build the micro-benchmarks" OFF)
option(DOVETAIL_UNITY "Compile the sources of a folder together, which takes about half as long" ON)
option(BUILD_TESTING "Build the tests" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(DOVETAIL_CCACHE ccache)
mark_as_advanced(DOVETAIL_CCACHE)
if(DOVETAIL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DOVETAIL_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${DOVETAIL_CCACHE}")
endif()

# Flags for C++ only: nvcc takes them in another form and its output is not ours to warn about.
add_library(dovetail_flags INTERFACE)
# __FILE__ in messages is "models/base/errors.cpp", wherever the source lies.
target_compile_options(dovetail_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(DOVETAIL_WARNINGS)
  # -Wundef: a file that tests DOVETAIL_HAS_X without including build_info.hpp would read it as 0.
  # -Wfloat-conversion: a double silently cut to an integer. -Wconversion itself flags every int64 -> double.
  # -Wno-restrict: GCC 12 invents overlaps in "a" + std::string (GCC bug 105651). -Wno-stringop-overflow: it also invents
  # overflows in vector::insert at -O3; address sanitizer finds the real ones.
  # -Wshadow=local: sources that are compiled together see each other's names, which is no shadowing.
  target_compile_options(dovetail_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
    -Wall -Wextra -Wpedantic -Wundef -Wfloat-conversion -Wnon-virtual-dtor -Woverloaded-virtual
    $<IF:$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${DOVETAIL_UNITY}>>,-Wshadow=local,-Wshadow>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow>>)
endif()
if(DOVETAIL_SANITIZE)
  target_compile_options(dovetail_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DOVETAIL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>
    # std::regex of libstdc++ 12 looks uninitialized to GCC under sanitizers; it is not.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  # A position-independent program applies 57 MB of relocations at each start, which doubles the time of a short test.
  target_link_options(dovetail_flags INTERFACE -fsanitize=${DOVETAIL_SANITIZE}
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()
