// SPDX-License-Identifier: Apache-2.0
// The shipped data with one file of its own instead of a shipped one, for one scope: in the folder "data" of the
// working folder, which DOVETAIL_DATA then names. All other files are links to the shipped ones.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "models/files/data_path.hpp"

namespace dovetail::test {

class LentData {
 public:
  // `changed`: such as published/ampipe-table2.json, to be written by the caller.
  explicit LentData(const std::filesystem::path& changed) : shipped_(data_directory().string()) {
    const std::filesystem::path folder = changed.parent_path();
    const std::filesystem::path shipped_file = "data/README.md";
    if (std::filesystem::exists(shipped_file) && !std::filesystem::is_symlink(shipped_file))
      throw std::runtime_error("data/ of the working folder is the shipped data: run tests in another folder");
    std::filesystem::remove_all("data");
    std::filesystem::create_directories("data" / folder);
    link_all(shipped_, "data", folder);
    link_all(shipped_ / folder, "data" / folder, changed.filename());
    ::setenv("DOVETAIL_DATA", std::filesystem::absolute("data").c_str(), 1);
  }
  ~LentData() { ::setenv("DOVETAIL_DATA", shipped_.c_str(), 1); }
  LentData(const LentData&) = delete;
  LentData& operator=(const LentData&) = delete;

 private:
  static void link_all(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::filesystem::path& but) {
    for (const auto& entry : std::filesystem::directory_iterator(from))
      if (entry.path().filename() != but) std::filesystem::create_symlink(entry.path(), to / entry.path().filename());
  }

  std::filesystem::path shipped_;
};

}  // namespace dovetail::test
