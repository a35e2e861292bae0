// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"
#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

const InputKind published_input{"published", "published"};

Target read_target(const JsonReader& json) {
  if (json.value().is_string()) return {json.enumeration(target_kind_names), 0};
  const auto [kind, bound] = json.members().front();
  for (const auto& [name, target] : target_kind_names)
    if (name == kind) return {target, bound.number()};
  json.fail(fmt::format("unknown target {}", in_quotes(kind)));
}

TableValue read_value(const JsonReader& json) {
  if (json.value().is_string()) return json.string();
  return json.number();
}

ReproducedValue read_row(const JsonReader& json, const Target& usual, const std::vector<FittedConstant>& fitted) {
  ReproducedValue row;
  row.name = json.string("name");
  row.unit = json.string_or("unit", "");
  if (const auto published = json.find("published")) row.published = read_value(*published);
  const auto target = json.find("target");
  row.target = target ? read_target(*target) : usual;
  if (const auto names = json.find("fitted"))
    for (const JsonReader& each : names->elements()) {
      row.fitted.push_back(each.string());
      if (std::ranges::find(fitted, row.fitted.back(), &FittedConstant::name) == fitted.end())
        each.fail(fmt::format("{}, expected the name of a constant in /fitted", in_quotes(row.fitted.back())));
    }
  if (const auto given = json.find("given")) row.given = given->boolean();
  row.note = json.string_or("note", "");
  return row;
}

ReproducedTable read_table(const JsonReader& json) {
  ReproducedTable table;
  table.id = json.string("id");
  table.title = json.string("title");
  table.source = json.string("source");
  if (const auto fitted = json.find("fitted"))
    for (const JsonReader& each : fitted->elements())
      table.fitted.push_back({each.string("name"), each.string("value"), each.string("file")});
  if (const auto shared = json.find("shared"))
    for (const JsonReader& each : shared->elements())
      table.shared.push_back({each.string("name"), each.string("value"), each.string("from"), each.string("file")});
  if (const auto unanswered = json.find("unanswered"))
    for (const JsonReader& each : unanswered->elements())
      table.unanswered.push_back({each.string("what"), each.string("why")});
  const auto target = json.find("target");
  const Target usual = target ? read_target(*target) : Target{};
  for (const JsonReader& each : json.at("values").elements()) {
    ReproducedValue row = read_row(each, usual, table.fitted);
    if (std::ranges::find(table.values, row.name, &ReproducedValue::name) != table.values.end())
      each.fail("name", fmt::format("{} twice, expected once", in_quotes(row.name)));
    table.values.push_back(std::move(row));
  }
  if (const auto notes = json.find("notes"))
    for (const JsonReader& each : notes->elements()) table.notes.push_back(each.string());
  return table;
}

}  // namespace

PublishedTable::PublishedTable(const std::string& id, FilesRead& files)
    : file_(open_input(published_input, id, {}, files)), table_(read_table(JsonReader(file_))) {}

}  // namespace dovetail::bench
