// SPDX-License-Identifier: Apache-2.0
#include "models/files/nccl_tests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/fit.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "models/files/nccl_agreement.hpp"
#include "models/files/nccl_text.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/peak_rates.hpp"

namespace dovetail {
namespace {

// `devices` has one entry for each process, whatever the ranks in it.
void read_devices(const JsonReader& config, const JsonFile& file, NcclTestsRun& run) {
  const auto devices = config.find("devices");
  if (!devices) return;
  const int ranks_of_each = config.integer("nthreads", 1, 1000) * config.integer("ngpus", 1, 1000);
  std::set<std::pair<std::string, int>> processes;
  for (const JsonReader& device : devices->elements()) {
    const std::string host = device.string("hostname");
    if (!processes.emplace(host, device.integer("pid")).second) continue;
    const int rank = device.integer("rank", 0, most_nccl_ranks), first_device = device.integer("device", 0);
    for (int i = 0; i < ranks_of_each; ++i)
      run.listed.push_back({file.locate(device.pointer()), rank + i, host, "", first_device + i});
  }
}

std::optional<Printed> read_bandwidth(const JsonReader& times, std::string_view key) {
  const auto bandwidth = times.find(key);
  if (!bandwidth) return {};
  bandwidth->number(0);
  return printed_number(bandwidth->value().dump());
}

// Nothing for a size of no bytes.
std::optional<NcclTestsRow> read_row(const JsonReader& json, const JsonFile& file) {
  NcclTestsRow row{file.locate(json.pointer()), json.number("size", 0), {}};
  const JsonReader times = json.at("out_of_place");
  if (times.value().is_object() && times.has("cpu_time"))
    times.fail("cpu_time", "a CPU time, expected that of the GPU: run without -C");
  const JsonReader time = times.at("time");
  if (!(time.number(0) > 0)) time.fail("0: expected a time in us");
  if (const auto wrong = times.find("nwrong"); wrong && wrong->value().is_number() && wrong->number() > 0)
    wrong->fail("wrong elements in the result: times of a run that fails are not used");
  if (row.size <= 0) return {};
  row.us = printed_number(time.value().dump()).value();
  row.count = json.number_or("count", 0, 0);
  if (const auto type = json.find("type"))
    row.element = nccl_element_bytes(file.locate(type->pointer()), type->string());
  row.algorithm_bandwidth = read_bandwidth(times, "alg_bw");
  if (row.algorithm_bandwidth) row.bus_bandwidth = read_bandwidth(times, "bus_bw");
  return row;
}

NcclTestsRun read_json(const JsonFile& file) {
  const JsonReader json(file);
  NcclTestsRun run;
  run.file = file.name();
  const std::vector<JsonReader> arguments = json.at("args").elements();
  if (arguments.empty()) json.fail("args", "no arguments, expected the program first");
  run.collective = nccl_collective(file.locate(arguments[0].pointer()), arguments[0].string());
  if (const auto config = json.find("config")) read_devices(*config, file, run);
  for (const JsonReader& each : json.at("results").elements())
    if (auto row = read_row(each, file)) run.rows.push_back(std::move(*row));
  if (run.rows.empty()) json.fail("results", "no measurements, expected one for each size");
  set_ranks(run, run.collective);
  return run;
}

// --- fitting ---

Location place(const NcclTestsRun& run) {
  return {run.file, run.line, 1, ""};
}

void require_told_apart(const NcclTestsRun& run, std::span<const NcclTestsRun> runs) {
  if (run.collective) return;
  for (const NcclTestsRun& other : runs)
    if (other.file == run.file && other.line != run.line)
      throw InputError(place(run), fmt::format("several tests in one file, of which this one does not say its "
                                               "collective: expected a file of its own with --collective"));
}

std::vector<TimedSize> times_of(const NcclTestsRun& run) {
  std::vector<TimedSize> times;
  for (const NcclTestsRow& row : run.rows) times.push_back({row.size, Seconds(row.us.value * 1e-6)});
  return times;
}

CollectiveCost fitted(const NcclTestsRun& run, std::optional<Collective> collective, std::optional<LinkKind> link) {
  if (!run.collective && !collective)
    throw InputError(place(run), "the output does not say which collective it measured: add --collective");
  if (run.nodes == 0 && !link)
    throw InputError(place(run), "the output does not say which nodes took part: add --link");
  CollectiveCost cost;
  cost.collective = run.collective ? *run.collective : *collective;
  cost.link = link ? *link : run.nodes > 1 ? LinkKind::Inter : LinkKind::Intra;
  cost.gpus = run.ranks;
  cost.members_per_node = cost.link == LinkKind::Inter && run.nodes > 1 ? run.members_per_node : 0;
  LineFit fit;
  try {
    fit = fit_line(times_of(run));
  } catch (const InputError& error) {
    throw InputError(place(run), error.what());
  }
  cost.alpha = fit.alpha;
  cost.beta = SecondsPerByte(fit.beta.value());
  cost.provenance = {Origin::Measured,
                     fmt::format("nccl-tests, {} out of place, {} ranks on {} nodes: {}",
                                 name_in(collective_names, cost.collective), run.ranks, run.nodes, run.file),
                     false, std::make_shared<const Fit>(std::move(fit.quality))};
  return cost;
}

// The calibration knows more of sizes that were not measured, where it knows such a group.
void take_base_line(CollectiveCost& cost, const NcclTestsRun& run, const Calibration& base) {
  const int nodes = cost.link == LinkKind::Inter ? run.nodes : 1;
  const bool known = std::ranges::any_of(base.collectives, [&](const CollectiveCost& entry) {
    return entry.collective == cost.collective && entry.link == cost.link;
  });
  if (!known || run.ranks < 2 || (cost.link == LinkKind::Inter && nodes < 2)) return;
  const CollectivePrice price =
      find_cost(base, cost.collective, {{run.ranks, nodes}, cost.members_per_node, run.ranks / nodes, {}});
  take_outside(cost, price.alpha, price.beta);
}

void require_possible(const NcclTestsRun& run, const CollectiveCost& cost, const Hardware& hardware) {
  const CollectiveGroup group{cost.collective, cost.link, run.ranks, cost.members_per_node};
  for (const NcclTestsRow& row : run.rows)
    if (const auto claim = beyond_links(group, Bytes(row.size), Seconds(row.us.value * 1e-6), hardware))
      throw InputError(row.place, *claim);
}

void require_distinct_run(const NcclTestsRun& run, const CollectiveCost& cost, const CollectiveCost& other) {
  if (other.collective != cost.collective || other.link != cost.link) return;
  const std::string what =
      fmt::format("{} on {} links", name_in(collective_names, cost.collective), name_in(link_kind_names, cost.link));
  if ((other.members_per_node == 0) != (cost.members_per_node == 0))
    throw InputError(place(run),
                     fmt::format("a {} of which one says how many ranks each node has and another does not, "
                                 "expected it of all or none",
                                 what));
  const bool alike = other.gpus == cost.gpus && other.members_per_node == cost.members_per_node;
  if (alike || other.gpus == 0 || cost.gpus == 0)
    throw InputError(place(run), fmt::format("a second {} of {} ranks, expected one", what, cost.gpus));
}

}  // namespace

std::vector<NcclTestsRun> read_nccl_tests(const std::string& path, FilesRead& files) {
  std::string text = JsonFile::read_text(path);
  files[path] = text;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return {read_json(JsonFile::parse(std::move(text), path))};
  return read_nccl_text(path, text);
}

void merge_nccl_tests(Calibration& calibration, std::span<const NcclTestsRun> runs,
                      std::optional<Collective> collective, std::optional<LinkKind> link) {
  std::vector<CollectiveCost> costs;
  for (NcclTestsRun run : runs) {
    require_told_apart(run, runs);
    if (!run.collective && collective) set_ranks(run, collective);
    CollectiveCost cost = fitted(run, collective, link);
    take_base_line(cost, run, calibration);
    if (calibration.hardware) require_possible(run, cost, *calibration.hardware);
    for (const CollectiveCost& other : costs) require_distinct_run(run, cost, other);
    costs.push_back(std::move(cost));
  }
  for (const CollectiveCost& cost : costs) {
    std::erase_if(calibration.collectives, [&](const CollectiveCost& old) {
      return old.collective == cost.collective && old.link == cost.link;
    });
    if (cost.collective == Collective::AllToAll)  // costs by message would go before it
      std::erase_if(calibration.messages, [&](const MessageCost& old) { return old.link == cost.link; });
    if (cost.link == LinkKind::Intra)  // so would a table by size
      std::erase_if(calibration.tables, [&](const KernelTable& old) {
        return is_collective(old.kind()) && collective_of(old.kind()) == cost.collective;
      });
  }
  calibration.collectives.insert(calibration.collectives.end(), costs.begin(), costs.end());
}

}  // namespace dovetail
