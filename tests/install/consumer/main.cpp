// SPDX-License-Identifier: Apache-2.0
// Prints where the installed library finds its data.
#include <cstdio>

#include "models/base/build_info.hpp"
#include "models/base/units.hpp"
#include "models/files/data_path.hpp"

int main() {
  static_assert(dovetail::Seconds(1) < dovetail::Seconds(2));
  std::puts(dovetail::data_directory().c_str());
  return dovetail::build_info().version.empty() ? 1 : 0;
}
