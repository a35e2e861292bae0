// SPDX-License-Identifier: Apache-2.0
#include "reports/data/json_values.hpp"

namespace dovetail::reports {

nlohmann::ordered_json provenance_json(const RunProvenance& provenance) {
  return {{"version", provenance.version},     {"git_revision", provenance.git_revision},
          {"host", provenance.host},           {"compiler", provenance.compiler},
          {"created", provenance.created},     {"command_line", provenance.command_line},
          {"libraries", provenance.libraries}, {"seed", provenance.seed}};
}

}  // namespace dovetail::reports
