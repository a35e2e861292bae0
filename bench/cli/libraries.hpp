// SPDX-License-Identifier: Apache-2.0
// The libraries that this program was built with.
#pragma once
#include <string>
#include <vector>

namespace dovetail::bench {

enum class Presence { BuiltIn, Missing, Later };  // Later: of no use to this version, whether found or not

struct Library {
  std::string name;
  Presence presence = Presence::Missing;
  std::string version;  // or why it is not there and how to get it
  std::string use;      // what it is for
};

// In a fixed order.
std::vector<Library> libraries();

}  // namespace dovetail::bench
