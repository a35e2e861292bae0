// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/hardware_notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "bench/pipeline/backends.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/quantity.hpp"
#include "models/base/names.hpp"
#include "models/network/network.hpp"
#include "models/price/collective_price.hpp"

namespace dovetail::bench {
namespace {

constexpr std::string_view of_cluster = "cluster.";

// Fields of costs that no rate is.
constexpr std::array<std::string_view, 4> not_rates{"alpha", "per_message", "inside", "between"};

std::optional<Cluster> shipped_home(const std::string& calibration, const FilesRead& files) {
  if (!files.contains(fmt::format("data/calibrations/{}.json", calibration))) return {};
  std::vector<std::string> names = known_names("clusters");
  std::ranges::stable_partition(names, [&](const std::string& name) { return name == calibration; });
  for (const std::string& name : names) {
    FilesRead seen;
    WorkloadDefaults defaults;
    Cluster cluster = load_cluster(name, defaults, seen);
    if (cluster.calibration == calibration) return cluster;
  }
  return {};
}

// The cluster that the calibration was made for.
Cluster home_of(const Experiment& e, const Asked& asked) {
  if (const auto shipped = shipped_home(e.calibration->name, asked.files)) return *shipped;
  ExperimentRequest plain = asked.request;
  if (std::erase_if(plain.set, [](const std::string& option) { return option.starts_with(of_cluster); }) == 0)
    return e.cluster;
  try {
    FilesRead seen;
    return load_parts(plain, seen).cluster;
  } catch (const InputError&) {  // complete with its settings alone
    return e.cluster;
  }
}

bool knows_links_alone(const std::string& backend) {
  const BackendEntry* entry = find_backend(backend);
  return entry != nullptr && entry->links_alone;
}

class Comparison {
 public:
  Comparison(const Experiment& e, const Asked& asked)
      : e_(e), asked_(asked), home_(home_of(e, asked)), flows_(knows_links_alone(asked.backend)) {
    links_count_ = (flows_ && !asked.other_platform) || edited("collectives") || edited("messages");
  }

  std::vector<HardwareFinding> findings() {
    const Cluster& here = e_.cluster;
    if (here.node_link != home_.node_link && !here.network && !links_count_)
      add("node_link", std::string(name_in(node_link_names, here.node_link)),
          std::string(name_in(node_link_names, home_.node_link)), costs_of_links(), true);
    if (e_.calibration->hardware) return std::move(found_);  // to which its costs were adapted
    link("node_bandwidth", here.node_bandwidth, home_.node_bandwidth, "");
    cards();
    memory();
    if (edited("gemms") || edited("kernels")) return std::move(found_);
    for (const auto& [name, dtype] : dtype_names) {
      const auto mine = here.device.peak.find(dtype), usual = home_.device.peak.find(dtype);
      if (mine == here.device.peak.end() || usual == home_.device.peak.end() || mine->second == usual->second) continue;
      add(fmt::format("device.peak.{}", name), format_quantity(mine->second), format_quantity(usual->second),
          "calibration.gemms.N.beta", false);
    }
    return std::move(found_);
  }

  // The calibration may say what the cards of its own cluster cannot do, and the user's costs what these cannot.
  std::vector<Collective> contradictions() const {
    const bool at_home = card_share(e_.cluster) == card_share(home_);
    return at_home || edited("collectives") || edited("messages") ? held_by_cards(e_) : std::vector<Collective>{};
  }

 private:
  // Rates that the user has set beside the hardware are taken to follow it.
  bool edited(std::string_view costs) const {
    return std::ranges::any_of(asked_.request.set, [&](const std::string& option) {
      const std::string_view key = std::string_view(option).substr(0, option.find('='));
      return key.starts_with(fmt::format("calibration.{}", costs)) &&
             std::ranges::none_of(not_rates, [&](auto field) { return key.ends_with(fmt::format(".{}", field)); });
    });
  }

  std::string costs_of_links() const {
    constexpr auto collectives = "calibration.collectives.N.beta";
    return e_.calibration->messages.empty()
               ? collectives
               : fmt::format("{}=..., --set calibration.messages.N.bandwidth", collectives);
  }

  void add(const std::string& field, const std::string& value, const std::string& usual, const std::string& instead,
           bool links, const std::string& bound = "") {
    found_.push_back(
        {std::string(of_cluster) + field, value, usual, e_.calibration->name, home_.name, bound, instead, links});
  }

  // In a described network slower links count, but no op is faster than calibrated.
  void link(const char* field, BytesPerSecond here, BytesPerSecond usual, std::string bound) {
    if (here == usual || links_count_) return;
    if (e_.cluster.network && !flows_) {
      if (here < usual) return;
      bound = "a described link adds time to calibrated costs, and takes none away";
    }
    add(field, format_quantity(here), format_quantity(usual), costs_of_links(), true, bound);
  }

