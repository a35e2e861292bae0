// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/mission_results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"
#include "models/files/data_path.hpp"
#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

namespace fs = std::filesystem;

constexpr auto missions_folder = "validation/gpu";

MissionStep read_part(const JsonReader& result) {
  MissionStep step;
  step.seconds = step.low = step.high = result.number("makespan_s", 0);
  if (const auto interval = result.find("ci95_s"); interval && !interval->value().is_null()) {
    const std::vector<JsonReader> ends = interval->elements();
    if (ends.size() != 2) interval->fail("expected both ends of an interval");
    step.low = ends[0].number();
    step.high = ends[1].number();
  }
  for (const JsonReader& op : result.at("critical_path").elements()) step.ops[op.string("op")] += op.number("time_s");
  step.overruns = result.at("run").integer("overruns");
  return step;
}

MissionResults read_results(const JsonReader& json, const std::string& file) {
  MissionResults results{{json.string("device"), json.string("revision"), file}, {}};
  constexpr std::string_view begin = "time-", end = ".json";
  for (const auto& [name, runs] : json.at("results").members()) {
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    for (const JsonReader& run : runs.elements())
      if (run.string("kind") == "measured")
        results.steps[name.substr(begin.size(), name.size() - begin.size() - end.size())] = read_part(run);
  }
  return results;
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;  // then there are none
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// A part of the mission under the name that a quantity gives it.
struct Named {
  std::string name;
  const MissionStep* step;
};

// The parts that a quantity asks for. `complete` says whether all were measured.
class Parts {
 public:
  explicit Parts(const MissionResults& results) : results_(results) {}

  const MissionStep& step(const JsonReader& part) {
    static const MissionStep none;
    const auto found = results_.steps.find(part.string());
    complete_ = complete_ && found != results_.steps.end();
    if (found == results_.steps.end()) return none;
    overruns_ += found->second.overruns;
    return found->second;
  }
  std::vector<Named> named(const JsonReader& object) {
    std::vector<Named> steps;
    for (const auto& [name, part] : object.members()) steps.push_back({name, &step(part)});
    if (steps.empty()) object.fail("no parts, expected at least one");
    return steps;
  }
  bool complete() const { return complete_; }
  int overruns() const { return overruns_; }

 private:
  const MissionResults& results_;
  bool complete_ = true;
  int overruns_ = 0;
};

double time_of(const MissionStep& step, const std::vector<std::string>& ops) {
  if (ops.empty()) return step.seconds;
  double time = 0;
  for (const std::string& op : ops)
    if (const auto found = step.ops.find(op); found != step.ops.end()) time += found->second;
  return time;
}

TableValue ratio(const JsonReader& row, Parts& parts) {
  std::vector<std::string> ops;
  if (const auto some = row.find("ops"))
    for (const JsonReader& each : some->elements()) ops.push_back(each.string());
  const std::vector<JsonReader> two = row.at("ratio").elements();
  const double over = time_of(parts.step(two.at(0)), ops), under = time_of(parts.step(two.at(1)), ops);
  if (parts.complete() && !(under > 0)) row.fail("ratio", "the second part has no such ops, expected a time above 0");
  return over / under;
}

bool faster(const MissionStep& a, const MissionStep& b) {
  return a.high < b.low;
}

std::vector<Named> sorted(std::vector<Named> steps) {
  std::ranges::stable_sort(steps, {}, [](const Named& each) { return each.step->seconds; });
  return steps;
}

// "b < a ~ c": c may be as fast as a.
TableValue order(const std::vector<Named>& ascending) {
  std::string text = ascending.front().name;
  for (std::size_t i = 1; i < ascending.size(); ++i)
    text += (faster(*ascending[i - 1].step, *ascending[i].step) ? " < " : " ~ ") + ascending[i].name;
  return text;
}

// The group all of whose parts are faster than all others.
TableValue fastest_group(const JsonReader& groups, Parts& parts) {
  std::vector<std::pair<std::string, std::vector<const MissionStep*>>> all;
  for (const auto& [name, list] : groups.members()) {
    all.push_back({name, {}});
    for (const JsonReader& part : list.elements()) all.back().second.push_back(&parts.step(part));
  }
  const auto beats = [](const auto& group, const auto& other) {
    return std::ranges::all_of(group.second, [&](const MissionStep* a) {
      return std::ranges::all_of(other.second, [&](const MissionStep* b) { return faster(*a, *b); });
    });
  };
  for (const auto& group : all)
    if (std::ranges::all_of(all, [&](const auto& other) { return &other == &group || beats(group, other); }))
      return group.first;
  return "neither";
}

// No two parts are in one order here and surely in the other there.
TableValue same_order(const JsonReader& orders, Parts& parts) {
  std::vector<std::vector<Named>> all;
  for (const JsonReader& each : orders.elements()) {
    all.push_back(parts.named(each));
    if (!std::ranges::equal(all.front(), all.back(), {}, &Named::name, &Named::name))
      each.fail("other names than in the first order, expected the same");
  }
  for (const auto& one : all)
    for (const auto& other : all)
      for (std::size_t i = 0; i < one.size(); ++i)
        for (std::size_t j = 0; j < one.size(); ++j)
          if (faster(*one[i].step, *one[j].step) && faster(*other[j].step, *other[i].step)) return "no";
  return "yes";
}

// The least size at which the fastest part has at least that number as its name.
TableValue first_size(const JsonReader& first, Parts& parts) {
  const int least = first.integer("at_least");
  std::optional<double> found;
  for (const JsonReader& each : first.at("of").elements()) {
    const std::string best = sorted(parts.named(each.at("parts"))).front().name;
    const double size = each.number("at");
    if (std::stoi(best) >= least) found = std::min(found.value_or(size), size);
  }
  return found ? TableValue(*found) : TableValue("never");
}

TableValue quantity(const JsonReader& row, Parts& parts) {
  if (row.has("ratio")) return ratio(row, parts);
  if (const auto order_of = row.find("order")) return order(sorted(parts.named(*order_of)));
  if (const auto groups = row.find("fastest")) return fastest_group(*groups, parts);
  if (const auto orders = row.find("same_order")) return same_order(*orders, parts);
  if (const auto first = row.find("first")) return first_size(*first, parts);
  row.fail("no quantity, expected ratio, order, fastest, same_order or first");
}

}  // namespace

