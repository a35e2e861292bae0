// SPDX-License-Identifier: Apache-2.0
#include "reports/page/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "models/schedule/op_table.hpp"
#include "reports/answer/headline.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/page/curve_plot.hpp"
#include "reports/page/drawn_ops.hpp"
#include "reports/page/page_text.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/format.hpp"
#include "reports/text/window.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

// JSON inside a script element: no '<', so that no name in it can end the element or open a comment.
std::string embeddable(const Json& json) {
  return replaced(json.dump(-1, ' ', true, Json::error_handler_t::replace), "<", "\\u003c");
}

long long nanoseconds(Seconds time) {
  return std::llround(time.value() * 1e9);
}

template <class Table>
Json names_json(const Table& table) {
  Json names = Json::array();
  for (const auto& [name, value] : table) names.push_back(name);
  return names;
}

template <class Enum>
int index_of(Enum value) {
  return static_cast<int>(value);
}

// The work of ops, of which few are different in a long step.
class OpWorks {
 public:
  int index_of_work(const Op& op) {
    const Key key{static_cast<double>(op.layer),
                  static_cast<double>(op.chunk),
                  static_cast<double>(index_of(op.kind)),
                  static_cast<double>(index_of(op.pass())),
                  static_cast<double>(index_of(op.collective())),
                  op.flops().value(),
                  op.message().value(),
                  op.memory_traffic().value()};
    return indices_.try_emplace(key, static_cast<int>(indices_.size())).first->second;
  }

  // An array for each property.
  Json json() const {
    std::vector<Key> keys(indices_.size());
    for (const auto& [key, index] : indices_) keys[static_cast<std::size_t>(index)] = key;
    Json columns;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Json& column = columns[names[i]] = Json::array();
      for (const Key& key : keys) i < whole ? column.push_back(static_cast<int>(key[i])) : column.push_back(key[i]);
    }
    return columns;
  }

 private:
  static constexpr std::array names{"layer", "chunk", "kind", "phase", "collective", "flops", "message", "traffic"};
  static constexpr std::size_t whole = 5;  // of them are whole numbers
  using Key = std::array<double, names.size()>;
  std::map<Key, int> indices_;
};

// One array per property instead of one object per op, and times from the end of the stream's op before: a twentieth of
// the bytes.
Json columns_json(const SystemResult& result, const std::vector<OpId>& ops) {
  const Schedule& schedule = *result.schedule;
  OpWorks works;
  std::vector<int> work, stream, micro_batch, emulated;
  std::vector<long long> start, length;
  IdVector<StreamId, long long> ended(schedule.streams.size());
  for (const OpId i : ops) {
    const Op& op = schedule.ops[i];
    const long long begin = nanoseconds(result.timeline.ops[i].start), end = nanoseconds(result.timeline.ops[i].finish);
    work.push_back(works.index_of_work(op));
    stream.push_back(op.stream);
    micro_batch.push_back(op.micro_batch);
    start.push_back(begin - ended[op.stream]);
    length.push_back(end - begin);
    ended[op.stream] = end;
    if (!result.timeline.emulated.empty()) emulated.push_back(result.timeline.emulated[i] ? 1 : 0);
  }
  const bool parts = schedule.micro_batches > 1;
  return {{"works", works.json()},
          {"work", work},
          {"stream", stream},
          {"micro_batch", parts ? Json(micro_batch) : Json(nullptr)},
          {"start", start},
          {"length", length},
          {"emulated", emulated.empty() ? Json(nullptr) : Json(emulated)}};
}

// In the order of `kinds`.
Json colours_json() {
  Json list = Json::array();
  for (const auto& [name, kind] : op_kind_names) list.push_back(entry_of(kind).colour);
  return list;
}

// For each kind: do its ops belong to a layer?
Json in_layers_json() {
  Json list = Json::array();
  for (const auto& [name, kind] : op_kind_names) list.push_back(entry_of(kind).part != OpPart::StepEnd);
  return list;
}

Json streams_json(const SystemResult& result) {
  Json list = Json::array();
  const Schedule& schedule = *result.schedule;
  for (const StreamId s : schedule.streams.ids()) {
    std::string name(name_in(stream_kind_names, schedule.streams[s].kind));
    if (schedule.classes.size() > 1) name += fmt::format(", class {}", schedule.streams[s].rank_class);
    const double busy = s < result.metrics.streams.size() ? result.metrics.streams[s].busy.value() : 0;
    list.push_back({{"name", name}, {"busy_s", busy}});
  }
  return list;
}

// Plans on layouts go by these; other results by their systems.
std::vector<std::string> names_of(const Report& report) {
  std::vector<std::string> names;
  for (const SystemResult& result : report.results) {
    const Parallelism& p = result.groups;
    names.push_back(report.tuning ? fmt::format("{}: pp {}, mp {}, ep {}, micro-batch {}", names.size() + 1, p.pp, p.mp,
                                                p.ep, result.micro_batch)
                                  : result.system);
  }
  return names;
}