  // The share that a GPU has of the cards counts, however many they are.
  void cards() {
    const Cluster& here = e_.cluster;
    const BytesPerSecond share = card_share(here), usual = card_share(home_);
    if (share == usual || links_count_) return;
    std::vector<std::string_view> held;
    for (Collective each : held_by_cards(e_)) held.push_back(name_in(collective_names, each));
    const std::string bound =
        held.empty() ? "" : fmt::format("{} between nodes take what the cards carry", fmt::join(held, ", "));
    if (here.nic_bandwidth != home_.nic_bandwidth)
      link("nic_bandwidth", here.nic_bandwidth, home_.nic_bandwidth, bound);
    else if (!e_.cluster.network || flows_)
      add("nics_per_node", fmt::format("{} for {} GPUs", here.nics_per_node, here.gpus_per_node),
          fmt::format("{} for {}", home_.nics_per_node, home_.gpus_per_node), costs_of_links(), true, bound);
  }

  void memory() {
    const BytesPerSecond here = e_.cluster.device.memory_bandwidth, usual = home_.device.memory_bandwidth;
    const bool described = e_.cluster.network && !flows_;
    if (here == usual || (described && here < usual) || edited("memory") || edited("strided_copy")) return;
    add("device.memory_bandwidth", format_quantity(here), format_quantity(usual), "calibration.memory.beta", false,
        described ? "the described device memory adds time to calibrated costs, and takes none away" : "");
  }

  const Experiment& e_;
  const Asked& asked_;
  const Cluster home_;
  const bool flows_;
  bool links_count_ = false;  // in both directions
  std::vector<HardwareFinding> found_;
};

std::string named(const HardwareFinding& f) {
  return fmt::format("{} {} ({}: {})", f.setting, f.values, f.cluster, f.usual);
}

std::string ways_to_count(const std::vector<HardwareFinding>& findings) {
  std::vector<std::string> settings;
  for (const HardwareFinding& f : findings)
    if (std::ranges::find(settings, f.instead) == settings.end()) settings.push_back(f.instead);
  const bool links = std::ranges::any_of(findings, &HardwareFinding::links);
  return fmt::format("Use --set {}=...{} or a calibration of your own (dovetail calibrate) instead",
                     fmt::join(settings, "=..., --set "),
                     links ? ", a described network with --backend " + backends_of_links() : "");
}

// Settings of PCIe switches count only where messages between GPUs cross them.
void add_idle_switches(const Experiment& e, const Asked& asked, std::vector<std::string>& notes) {
  if (!e.cluster.network || Topology(e.cluster).crosses_switches()) return;
  for (const char* key : {"gpus_per_switch", "switch_bandwidth"})
    if (const std::string setting = fmt::format("cluster.network.pcie.{}", key);
        std::ranges::any_of(asked.request.set, [&](const std::string& set) { return set.starts_with(setting + "="); }))
      notes.push_back(fmt::format(
          "{} changes nothing: no message between GPUs of {} passes the link from a PCIe switch to its root", setting,
          e.cluster.name));
}

}  // namespace

std::vector<HardwareFinding> hardware_findings(const Experiment& e, const Asked& asked) {
  return Comparison(e, asked).findings();
}

void add_findings(const std::vector<HardwareFinding>& more, std::vector<HardwareFinding>& findings) {
  for (const HardwareFinding& f : more) {
    const auto known = std::ranges::find_if(findings, [&](const HardwareFinding& other) {
      return other.setting == f.setting && other.calibration == f.calibration && other.bound == f.bound;
    });
    if (known == findings.end())
      findings.push_back(f);
    else if ((", " + known->values + ",").find(", " + f.values + ",") == std::string::npos)
      known->values += ", " + f.values;
  }
}

std::vector<std::string> sentences(const std::vector<HardwareFinding>& findings) {
  std::vector<std::string> lines;
  std::vector<HardwareFinding> left = findings;
  while (!left.empty()) {
    std::vector<HardwareFinding> alike;
    const HardwareFinding first = left.front();
    std::erase_if(left, [&](const HardwareFinding& f) {
      const bool same = f.calibration == first.calibration && f.bound == first.bound;
      if (same) alike.push_back(f);
      return same;
    });
    std::vector<std::string> names;
    for (const HardwareFinding& f : alike) names.push_back(named(f));
    const char* s = alike.size() == 1 ? "s" : "";
    lines.push_back(fmt::format("{} {}: costs are those of calibration {}. {}", fmt::join(names, ", "),
                                first.bound.empty() ? fmt::format("change{} nothing", s)
                                                    : fmt::format("count{} only as a bound ({})", s, first.bound),
                                first.calibration, ways_to_count(alike)));
  }
  return lines;
}

void add_hardware(const Experiment& e, const Asked& asked, std::vector<std::string>& notes) {
  Comparison comparison(e, asked);
  std::ranges::copy(e.calibration->adapted, std::back_inserter(notes));
  std::ranges::copy(sentences(comparison.findings()), std::back_inserter(notes));
  add_idle_switches(e, asked, notes);
  std::vector<std::string_view> names;
  for (Collective held : comparison.contradictions()) names.push_back(name_in(collective_names, held));
  if (names.empty()) return;
  notes.push_back(fmt::format(
      "{}: {} between nodes would be faster than the network cards of {} carry ({} for each GPU), so that the cards' "
      "rate counts: one of the two is wrong",
      e.calibration->name, fmt::join(names, ", "), e.cluster.name, format_quantity(card_share(e.cluster))));
}

}  // namespace dovetail::bench
