// SPDX-License-Identifier: Apache-2.0
#include "reports/page/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "models/schedule/op_table.hpp"
#include "reports/data/json_report.hpp"
#include "reports/page/page_text.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/format.hpp"
#include "reports/text/summary.hpp"
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

// One array per property instead of one object per op: a tenth of the bytes.
Json columns_json(const SystemResult& result) {
  std::vector<int> kind, phase, stream, layer, micro_batch, chunk, collective, emulated;
  std::vector<long long> start, finish;
  std::vector<double> flops, message, traffic;
  for (const OpId i : result.schedule->ops.ids()) {
    const Op& op = result.schedule->ops[i];
    kind.push_back(index_of(op.kind));
    phase.push_back(index_of(op.pass()));
    stream.push_back(op.stream);
    layer.push_back(op.layer);
    micro_batch.push_back(op.micro_batch);
    chunk.push_back(op.chunk);
    collective.push_back(index_of(op.collective()));
    start.push_back(nanoseconds(result.timeline.ops[i].start));
    finish.push_back(nanoseconds(result.timeline.ops[i].finish));
    flops.push_back(op.flops().value());
    message.push_back(op.message().value());
    traffic.push_back(op.memory_traffic().value());
    if (!result.timeline.emulated.empty()) emulated.push_back(result.timeline.emulated[i] ? 1 : 0);
  }
  const bool parts = result.schedule->micro_batches > 1;
  return {{"kind", kind},
          {"phase", phase},
          {"stream", stream},
          {"layer", layer},
          {"micro_batch", parts ? Json(micro_batch) : Json(nullptr)},
          {"chunk", chunk},
          {"collective", collective},
          {"start", start},
          {"finish", finish},
          {"flops", flops},
          {"message", message},
          {"traffic", traffic},
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

Json timeline_json(const SystemResult& result, std::size_t index, bool tagged) {
  const auto kind = name_in(result_kind_names, result.timeline.kind);
  const Interval window = representative_window(*result.schedule, result.timeline);
  Json json = {{"result", index},
               {"name", tagged ? fmt::format("{} ({})", result.system, kind) : result.system},
               {"result_kind", kind},
               {"length_s", result.metrics.makespan.value()},
               {"window", {nanoseconds(window.start), nanoseconds(window.finish)}},
               {"streams", streams_json(result)},
               {"kinds", names_json(op_kind_names)},
               {"colours", colours_json()},
               {"in_layers", in_layers_json()},
               {"phases", names_json(phase_names)},
               {"collectives", names_json(collective_names)}};
  json.update(columns_json(result));
  return json;
}

Json sections_json(const Report& report) {
  Json list = Json::array();
  for (const Section& section : sections()) {
    SectionTable table = section.table(report);
    if (!table.rows.empty())
      list.push_back({{"title", section.title},
                      {"hint", section.hint},
                      {"headings", std::move(table.headings)},
                      {"rows", std::move(table.rows)}});
  }
  return list;
}

Json page_json(const Report& report) {
  const auto& results = report.results;
  const bool tagged = std::any_of(results.begin(), results.end(), [&](const SystemResult& result) {
    return result.timeline.kind != results.front().timeline.kind;
  });
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  Json timelines = Json::array(), fastest_index, tied_indices = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (&results[i] == fastest(report)) fastest_index = i;
    if (std::ranges::find(tied, &results[i]) != tied.end()) tied_indices.push_back(i);
    if (results[i].schedule != nullptr) timelines.push_back(timeline_json(results[i], i, tagged));
  }
  return {{"report", to_json(report)},           {"question", experiment_lines(report.experiment)},
          {"fastest", std::move(fastest_index)}, {"tied", std::move(tied_indices)},
          {"timelines", std::move(timelines)},   {"sections", sections_json(report)}};
}

}  // namespace

void write_html(std::ostream& out, const Report& report) {
  const std::string title =
      escaped(fmt::format("Dovetail: {} on {}", report.experiment.model.name, report.experiment.cluster.name));
  std::string_view rest = page_text;
  // Inserted text is not searched again: a name may look like a place in the template.
  for (std::size_t at = 0; (at = rest.find('@')) != std::string_view::npos;) {
    const std::size_t end = rest.find('@', at + 1);
    const std::string_view place = rest.substr(at + 1, end - at - 1);
    out << rest.substr(0, at);
    if (place == "title") out << title;
    if (place == "css") out << style_text;
    if (place == "data") out << embeddable(page_json(report));
    if (place == "script") out << script_text;
    rest.remove_prefix(end + 1);
  }
  out << rest;
}

}  // namespace dovetail::reports
