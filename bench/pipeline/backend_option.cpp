// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/backend_option.hpp"

#include <fmt/format.h>

#include "bench/cli/option_values.hpp"
#include "bench/pipeline/backends.hpp"

namespace dovetail::bench {

void add_backend_option(CLI::App& app, Options& options) {
  const std::string schedules = "Schedules";  // the heading that add_system_options() has too
  const std::string help = fmt::format("what computes the times: {} [{}]", describe_backends(), options.backend);
  add_text(app, {"--backend", "NAME", help, schedules}, options.backend);
  add_text(app,
           {"--platform", "FILE",
            "SimGrid platform whose hosts are the GPUs in order, in place of the cluster's network, for " +
                backends_of_links(),
            schedules},
           options.platform);
}

}  // namespace dovetail::bench
