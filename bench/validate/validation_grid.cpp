#include "bench/validate/validation_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "bench/pipeline/question.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/input_file.hpp"
#include "planners/registry.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array<std::pair<std::string_view, KernelTimes>, 2> kernel_times_names{
    {{"real", KernelTimes::Real}, {"held", KernelTimes::Held}}};
const InputKind grid_input{"validation_grid", "validation"};

std::vector<exec::HostScale> read_sizes(const JsonReader& json, int ranks) {
  std::vector<exec::HostScale> sizes;
  for (const JsonReader& each : json.elements()) {
    exec::HostScale size;
    size.ranks = ranks;
    size.layers = each.integer_or("layers", size.layers, 1);
    size.experts = each.integer_or("experts", size.experts, 1);
    size.hidden = each.integer_or("hidden", size.hidden, 1);
    size.expert_hidden = each.integer_or("expert_hidden", size.expert_hidden, 1);
    size.head_size = each.integer_or("head_size", size.head_size, 1);
    if (size.head_size > size.hidden)
      each.fail("head_size", fmt::format("{}, expected at most the hidden size {}", size.head_size, size.hidden));
    size.tokens_per_rank = each.integer_or("tokens", size.tokens_per_rank, 1);
    for (const exec::HostScale& other : sizes)
      if (size_name(other) == size_name(size)) each.fail(fmt::format("{} twice, expected once", size_name(size)));
    sizes.push_back(size);
  }
  if (sizes.empty()) json.fail("no size, expected at least one");
  return sizes;
}

// Predicted sizes must be new to the fit, but for the number of layers.
void require_held_out(const JsonReader& json, const ValidationGrid& grid) {
  const auto shape = [](const exec::HostScale& s) {
    return std::tuple(s.experts, s.hidden, s.expert_hidden, s.head_size, s.tokens_per_rank);
  };
  for (std::size_t i = 0; i < grid.predict.size(); ++i)
    for (const exec::HostScale& fitted : grid.calibrate)
      if (shape(fitted) == shape(grid.predict[i]))
        json.elements()[i].fail(
            fmt::format("{} is a size to calibrate on too, expected another", size_name(grid.predict[i])));
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
  at_place_of(json.at("cluster"), [&] {
    WorkloadDefaults defaults;
    load_cluster(grid.request.cluster, defaults, files);
  });
  at_place_of(json.at("model"), [&] { load_model(grid.request.model, files); });
  grid.kernels = json.enumeration_or("kernels", kernel_times_names, grid.kernels);
  grid.device = json.enumeration_or("device", exec::run_device_names, grid.device);
  if (grid.device == exec::RunDevice::Cuda && grid.kernels == KernelTimes::Held)
    json.fail("kernels", "held, but a GPU's kernels are real");
  grid.link_slowdown = json.number_or("link_slowdown", 1, 1);
  const int ranks = json.integer("ranks", 2);
  std::vector<int> degrees;
  for (const JsonReader& each : json.at("degrees").elements()) degrees.push_back(each.integer(1));
  for (const JsonReader& each : json.at("systems").elements()) {
    grid.systems.push_back(at_place_of(each, [&] { return load_system(each.string(), files); }));
    at_place_of(each, [&] { require_planner(each.string(), grid.systems.back()); });
    if (grid.systems.back().planner.degrees.size() > 1) grid.systems.back().planner.degrees = degrees;
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
  if (grid.kernels == KernelTimes::Real) {
    grid.calibrate = read_sizes(json.at("calibrate"), ranks);
  } else {
    for (const char* key : {"calibrate", "link_slowdown"})
      if (json.has(key)) json.fail(key, "given, but kernels are held: nothing is fitted or slowed");
  }
  grid.predict = read_sizes(json.at("predict"), ranks);
  require_held_out(json.at("predict"), grid);
  return grid;
}

std::string size_name(const exec::HostScale& s) {
  return fmt::format("{} ranks, {} tokens, hidden {} and {}, {}{}{} layer{}", s.ranks, s.tokens_per_rank, s.hidden,
                     s.expert_hidden, s.head_size > 0 ? fmt::format("heads of {}, ", s.head_size) : "",
                     s.experts > 0 ? fmt::format("{} experts, ", s.experts) : "", s.layers, s.layers == 1 ? "" : "s");
}

}  // namespace dovetail::bench
