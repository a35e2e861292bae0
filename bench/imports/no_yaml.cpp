// SPDX-License-Identifier: Apache-2.0
// Stands for the reader of YAML in a build without yaml-cpp.
#include "bench/imports/given_run.hpp"

namespace dovetail::bench {

GivenRun read_yaml_arguments(const std::string& /*text*/, const std::string& name, const Variables& /*variables*/) {
  throw DeviceError("import of " + name, "this build has no yaml-cpp (apt-get install libyaml-cpp-dev)");
}

}  // namespace dovetail::bench
