// SPDX-License-Identifier: Apache-2.0
#include "tests/support/golden.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace dovetail::test {

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(DOVETAIL_GOLDEN) / name;
}

bool approves_now() {
  return std::getenv("DOVETAIL_UPDATE_GOLDEN") != nullptr;
}

std::string golden_difference(const std::string& name, const std::string& text) {
  const std::filesystem::path path = golden_file(name);
  if (approves_now()) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return "no approved output " + path.string();
  const std::string approved{std::istreambuf_iterator<char>(file), {}};
  if (approved == text) return "";
  std::istringstream expected_lines(approved), actual_lines(text);
  std::string expected, actual;
  for (int line = 1;; ++line) {
    const bool more_expected = static_cast<bool>(std::getline(expected_lines, expected));
    const bool more_actual = static_cast<bool>(std::getline(actual_lines, actual));
    if (!more_expected && !more_actual) return name + ": differs in its line ends";
    if (!more_expected || !more_actual || expected != actual)
      return fmt::format("{}:{}\n  approved: {}\n  now:      {}", name, line, more_expected ? expected : "(end)",
                         more_actual ? actual : "(end)");
  }
}

}  // namespace dovetail::test
