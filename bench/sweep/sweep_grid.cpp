// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/question.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

const InputKind grid_input{"sweep", "sweeps"};

bool is_name_of_file(std::string_view key) {
  return key == "cluster" || key == "model" || key == "calibration";
}

// Keys are those of an experiment: what is wrong with a value, its own reader says when the cell is computed.
void require_key(const JsonReader& place, const std::string& key) {
  const bool known = is_name_of_file(key) || key == "nodes" || key == "overlap" || key.find('.') != std::string::npos;
  if (!known)
    place.fail(fmt::format(
        "\"{}\", expected cluster, model, calibration, nodes, overlap or a dotted path (workload.batch)", key));
}

// A value as --set takes it, paths relative to the grid's file.
Json read_value(const JsonReader& json, const std::string& key, const std::string& grid) {
  if (is_name_of_file(key)) return beside(grid, json.string());
  if (key == "nodes") return json.integer(1);
  return Json(json.value());
}

Json read_values(const JsonReader& object, const std::string& grid) {
  Json values = Json::object();
  for (const auto& [key, value] : object.members()) {
    require_key(value, key);
    values[key] = read_value(value, key, grid);
  }
  return values;
}

SweepAxis read_axis(const JsonReader& json, const std::string& grid) {
  SweepAxis axis{json.string("name"), {}};
  for (const JsonReader& value : json.at("values").elements()) {
    if (value.value().is_object()) {
      axis.values.push_back(read_values(value, grid));
    } else {
      require_key(json.at("name"), axis.name);
      axis.values.push_back({{axis.name, read_value(value, axis.name, grid)}});
    }
    const auto earlier = axis.values.end() - 1;
    if (std::find(axis.values.begin(), earlier, *earlier) != earlier) value.fail("given twice, expected once");
  }
  return axis;
}

void set_values(const Json& values, ExperimentRequest& request) {
  for (const auto& [key, value] : values.items()) {
    if (key == "cluster")
      request.cluster = value;
    else if (key == "model")
      request.model = value;
    else if (key == "calibration")
      request.calibration = value;
    else if (key == "nodes")
      request.nodes = value;
    else
      request.set.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

// A key that two axes change would make one of them a lie.
void require_apart(const SweepGrid& grid, const JsonReader& axes) {
  std::set<std::string> taken;
  for (std::size_t i = 0; i < grid.axes.size(); ++i) {
    std::set<std::string> own;
    for (const Json& values : grid.axes[i].values)
      for (const auto& [key, value] : values.items()) own.insert(key);
    for (const std::string& key : own)
      if (!taken.insert(key).second)
        axes.elements()[i].fail(
            fmt::format("changes {}, which an earlier axis changes too; expected one axis for it", key));
  }
}

}  // namespace

std::int64_t SweepGrid::points() const {
  std::int64_t product = 1;
  for (const SweepAxis& axis : axes) product *= static_cast<std::int64_t>(axis.values.size());
  return product;
}

SweepPoint SweepGrid::point(std::int64_t index) const {
  std::vector<std::size_t> chosen(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto count = static_cast<std::int64_t>(axes[i].values.size());
    chosen[i] = static_cast<std::size_t>(index % count);
    index /= count;
  }
  SweepPoint point{Json::object(), base};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Json& values = axes[i].values[chosen[i]];
    point.values.update(values);
    set_values(values, point.request);
  }
  return point;
}

SweepGrid load_sweep_grid(const std::string& name, FilesRead& files) {
  const JsonFile file = open_input(grid_input, name, {}, files);
  const JsonReader json(file);
  SweepGrid grid;
  grid.name = json.string("name");
  grid.description = json.string_or("description", "");
  grid.backend = json.string_or("backend", "simgrid");
  if (const auto backend = json.find("backend")) at_place_of(*backend, [&] { make_backend(grid.backend); });
  if (const auto base = json.find("base")) set_values(read_values(*base, file.name()), grid.base);
  for (const JsonReader& each : json.at("systems").elements()) {
    const std::string system = beside(file.name(), each.string());
    if (std::ranges::find(grid.systems, system) != grid.systems.end()) each.fail("given twice, expected once");
    at_place_of(each, [&] { require_planner(system, load_system(system, files)); });
    grid.systems.push_back(system);
  }
  if (const auto axes = json.find("axes")) {
    double cells = static_cast<double>(grid.systems.size());
    for (const JsonReader& each : axes->elements()) {
      grid.axes.push_back(read_axis(each, file.name()));
      cells *= static_cast<double>(grid.axes.back().values.size());
    }
    if (cells > most_cells) axes->fail(fmt::format("{:.3g} cells, expected at most {}", cells, most_cells));
    require_apart(grid, *axes);
  }
  return grid;
}

}  // namespace dovetail::bench
