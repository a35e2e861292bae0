#include "bench/backends.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "bench/option_values.hpp"
#include "models/analytic_backend.hpp"
#include "models/build_info.hpp"
#include "models/errors.hpp"
#if DOVETAIL_HAS_SIMGRID
#include "sim/simgrid_backend.hpp"
#endif

namespace dovetail::bench {
namespace {

template <class Type>
std::unique_ptr<Backend> make() {
  return std::make_unique<Type>();
}

constexpr std::array table {
  BackendEntry{"analytic", "fair sharing, computed here", make<AnalyticBackend>, ""},
#if DOVETAIL_HAS_SIMGRID
      BackendEntry{"simgrid", "fair sharing by SimGrid", make<sim::SimGridBackend>, ""},
#else
      BackendEntry{"simgrid", "fair sharing by SimGrid", nullptr, "apt-get install libsimgrid-dev and build again"},
#endif
};

}  // namespace

std::span<const BackendEntry> backends() {
  return table;
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  std::vector<std::string> names;
  for (const BackendEntry& entry : table) names.emplace_back(entry.name);
  const BackendEntry& entry = table[choose("--backend", name, names)];
  if (entry.make == nullptr) throw DeviceError("--backend " + name, fmt::format("not in this build; {}", entry.get_it));
  return entry.make();
}

std::string describe_backends() {
  std::string text;
  for (const BackendEntry& entry : table)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", entry.name, entry.description);
  return text;
}

}  // namespace dovetail::bench
