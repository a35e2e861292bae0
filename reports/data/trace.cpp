// SPDX-License-Identifier: Apache-2.0
#include "reports/data/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

long long nanoseconds(Seconds time) {
  constexpr Seconds longest(9e9);  // 285 years: an integer holds little more
  if (!(time <= longest))
    throw InputError(
        fmt::format("--trace: an operation at {:.3g} s, expected at most {:.3g} s: traces count nanoseconds",
                    time.value(), longest.value()));
  return std::llround(time.value() * 1e9);
}

// The format counts in microseconds; thousandths of them keep the nanosecond.
double microseconds(long long ns) {
  return static_cast<double>(ns) / 1e3;
}

class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) { out_ << R"({"displayTimeUnit":"ms","traceEvents":[)"; }

  void write(const Json& event) {
    out_ << (first_ ? "\n" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }
  void finish() { out_ << "\n]}\n"; }

 private:
  std::ostream& out_;
  bool first_ = true;
};

Json metadata(const char* what, int process, int thread, Json arguments) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(arguments)}};
}

// A process for each rank class; `first` is that of class 0.
void write_names(Writer& writer, const SystemResult& result, int first) {
  const auto kind = name_in(result_kind_names, result.timeline.kind);
  const Schedule& schedule = *result.schedule;
  for (std::size_t c = 0; c < schedule.classes.size(); ++c) {
    const int process = first + static_cast<int>(c);
    std::string name = fmt::format("{} ({}, {})", result.system, kind, result.backend);
    if (schedule.classes.size() > 1) name += fmt::format(", class {}", c);
    writer.write(metadata("process_name", process, 0, {{"name", name}}));
    writer.write(metadata("process_sort_index", process, 0, {{"sort_index", process}}));
  }
  for (const StreamId s : schedule.streams.ids()) {
    const int process = first + schedule.streams[s].rank_class;
    const auto stream = name_in(stream_kind_names, schedule.streams[s].kind);
    writer.write(metadata("thread_name", process, static_cast<int>(s), {{"name", stream}}));
    writer.write(metadata("thread_sort_index", process, static_cast<int>(s), {{"sort_index", s}}));
  }
}

Json arguments(const SystemResult& result, OpId id) {
  const Op& op = result.schedule->ops[id];
  Json args = {{"op", id}, {"layer", op.layer}};
  if (result.schedule->micro_batches > 1) args["micro_batch"] = op.micro_batch;
  if (op.chunk >= 0) args["chunk"] = op.chunk;
  if (op.rows.size() > 0) args["rows"] = {op.rows.first, op.rows.last};
  if (op.gradients.size() > 0) args["gradients"] = {op.gradients.first, op.gradients.last};
  if (op.flops().value() > 0) args["flops"] = op.flops().value();
  if (op.memory_traffic().value() > 0) args["memory_traffic_bytes"] = op.memory_traffic().value();
  if (op.collective() != Collective::None) {
    args["collective"] = name_in(collective_names, op.collective());
    args["group"] = name_in(group_kind_names, op.group());
    args["message_bytes"] = op.message().value();
  }
  if (!result.timeline.emulated.empty()) args["emulated"] = static_cast<bool>(result.timeline.emulated[id]);
  return args;
}

Json op_event(const SystemResult& result, OpId id, int first) {
  const Op& op = result.schedule->ops[id];
  const Interval& interval = result.timeline.ops[id];
  const long long start = nanoseconds(interval.start), finish = nanoseconds(interval.finish);
  return {{"name", to_string(op)},
          {"cat", fmt::format("{},{}", name_in(phase_names, op.pass()), name_in(op_kind_names, op.kind))},
          {"ph", "X"},
          {"pid", first + result.schedule->class_of(op)},
          {"tid", op.stream},
          {"ts", microseconds(start)},
          {"dur", microseconds(finish - start)},
          {"args", arguments(result, id)}};
}

// An arrow binds to the slices that enclose its two ends: it leaves inside the first op and arrives at the
// start of the second.
void write_arrows(Writer& writer, const SystemResult& result, OpId id, int first, long& arrow) {
  const Schedule& schedule = *result.schedule;
  const Op& op = schedule.ops[id];
  for (OpId before : schedule.dependencies_of(op)) {
    const Op& source = schedule.ops[before];
    if (source.stream == op.stream) continue;
    const Interval& from = result.timeline.ops[before];
    const long long leave = std::max(nanoseconds(from.start), nanoseconds(from.finish) - 1);
    const Json common = {{"name", "needs"}, {"cat", "dependency"}, {"id", ++arrow}};
    Json start = common, end = common;
    start.update(
        {{"pid", first + schedule.class_of(source)}, {"ph", "s"}, {"tid", source.stream}, {"ts", microseconds(leave)}});
    end.update({{"pid", first + schedule.class_of(op)},
                {"ph", "f"},
                {"bp", "e"},
                {"tid", op.stream},
                {"ts", microseconds(nanoseconds(result.timeline.ops[id].start))}});
    writer.write(start);
    writer.write(end);
  }
}

}  // namespace

void write_trace(std::ostream& out, const Report& report) {
  Writer writer(out);
  int process = 1;
  long arrow = 0;
  for (const SystemResult& result : report.results) {
    if (result.schedule == nullptr) continue;
    write_names(writer, result, process);
    for (const OpId id : result.schedule->ops.ids()) {
      writer.write(op_event(result, id, process));
      write_arrows(writer, result, id, process, arrow);
    }
    process += static_cast<int>(result.schedule->classes.size());
  }
  writer.finish();
}

}  // namespace dovetail::reports
