// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/sweep/sweep_grid.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/saved_format.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array known_keys{"cell",
                                "system",
                                "values",
                                "refused",
                                "makespan_s",
                                "forward_s",
                                "feasible",
                                "backward_s",
                                "lower_bound_s",
                                "exposed_communication_s",
                                "missing_bytes",
                                "plan",
                                "peak_bytes",
                                "launch_bound_s",
                                "overlap",
                                "interval_low_s",
                                "interval_high_s",
                                "mfu"};

void require_known_keys(const JsonReader& json) {
  for (const auto& [key, value] : json.value().items())
    if (std::ranges::find(known_keys, key) == known_keys.end())
      json.fail(key, fmt::format("unknown key {}", in_quotes(key)));
}

void require_object(const JsonReader& json) {
  if (!json.value().is_object()) json.fail("expected an object");
}

void require_results(const JsonReader& json) {
  for (const char* time :
       {"makespan_s", "forward_s", "backward_s", "exposed_communication_s", "launch_bound_s", "lower_bound_s"})
    json.number(time, 0);
  if (json.number("makespan_s") <= 0) json.fail("makespan_s", "0, expected a time above 0");
  json.number("peak_bytes", 0);
  if (json.has("mfu")) json.number("mfu", 0);
  if (json.has("interval_low_s")) json.number("interval_high_s", json.number("interval_low_s", 0));
  json.enumeration("overlap", overlap_names);
  require_object(json.at("plan"));
  if (json.boolean("feasible") == json.has("missing_bytes"))
    json.fail("feasible", "expected missing_bytes if and only if this is false");
  if (json.has("missing_bytes")) json.number("missing_bytes", 0);
}

}  // namespace

SweepShape read_sweep_shape(const JsonReader& json) {
  if (!json.value().is_object() || json.value().value("kind", nlohmann::json()) != sweep_kind)
    json.fail("this is not a result of dovetail sweep");
  require_format(json, std::array{SavedFormat{sweep_kind, sweep_version}});
  SweepShape shape;
  for (const char* text : {"name", "backend", "version", "git_revision"}) json.string(text);
  for (const auto& [file, digest] : json.at("input_sha256").members()) digest.string();
  if (const auto notes = json.find("notes"))
    for (const JsonReader& note : notes->elements()) note.string();
  for (const JsonReader& system : json.at("systems").elements()) shape.systems.push_back(system.string());
  auto cells = static_cast<double>(shape.systems.size());
  for (const JsonReader& axis : json.at("axes").elements()) {
    axis.string("name");
    cells *= axis.integer("values", 1);
  }
  shape.cells = json.long_integer("cells", 1, most_cells);
  if (static_cast<double>(shape.cells) != cells)
    json.fail("cells", fmt::format("{}, expected {:.0f}, the product of systems and axes", shape.cells, cells));
  return shape;
}

CellLine read_cell_line(const JsonReader& json, const SweepShape& shape) {
  CellLine line;
  line.cell = json.long_integer("cell", 0, shape.cells - 1);
  require_known_keys(json);
  const std::string& system = shape.systems[static_cast<std::size_t>(line.cell) % shape.systems.size()];
  if (json.string("system") != system)
    json.fail("system", fmt::format("expected {}, the system of cell {}", in_quotes(system), line.cell));
  require_object(json.at("values"));
  if (!json.has("refused")) {
    require_results(json);
    return line;
  }
  line.refusal = json.string("refused");
  if (line.refusal.empty() || json.has("makespan_s"))
    json.fail("refused", "expected a reason, in a cell without results");
  return line;
}

}  // namespace dovetail::bench
