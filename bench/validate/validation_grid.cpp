// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/validation_grid.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bench/pipeline/question.hpp"
#include "bench/validate/grid_size.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/online/online.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array<std::pair<std::string_view, KernelTimes>, 2> kernel_times_names{
    {{"real", KernelTimes::Real}, {"held", KernelTimes::Held}}};
const InputKind grid_input{"validation_grid", "validation"};

constexpr double least_slowdown = 1e-3, most_slowdown = 1e6;

void read_groups(const JsonReader& json, exec::HostScale& scale) {
  const auto groups = json.find("parallelism");
  if (!groups) return;
  scale.mp = groups->integer_or("mp", scale.mp, 1);
  scale.esp = groups->integer_or("esp", scale.esp, 1);
  scale.ep = groups->integer_or("ep", scale.ep, 1);
}

// The parts of all sizes: ranks, nodes and groups.
exec::HostScale read_ranks(const JsonReader& json) {
  exec::HostScale scale;
  scale.ranks = json.integer("ranks", 2);
  scale.nodes = json.integer_or("nodes", scale.nodes, 1);
  if (scale.ranks % scale.nodes != 0)
    json.fail("ranks", fmt::format("{}, expected a multiple of the {} nodes", scale.ranks, scale.nodes));
  read_groups(json, scale);
  return scale;
}

GridSize read_size(const JsonReader& json, GridSize size) {
  exec::HostScale& scale = size.scale;
  read_groups(json, scale);
  scale.layers = json.integer_or("layers", scale.layers, 1);
  scale.experts = json.integer_or("experts", scale.experts, 1);
  scale.hidden = json.integer_or("hidden", scale.hidden, 1);
  scale.expert_hidden = json.integer_or("expert_hidden", scale.expert_hidden, 1);
  scale.head_size = json.integer_or("head_size", scale.head_size, 1);
  if (scale.head_size > scale.hidden)
    json.fail("head_size", fmt::format("{}, expected at most the hidden size {}", scale.head_size, scale.hidden));
  scale.tokens_per_rank = json.integer_or("tokens", scale.tokens_per_rank, 1);
  scale.sequence = json.integer_or("sequence", scale.sequence, 1);
  scale.top_k = json.integer_or("top_k", scale.top_k, 1);
  size.link_slowdown = json.number_or("link_slowdown", size.link_slowdown, least_slowdown, most_slowdown);
  if (json.has("links_to_computation")) {
    if (json.has("link_slowdown"))
      json.fail("links_to_computation", "given beside link_slowdown, which would follow from it");
    size.links_to_computation = json.number("links_to_computation", least_slowdown, most_slowdown);
  }
  if (const auto settings = json.find("set"))
    for (const JsonReader& each : settings->elements()) {
      size.set.push_back(each.string());
      if (!size.set.back().starts_with("workload."))
        each.fail(fmt::format("{}, expected a setting of the workload: \"workload.routing.kind=hot\"",
                              in_quotes(size.set.back())));
    }
  if (const auto systems = json.find("systems"))
    for (const JsonReader& each : systems->elements()) size.systems.push_back(each.string());
  return size;
}

std::vector<GridSize> read_sizes(const JsonReader& json, const GridSize& of_all) {
  std::vector<GridSize> sizes;
  for (const JsonReader& each : json.elements()) {
    const GridSize size = read_size(each, of_all);
    for (const GridSize& other : sizes)
      if (size_name(other) == size_name(size)) each.fail(fmt::format("{} twice, expected once", size_name(size)));
    sizes.push_back(size);
  }
  if (sizes.empty()) json.fail("no size, expected at least one");
  return sizes;
}

// Predicted sizes must be new to the fit, but for the number of layers and the speed of links.
void require_held_out(const JsonReader& json, const ValidationGrid& grid) {
  const auto shape = [](const GridSize& size) {
    const exec::HostScale& s = size.scale;
    return std::tuple(s.mp, s.esp, s.ep, s.experts, s.hidden, s.expert_hidden, s.head_size, s.tokens_per_rank, s.top_k);
  };
  for (std::size_t i = 0; i < grid.predict.size(); ++i)
    for (const GridSize& fitted : grid.calibrate)
      if (shape(fitted) == shape(grid.predict[i]))
        json.elements()[i].fail(
            fmt::format("{} is a size to calibrate on too, expected another", size_name(grid.predict[i])));
}

void require_slowed(const JsonReader& json) {
  for (const char* key : {"calibrate", "link_slowdown"})
    if (json.has(key)) json.fail(key, "given, but kernels are held: nothing is fitted or slowed");
  for (const JsonReader& size : json.at("predict").elements())
    for (const char* key : {"link_slowdown", "links_to_computation"})
      if (size.has(key)) size.fail(key, "given, but kernels are held: nothing is slowed");
}

// Sizes that no executor can have are refused at their place.
void require_possible(const JsonReader& json, const ValidationGrid& grid, const std::vector<GridSize>& sizes) {
  FilesRead files;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const JsonReader size = json.elements()[i];
    at_place_of(size, [&] {
      try {
        exec::scaled_for_host(full_size(grid, sizes[i], files), sizes[i].scale);
      } catch (const InputError& error) {  // a setting names itself, as --set does
        if (error.where().file.starts_with("--set")) size.fail("set", error.what());
        throw;
      }
    });
  }
}