Json timeline_json(const SystemResult& result, std::size_t index, const std::string& name, const DrawnOps& drawn) {
  const auto kind = name_in(result_kind_names, result.timeline.kind);
  const Interval window = representative_window(*result.schedule, result.timeline);
  Json json = {{"result", index},
               {"name", name},
               {"result_kind", kind},
               {"length_s", result.metrics.makespan.value()},
               {"window", {nanoseconds(window.start), nanoseconds(window.finish)}},
               {"note", drawn_text(drawn, *result.schedule)},
               {"streams", streams_json(result)},
               {"kinds", names_json(op_kind_names)},
               {"colours", colours_json()},
               {"in_layers", in_layers_json()},
               {"phases", names_json(phase_names)},
               {"collectives", names_json(collective_names)}};
  json.update(columns_json(result, drawn.ops));
  return json;
}

// Each may have an equal part of the operations that those before it leave.
Json timelines_json(const Report& report) {
  const std::vector<SystemResult>& results = report.results;
  const std::vector<std::string> names = names_of(report);
  constexpr std::size_t most = 250'000;  // of about 30 bytes each; by choice
  const auto has_one = [](const SystemResult& result) { return result.schedule != nullptr; };
  auto to_come = static_cast<std::size_t>(std::ranges::count_if(results, has_one)), left = most;
  Json list = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!has_one(results[i])) continue;
    const DrawnOps drawn = drawn_ops(*results[i].schedule, left / std::max(to_come--, std::size_t{1}));
    left -= std::min(left, drawn.ops.size());
    const bool tagged = compared(report) < static_cast<std::ptrdiff_t>(results.size());
    const auto kind = name_in(result_kind_names, results[i].timeline.kind);
    list.push_back(timeline_json(results[i], i, tagged ? fmt::format("{} ({})", names[i], kind) : names[i], drawn));
  }
  return list;
}

const char* name_of(Mark mark) {
  constexpr std::array names{"", "best", "good", "bad", "quiet"};
  return names[static_cast<std::size_t>(mark)];
}

Json lines_json(const std::vector<SectionLine>& lines) {
  Json list = Json::array();
  for (const SectionLine& line : lines) list.push_back({{"text", line.text}, {"mark", name_of(line.mark)}});
  return list;
}

Json content_json(const Section& section, const SectionContent& content) {
  Json rows = Json::array();
  for (const SectionRow& row : content.rows)
    rows.push_back({{"cells", row.cells}, {"mark", name_of(row.mark)}, {"remarks", lines_json(row.remarks)}});
  return {{"title", content.title.empty() ? section.title : content.title},
          {"hint", section.hint},
          {"headings", content.headings},
          {"rows", std::move(rows)},
          {"lines", lines_json(content.lines)},
          {"code", content.code}};
}

Json sections_json(const Report& report) {
  Json list = Json::array();
  for (const Section& section : sections())
    if (const SectionContent content = section.content(report, Detail::Page); !content.empty())
      list.push_back(content_json(section, content));
  return list;
}

Json page_json(const Report& report) {
  const auto& results = report.results;
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  Json fastest_index, tied_indices = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (&results[i] == fastest(report)) fastest_index = i;
    if (std::ranges::find(tied, &results[i]) != tied.end()) tied_indices.push_back(i);
  }
  return {{"report", to_json(report)},        {"command", report.kind},
          {"headline", headline(report)},     {"question", question_lines(report)},
          {"names", names_of(report)},        {"fastest", std::move(fastest_index)},
          {"tied", std::move(tied_indices)},  {"timelines", timelines_json(report)},
          {"sections", sections_json(report)}};
}

std::string title_of(const Report& report) {
  if (report.curve) return fmt::format("Dovetail: {} on several clusters", report.curve->model);
  return fmt::format("Dovetail: {} on {}", report.experiment.model.name, report.experiment.cluster.name);
}

}  // namespace

void write_html(std::ostream& out, const Report& report) {
  const std::string title = escaped(title_of(report));
  std::string_view rest = page_text;
  // Inserted text is not searched again: a name may look like a place in the template.
  for (std::size_t at = 0; (at = rest.find('@')) != std::string_view::npos;) {
    const std::size_t end = rest.find('@', at + 1);
    const std::string_view place = rest.substr(at + 1, end - at - 1);
    out << rest.substr(0, at);
    if (place == "title") out << title;
    if (place == "css") out << style_text;
    if (place == "figures" && report.curve) out << curve_figures(*report.curve);
    if (place == "data") out << embeddable(page_json(report));
    if (place == "script") out << script_text;
    rest.remove_prefix(end + 1);
  }
  out << rest;
}

}  // namespace dovetail::reports
