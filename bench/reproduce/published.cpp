// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/reproduce/mission_results.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

const InputKind published_input{"published", "published"};

TableValue read_value(const JsonReader& json) {
  if (json.value().is_string()) return json.string();
  return json.number();
}

// The usual measure of a number with this unit.
Measure usual_measure(const ReproducedValue& value) {
  if (value.published && std::holds_alternative<std::string>(*value.published)) return Measure::Choice;
  if (value.unit == "%") return Measure::Gain;
  return value.unit.empty() || value.unit == "x" ? Measure::Speedup : Measure::Amount;
}

// The names of constants at `key`, each of which the table lists there too.
template <class Constant>
std::vector<std::string> read_constants(const JsonReader& value, const char* key, const std::vector<Constant>& known) {
  std::vector<std::string> names;
  for (const JsonReader& each : value.at(key).elements()) {
    names.push_back(each.string());
    if (std::ranges::find(known, names.back(), &Constant::name) == known.end())
      each.fail(fmt::format("{}, expected the name of a constant in /{}", in_quotes(names.back()), key));
  }
  return names;
}

// A value rests on the shared constants of its table, unless it names those that it rests on.
void read_basis(const JsonReader& json, const ReproducedTable& table, ReproducedValue& row) {
  if (!row.published) return;
  if (json.has("basis")) {
    row.basis = json.enumeration("basis", basis_names);
    return;
  }
  if (json.has("fitted")) row.constants = read_constants(json, "fitted", table.fitted);
  row.basis = Basis::Fitted;
  if (!row.constants.empty()) return;
  if (json.has("shared"))
    row.constants = read_constants(json, "shared", table.shared);
  else
    std::ranges::transform(table.shared, std::back_inserter(row.constants), &SharedConstant::name);
  row.basis = row.constants.empty() ? Basis::Predicted : Basis::Shares;
}

ReproducedValue read_row(const JsonReader& json, const ReproducedTable& table) {
  ReproducedValue row;
  row.name = json.string("name");
  row.unit = json.string_or("unit", "");
  if (const auto published = json.find("published")) row.published = read_value(*published);
  row.measure = json.enumeration_or("measure", measure_names, usual_measure(row));
  read_basis(json, table, row);
  row.note = json.string_or("note", "");
  return row;
}

ReproducedTable read_table(const JsonReader& json) {
  ReproducedTable table;
  table.id = json.string("id");
  table.title = json.string("title");
  table.source = json.string("source");
  table.apart = json.boolean_or("apart", false);
  if (const auto fitted = json.find("fitted"))
    for (const JsonReader& each : fitted->elements())
      table.fitted.push_back({each.string("name"), each.string("value"), each.string("file")});
  if (const auto shared = json.find("shared"))
    for (const JsonReader& each : shared->elements())
      table.shared.push_back({each.string("name"), each.string("value"), each.string("from"), each.string("file"),
                              each.string("instead")});
  if (const auto unanswered = json.find("unanswered"))
    for (const JsonReader& each : unanswered->elements())
      table.unanswered.push_back({each.string("what"), each.string("why")});
  for (const JsonReader& each : json.at("values").elements()) {
    ReproducedValue row = read_row(each, table);
    if (std::ranges::find(table.values, row.name, &ReproducedValue::name) != table.values.end())
      each.fail("name", fmt::format("{} twice, expected once", in_quotes(row.name)));
    table.values.push_back(std::move(row));
  }
  if (const auto notes = json.find("notes"))
    for (const JsonReader& each : notes->elements()) table.notes.push_back(each.string());
  return table;
}

// Puts the options into every experiment below, which is what names a cluster.
void set_in_experiments(nlohmann::json& settings, const nlohmann::json& options) {
  if (settings.is_object() && settings.contains("cluster")) settings.update(options);
  if (settings.is_structured())
    for (auto& [key, part] : settings.items()) set_in_experiments(part, options);
}

}  // namespace

PublishedTable::PublishedTable(const std::string& id, FilesRead& files)
    : file_(open_input(published_input, id, {}, files)), table_(read_table(JsonReader(file_))) {
  if (const auto settled_by = JsonReader(file_).find("settled_by")) settle(*settled_by, table_, files);
}

JsonFile PublishedTable::settings_without(const std::string& constant) const {
  nlohmann::json settings = this->settings().value();
  for (const JsonReader& each : JsonReader(file_).at("shared").elements())
    if (each.string("name") == constant) set_in_experiments(settings, each.at("without").value());
  return JsonFile::wrap(std::move(settings), fmt::format("{} without {}", table_.id, constant));
}

}  // namespace dovetail::bench
