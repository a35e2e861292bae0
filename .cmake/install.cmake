# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. Targets are listed for export where they are made (targets.cmake).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dovetail)

foreach(folder models planners sim exec reports)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dovetail/${folder}
    FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/generated/models/base/build_info.hpp"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dovetail/models/base)
install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/dovetail/data PATTERN CMakeLists.txt EXCLUDE)
install(FILES bench/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dovetail)
install(FILES bench/python/dovetail.py DESTINATION ${CMAKE_INSTALL_BINDIR})  # it finds the program beside itself

install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/dovetail)

set(dovetail_with "")
set(dovetail_without "")
foreach(library SIMGRID MPI CUDA NCCL OPENBLAS NLOPT OPENSSL)
  if(DOVETAIL_HAS_${library})
    list(APPEND dovetail_with ${library})
  else()
    list(APPEND dovetail_without ${library})
  endif()
endforeach()
list(JOIN dovetail_with " " dovetail_with)
list(JOIN dovetail_without " " dovetail_without)
configure_package_config_file(.cmake/dovetailConfig.cmake.in "${PROJECT_BINARY_DIR}/dovetailConfig.cmake"
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dovetailConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dovetailConfig.cmake" "${PROJECT_BINARY_DIR}/dovetailConfigVersion.cmake"
  .cmake/dependencies.cmake DESTINATION ${package_folder})
install(EXPORT dovetail NAMESPACE dovetail:: FILE dovetailTargets.cmake DESTINATION ${package_folder})
