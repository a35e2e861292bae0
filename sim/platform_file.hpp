// SPDX-License-Identifier: Apache-2.0
// SimGrid platform files, checked before SimGrid sees them: it runs shared objects, obeys settings in a platform and
// dies of many mistakes.
#pragma once
#include <string>
#include <vector>

namespace dovetail::sim {

struct Platform {
  std::string file;                // its name, for messages
  std::string text;                // the checked elements alone, each on its own line of the file
  std::vector<std::string> hosts;  // in the order of the file
};

// Throws InputError at the place of what is wrong, or of what is not about hosts, links and routes. SimGrid is then
// given the text in place of the file.
Platform read_platform(const std::string& path);

}  // namespace dovetail::sim
