// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/validation_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "bench/pipeline/question.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"
#include "models/files/input_file.hpp"
#include "planners/catalog/registry.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array<std::pair<std::string_view, KernelTimes>, 2> kernel_times_names{
    {{"real", KernelTimes::Real}, {"held", KernelTimes::Held}}};
const InputKind grid_input{"validation_grid", "validation"};

constexpr double least_slowdown = 1e-3, most_slowdown = 1e6;

// The parts of all sizes: ranks, nodes and groups.
exec::HostScale read_ranks(const JsonReader& json) {
  exec::HostScale scale;
  scale.ranks = json.integer("ranks", 2);
  scale.nodes = json.integer_or("nodes", scale.nodes, 1);
  if (scale.ranks % scale.nodes != 0)
    json.fail("ranks", fmt::format("{}, expected a multiple of the {} nodes", scale.ranks, scale.nodes));
  if (const auto groups = json.find("parallelism")) {
    scale.mp = groups->integer_or("mp", scale.mp, 1);
    scale.esp = groups->integer_or("esp", scale.esp, 1);
    scale.ep = groups->integer_or("ep", scale.ep, 1);
  }
  return scale;
}

GridSize read_size(const JsonReader& json, GridSize size) {
  exec::HostScale& scale = size.scale;
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
    return std::tuple(s.experts, s.hidden, s.expert_hidden, s.head_size, s.tokens_per_rank, s.top_k);
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
    if (size.has("link_slowdown")) size.fail("link_slowdown", "given, but kernels are held: nothing is slowed");
}

// Sizes that no executor can have are refused at their place.
void require_possible(const JsonReader& json, const ValidationGrid& grid, const std::vector<GridSize>& sizes) {
  FilesRead files;
  std::vector<std::string> notes;
  const Experiment full = load_experiment(grid.request, files, notes);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    at_place_of(json.elements()[i], [&] { exec::scaled_for_host(full, sizes[i].scale); });
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
  for (const JsonReader& each : json.at("systems").elements()) {
    grid.systems.push_back(at_place_of(each, [&] { return load_system(each.string(), files); }));
    at_place_of(each, [&] { require_planner(each.string(), grid.systems.back()); });
    if (grid.systems.back().planner.degrees.size() > 1) grid.systems.back().planner.degrees = grid.degrees;
  }
  if (const auto planners = json.find("planners"))
    for (const JsonReader& each : planners->elements()) {
      grid.planners.push_back(each.string());
      at_place_of(each, [&] { planners::find_planner(grid.planners.back()); });
    }
  grid.measured_plans = json.integer_or("measured_plans", 0, 1);
  grid.strategies = json.boolean_or("strategies", false);
  if (grid.strategies &&
      std::ranges::all_of(grid.systems, [](const System& s) { return s.plan.restore == Restore::Keep; }))
    json.fail("strategies", "true, but no system restores what it does not keep: add mpipemoe");
  if (grid.kernels == KernelTimes::Held) require_slowed(json);
  if (grid.kernels == KernelTimes::Real) {
    grid.calibrate = read_sizes(json.at("calibrate"), of_all);
    require_possible(json.at("calibrate"), grid, grid.calibrate);
  }
  grid.predict = read_sizes(json.at("predict"), of_all);
  require_possible(json.at("predict"), grid, grid.predict);
  require_held_out(json.at("predict"), grid);
  return grid;
}

std::string size_name(const GridSize& size) {
  const exec::HostScale& s = size.scale;
  std::string name =
      fmt::format("{} ranks, {} tokens, hidden {} and {}", s.ranks, s.tokens_per_rank, s.hidden, s.expert_hidden);
  if (s.sequence > 0) name += fmt::format(", samples of {}", s.sequence);
  if (s.head_size > 0) name += fmt::format(", heads of {}", s.head_size);
  if (s.experts > 0) name += fmt::format(", {} experts", s.experts);
  if (s.top_k > 0) name += fmt::format(", top {}", s.top_k);
  name += fmt::format(", {} layer{}", s.layers, s.layers == 1 ? "" : "s");
  return size.link_slowdown == 1 ? name : name + fmt::format(", links x {:.4g}", size.link_slowdown);
}

}  // namespace dovetail::bench
