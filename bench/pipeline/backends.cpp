#include "bench/pipeline/backends.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "bench/cli/option_values.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/time/analytic_backend.hpp"
#if DOVETAIL_HAS_SIMGRID
#include "sim/flow_backend.hpp"
#include "sim/simgrid_backend.hpp"
#endif

namespace dovetail::bench {
namespace {

template <class Type>
std::unique_ptr<Backend> make(const std::string& /*platform*/) {
  return std::make_unique<Type>();
}

constexpr std::string_view flow = "simgrid-flow", flow_use = "every message of up to 128 GPUs by SimGrid";
[[maybe_unused]] constexpr std::string_view get_simgrid =
    "apt-get install libsimgrid-dev libexpat1-dev and build again";

constexpr std::array table {
  BackendEntry{"analytic", "fair sharing, computed here", make<AnalyticBackend>, ""},
#if DOVETAIL_HAS_SIMGRID
      BackendEntry{"simgrid", "fair sharing by SimGrid", make<sim::SimGridBackend>, ""},
      BackendEntry{flow, flow_use,
                   [](const std::string& platform) -> std::unique_ptr<Backend> {
                     return std::make_unique<sim::FlowBackend>(platform);
                   },
                   ""},
#else
      BackendEntry{"simgrid", "fair sharing by SimGrid", nullptr, get_simgrid},
      BackendEntry{flow, flow_use, nullptr, get_simgrid},
#endif
};

}  // namespace

std::span<const BackendEntry> backends() {
  return table;
}

std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& platform) {
  std::vector<std::string> names;
  for (const BackendEntry& entry : table) names.emplace_back(entry.name);
  const BackendEntry& entry = table[choose("--backend", name, names)];
  if (entry.make == nullptr) throw DeviceError("--backend " + name, fmt::format("not in this build; {}", entry.get_it));
  if (!platform.empty() && entry.name != flow)
    throw InputError(fmt::format("--platform is for --backend {}, not for {}", flow, name));
  return entry.make(platform);
}

std::string describe_backends() {
  std::string text;
  for (const BackendEntry& entry : table)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", entry.name, entry.description);
  return text;
}

}  // namespace dovetail::bench