// A name, or an object of a name and planners.
GridSystem read_system(const JsonReader& json, const std::vector<int>& degrees, FilesRead& files) {
  const bool whole = json.value().is_object();
  const JsonReader at = whole ? json.at("name") : json;
  const std::string name = at.string();
  GridSystem entry;
  entry.system = at_place_of(at, [&] { return load_system(name, files); });
  at_place_of(at, [&] { require_planner(name, entry.system); });
  if (whole)
    for (const JsonReader& each : json.at("planners").elements()) {
      entry.planners.push_back(each.string());
      at_place_of(each, [&] { planners::find_planner(entry.planners.back()); });
    }
  if (entry.system.planner.degrees.size() > 1 || !entry.planners.empty()) entry.system.planner.degrees = degrees;
  return entry;
}

bool has_system(const ValidationGrid& grid, const std::string& name) {
  return std::ranges::any_of(grid.systems, [&](const GridSystem& s) { return s.system.name == name; });
}

void require_systems(const JsonReader& sizes, const ValidationGrid& grid) {
  for (const JsonReader& size : sizes.elements())
    if (const auto systems = size.find("systems"))
      for (const JsonReader& each : systems->elements())
        if (!has_system(grid, each.string()))
          each.fail(fmt::format("{}, expected one of the grid's systems", in_quotes(each.string())));
}

std::vector<GridOnline> read_online(const JsonReader& json, const ValidationGrid& grid) {
  std::vector<GridOnline> online;
  for (const JsonReader& each : json.elements()) {
    const GridOnline entry{each.string("planner"), each.string("system")};
    const std::vector<std::string> known = planners::online_names();
    if (std::ranges::find(known, entry.planner) == known.end())
      each.fail("planner", fmt::format("{}, expected one of {}", in_quotes(entry.planner), fmt::join(known, ", ")));
    if (!has_system(grid, entry.system))
      each.fail("system", fmt::format("{}, expected one of the grid's systems", in_quotes(entry.system)));
    online.push_back(entry);
  }
  return online;
}

}  // namespace

ValidationGrid load_validation_grid(const std::string& name, FilesRead& files) {
  const JsonFile file = open_input(grid_input, name, {}, files);
  const JsonReader json(file);
  ValidationGrid grid;
  grid.name = json.string("name");
  grid.description = json.string_or("description", "");
  grid.request.cluster = json.string("cluster");
  grid.request.model = json.string("model");
  // Sizes of kernels and messages are those that costs are fitted to, whatever the routers of a run choose.
  grid.request.set.emplace_back("workload.capacity_factor=1.2");
  at_place_of(json.at("cluster"), [&] {
    WorkloadDefaults defaults;
    load_cluster(grid.request.cluster, defaults, files);
  });
  at_place_of(json.at("model"), [&] { load_model(grid.request.model, files); });
  grid.kernels = json.enumeration_or("kernels", kernel_times_names, grid.kernels);
  grid.device = json.enumeration_or("device", exec::run_device_names, grid.device);
  if (grid.device == exec::RunDevice::Cuda && grid.kernels == KernelTimes::Held)
    json.fail("kernels", "held, but a GPU's kernels are real");
  if (json.has("extent"))
    grid.request.set.push_back(
        fmt::format("workload.extent={}", name_in(extent_names, json.enumeration("extent", extent_names))));
  const GridSize of_all{read_ranks(json), json.number_or("link_slowdown", 1, least_slowdown, most_slowdown)};
  for (const JsonReader& each : json.at("degrees").elements()) grid.degrees.push_back(each.integer(1));
  grid.one_rank = json.boolean_or("one_rank", false);
  if (grid.one_rank && (grid.device == exec::RunDevice::Cuda || grid.kernels == KernelTimes::Held))
    json.fail("one_rank", "true, expected real kernels on the host: one GPU stands for one rank anyway");
  for (const JsonReader& each : json.at("systems").elements())
    grid.systems.push_back(read_system(each, grid.degrees, files));
  if (const auto planners = json.find("planners"))
    for (const JsonReader& each : planners->elements()) {
      grid.planners.push_back(each.string());
      at_place_of(each, [&] { planners::find_planner(grid.planners.back()); });
    }
  grid.measured_plans = json.integer_or("measured_plans", 0, 1);
  grid.strategies = json.boolean_or("strategies", false);
  if (grid.strategies &&
      std::ranges::all_of(grid.systems, [](const GridSystem& s) { return s.system.plan.restore == Restore::Keep; }))
    json.fail("strategies", "true, but no system restores what it does not keep: add mpipemoe");
  if (grid.kernels == KernelTimes::Held) require_slowed(json);
  if (grid.kernels == KernelTimes::Real) {
    for (const JsonReader& size : json.at("calibrate").elements())
      if (size.has("links_to_computation"))
        size.fail("links_to_computation", "given, but it follows from costs that are fitted to this size");
    grid.calibrate = read_sizes(json.at("calibrate"), of_all);
    require_possible(json.at("calibrate"), grid, grid.calibrate);
  }
  grid.predict = read_sizes(json.at("predict"), of_all);
  require_possible(json.at("predict"), grid, grid.predict);
  require_held_out(json.at("predict"), grid);
  require_systems(json.at("predict"), grid);
  if (const auto online = json.find("online")) grid.online = read_online(*online, grid);
  return grid;
}

Experiment full_size(const ValidationGrid& grid, const GridSize& size, FilesRead& files) {
  ExperimentRequest request = grid.request;
  request.set.insert(request.set.end(), size.set.begin(), size.set.end());
  std::vector<std::string> notes;  // they are about the full size
  Experiment e = load_experiment(request, files, notes);
  e.overlap = Overlap::Ideal;  // held ops last their own time whatever runs beside them
  return e;
}

}  // namespace dovetail::bench
