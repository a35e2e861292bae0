// The libraries that this program was built with.
#pragma once
#include <string>
#include <vector>

namespace dovetail::bench {

struct Library {
  std::string name;
  bool built_in = false;
  std::string version;  // or why it is not built in and how to get it
  std::string use;      // what it is for
};

// Only those that a build of this version can use; in a fixed order.
std::vector<Library> libraries();

}  // namespace dovetail::bench