std::vector<MissionResults> read_mission_results(int mission, FilesRead& files) {
  std::vector<MissionResults> all;
  for (const std::string& device : folders_in(data_directory() / missions_folder)) {
    const InputKind kind{"result of a mission", fmt::format("{}/{}", missions_folder, device)};
    for (const std::string& name : known_names(kind.folder)) {
      if (!name.starts_with(fmt::format("{}-", mission))) continue;
      const JsonFile file = read_input(kind, name, files);
      all.push_back(read_results(JsonReader(file), fmt::format("data/{}/{}.json", kind.folder, name)));
    }
  }
  return all;
}

std::optional<MeasuredValue> measured_value(const JsonReader& row, const MissionResults& results) {
  Parts parts(results);
  MeasuredValue measured{quantity(row, parts), row.string("what"), parts.overruns(), results.by};
  if (!parts.complete()) return std::nullopt;
  return measured;
}

void settle(const JsonReader& settled_by, ReproducedTable& table, FilesRead& files) {
  const int mission = settled_by.integer("mission", 1);
  const std::vector<MissionResults> all = read_mission_results(mission, files);
  table.settled_by = SettledBy{mission, 0, {}};
  for (const MissionResults& results : all) table.settled_by->results.push_back({results.by, 0});
  for (const JsonReader& row : settled_by.at("rows").elements()) {
    const auto value = std::ranges::find(table.values, row.string("value"), &ReproducedValue::name);
    if (value == table.values.end())
      row.fail("value", fmt::format("{}, expected the name of a value of this table", in_quotes(row.string("value"))));
    ++table.settled_by->rows;
    value->settled = true;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (std::optional<MeasuredValue> measured = measured_value(row, all[i])) {
        value->measured.push_back(*std::move(measured));
        ++table.settled_by->results[i].rows;
      }
  }
}

}  // namespace dovetail::bench
