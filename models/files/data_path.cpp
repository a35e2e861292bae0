// SPDX-License-Identifier: Apache-2.0
#include "models/files/data_path.hpp"

#include <cstdlib>

#include "models/base/errors.hpp"

namespace dovetail {
namespace fs = std::filesystem;

fs::path data_directory() {
  if (const char* given = std::getenv("DOVETAIL_DATA"); given != nullptr && *given != '\0') {
    if (fs::is_directory(given)) return given;
    throw InputError("DOVETAIL_DATA=" + std::string(given) + " is not a directory");
  }
  std::error_code unreadable;  // no /proc: go on with the fixed places
  const fs::path program = fs::read_symlink("/proc/self/exe", unreadable);
  // The source tree comes before the fixed installation, so that a developer never reads an older installed copy.
  for (const fs::path& candidate : {program.parent_path().parent_path() / DOVETAIL_INSTALL_DATA,
                                    fs::path(DOVETAIL_SOURCE_DATA), fs::path(DOVETAIL_INSTALL_FULL_DATA)}) {
    if (fs::is_directory(candidate)) return candidate;
  }
  throw InputError("Dovetail's data directory was not found; set DOVETAIL_DATA to it");
}

}  // namespace dovetail
