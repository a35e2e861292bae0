// SPDX-License-Identifier: Apache-2.0
#include "models/base/files_apart.hpp"

#include <fmt/format.h>

#include <system_error>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

namespace fs = std::filesystem;

bool is_device(const fs::path& path) {
  std::error_code missing;
  return fs::is_character_file(path, missing);
}

}  // namespace

bool same_file(const fs::path& a, const fs::path& b) {
  if (a.empty() || b.empty() || is_device(a) || is_device(b)) return false;
  std::error_code missing;
  if (fs::equivalent(a, b, missing)) return true;
  std::error_code error;
  const fs::path place_a = fs::weakly_canonical(fs::absolute(a), error);
  if (error) return a == b;
  const fs::path place_b = fs::weakly_canonical(fs::absolute(b), error);
  return error ? a == b : place_a == place_b;
}

void require_apart(const std::vector<NamedFile>& written, const std::vector<std::string>& read) {
  for (auto file = written.begin(); file != written.end(); ++file) {
    for (auto other = written.begin(); other != file; ++other)
      if (same_file(other->path, file->path))
        throw InputError(fmt::format("{} and {} both write to {}", other->option, file->option, file->path));
    for (const std::string& input : read)
      if (file->path != "-" && same_file(input, file->path))
        throw InputError(fmt::format("{} {}: this command reads that file{}; expected another one to write",
                                     file->option, file->path, input == file->path ? "" : " as " + input));
  }
}

}  // namespace dovetail
