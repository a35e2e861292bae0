// SPDX-License-Identifier: Apache-2.0
#include "models/files/load_trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "models/files/csv.hpp"
#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

TraceStep read_step(const JsonReader& json) {
  TraceStep step;
  if (json.members().empty()) json.fail("an empty step, expected a capacity factor, a size or loads");
  if (json.has("batch")) step.batch = json.integer("batch", 1);
  if (json.has("sequence")) step.sequence = json.integer("sequence", 1);
  if (json.has("top_k")) step.top_k = json.integer("top_k", 1);
  if (json.has("capacity_factor")) step.capacity_factor = json.number("capacity_factor");
  if (json.has("layers")) step.layers = read_load_tables(json.at("layers"));
  return step;
}

// --- CSV ---

using Fields = std::array<std::int64_t, 5>;
constexpr std::array<std::string_view, 2> headers{"step,layer,rank,expert,tokens", "step,layer,rank,peer,bytes"};
constexpr std::int64_t most_cells = 100'000'000;
constexpr double most_tables_rows = 1e7;  // of all steps and layers: each costs memory of its own

Fields read_fields(const CsvTable::Row& row) {
  Fields fields{};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    fields[i] = row.whole(i, 0);
    if (i + 1 < fields.size() && fields[i] >= most_cells)
      row.fail(i, fmt::format("{}, expected an index below {}", fields[i], most_cells));
  }
  return fields;
}

struct Row {
  Fields fields;
  Location place;
};

// A jump from step 3 to step 65,536 would be that many steps without a token.
void require_every_step(std::vector<Row> rows) {
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.fields[0]; });
  std::int64_t next = 0;
  for (const Row& row : rows) {
    if (row.fields[0] > next)
      throw InputError(row.place, fmt::format("step {}, but step {} has no row", row.fields[0], next));
    next = row.fields[0] + 1;
  }
}

std::vector<TraceStep> read_csv(const std::string& file, FilesRead& files) {
  const CsvTable table(file, files);
  if (std::ranges::find(headers, fmt::format("{}", fmt::join(table.names(), ","))) == headers.end())
    throw InputError(Location{file, 1, 1, ""}, fmt::format("expected the header {} or {}", headers[0], headers[1]));
  std::vector<Row> rows;
  Fields size{};
  for (const CsvTable::Row& each : table.rows()) {
    rows.push_back({read_fields(each), each.place(0)});
    double cells = 1;
    for (std::size_t f = 0; f < 4; ++f) {
      size[f] = std::max(size[f], rows.back().fields[f] + 1);
      cells *= static_cast<double>(size[f]);
    }
    if (cells / static_cast<double>(size[3]) > most_tables_rows)
      each.fail(0, fmt::format("the steps, layers and ranks so far are {:.3g} rows of tables, expected at most {:.3g}",
                               cells / static_cast<double>(size[3]), most_tables_rows));
    if (cells > most_cells)
      each.fail(0, fmt::format("the indices so far span {:.3g} cells, expected at most {}", cells, most_cells));
  }
  require_every_step(rows);
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  const LoadTable empty(at(size[2]), std::vector<double>(at(size[3])));
  std::vector<TraceStep> steps(at(size[0]), TraceStep{{}, {}, {}, {}, std::vector<LoadTable>(at(size[1]), empty)});
  for (const Row& row : rows) {
    const auto& [step, layer, rank, column, amount] = row.fields;
    steps[at(step)].layers[at(layer)][at(rank)][at(column)] += static_cast<double>(amount);
  }
  return steps;
}

}  // namespace

void read_routing_layers(const JsonReader& workload, RoutingModel& routing) {
  const auto json = workload.find("routing");
  if (!json || routing.kind != RoutingKind::Trace) return;
  if (const auto layers = json->find("layers"))
    routing.layers = read_load_tables(*layers);
  else if (routing.trace.empty())
    json->fail("a trace without file, expected \"trace\" (a name or path) or \"layers\"");
}

std::vector<LoadTable> read_load_tables(const JsonReader& json) {
  std::vector<LoadTable> tables;
  for (const JsonReader& table : json.elements()) {
    tables.emplace_back();
    for (const JsonReader& row : table.elements()) {
      std::vector<double> counts;
      for (const JsonReader& count : row.elements()) counts.push_back(count.number(0));
      if (counts.empty() || (!tables.back().empty() && counts.size() != tables.back().front().size()))
        row.fail(fmt::format("{} counts, expected {}", counts.size(),
                             counts.empty() ? "at least one" : std::to_string(tables.back().front().size())));
      tables.back().push_back(std::move(counts));
    }
    if (tables.back().empty()) table.fail("no ranks, expected at least one");
  }
  if (tables.empty()) json.fail("no layers, expected at least one");
  return tables;
}

std::vector<TraceStep> load_trace(const std::string& name, FilesRead& files) {
  if (name.ends_with(".csv")) return read_csv(name, files);
  const JsonFile file = open_input(trace_input, name, {}, files);
  std::vector<TraceStep> steps;
  for (const JsonReader& step : JsonReader(file).at("steps").elements()) steps.push_back(read_step(step));
  return steps;
}

std::vector<LoadTable> spread_over_experts(const std::vector<LoadTable>& layers, int experts) {
  std::vector<LoadTable> spread = layers;
  for (LoadTable& table : spread)
    for (std::vector<double>& row : table) {
      const std::vector<double> columns = row;
      const auto all = static_cast<std::size_t>(experts);
      if (columns.size() > all || all % columns.size() != 0)
        throw InputError(fmt::format("{} columns, which do not divide the {} experts", columns.size(), experts));
      row.assign(all, 0);
      const std::size_t width = all / columns.size();
      for (std::size_t i = 0; i < all; ++i) row[i] = columns[i / width] / static_cast<double>(width);
    }
  return spread;
}

}  // namespace dovetail
