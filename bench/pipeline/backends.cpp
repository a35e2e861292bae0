// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/backends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/cli/option_values.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/time/analytic_backend.hpp"
#if DOVETAIL_HAS_SIMGRID
#include "bench/pipeline/simgrid_module.hpp"
#endif

namespace dovetail::bench {
namespace {

using Make = std::unique_ptr<Backend> (*)(const std::string& platform);

constexpr Make make_analytic = [](const std::string&) -> std::unique_ptr<Backend> {
  return std::make_unique<AnalyticBackend>();
};
#if DOVETAIL_HAS_SIMGRID
constexpr Make make_simgrid = [](const std::string& platform) { return make_simgrid_backend("simgrid", platform); };
constexpr Make make_flow = [](const std::string& platform) { return make_simgrid_backend("simgrid-flow", platform); };
#else
constexpr Make make_simgrid = nullptr, make_flow = nullptr;
#endif
constexpr std::string_view get_simgrid = "apt-get install libsimgrid-dev libexpat1-dev and build again";

constexpr std::array table{
    BackendEntry{.name = "analytic",
                 .description = "fair sharing, computed here",
                 .make = make_analytic,
                 .kind = ResultKind::Predicted,
                 .planners_model = true},
    BackendEntry{
        .name = "simgrid", .description = "fair sharing by SimGrid", .make = make_simgrid, .get_it = get_simgrid},
    BackendEntry{.name = "simgrid-flow",
                 .description = "every message of up to 1,024 GPUs by SimGrid",
                 .make = make_flow,
                 .get_it = get_simgrid,
                 .links_alone = true},
};

}  // namespace

std::span<const BackendEntry> backends() {
  return table;
}

const BackendEntry* find_backend(std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &BackendEntry::name);
  return found == table.end() ? nullptr : found;
}

bool is_built(std::string_view name) {
  const BackendEntry* entry = find_backend(name);
  return entry != nullptr && entry->make != nullptr;
}

std::unique_ptr<Backend> make_backend(const std::string& name, const std::string& platform) {
  std::vector<std::string> names;
  for (const BackendEntry& entry : table) names.emplace_back(entry.name);
  const BackendEntry& entry = table[choose("--backend", name, names)];
  if (entry.make == nullptr) throw DeviceError("--backend " + name, fmt::format("not in this build; {}", entry.get_it));
  if (!platform.empty() && !entry.links_alone)
    throw InputError(fmt::format("--platform is for --backend {}, not for {}", backends_of_links(), name));
  return entry.make(platform);
}

std::string describe_backends() {
  std::string text;
  for (const BackendEntry& entry : table)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", entry.name, entry.description);
  return text;
}

std::string backends_of_links() {
  std::string text;
  for (const BackendEntry& entry : table)
    if (entry.links_alone) text += fmt::format("{}{}", text.empty() ? "" : " or ", entry.name);
  return text;
}

}  // namespace dovetail::bench
