// SPDX-License-Identifier: Apache-2.0
// Refuses to write over what a program reads, or to write two things to one place.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace dovetail {

// Whether two names mean one file, also by "./", symbolic and hard links. The files need not exist. Devices are no
// files here.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// `option` is how the user asked for it, as in "--output". An empty path is no file.
struct NamedFile {
  std::string option, path;
};

// Throws InputError where two of `written` are one file, or one of them is in `read`.
void require_apart(const std::vector<NamedFile>& written, const std::vector<std::string>& read);

}  // namespace dovetail
