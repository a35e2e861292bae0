// SPDX-License-Identifier: Apache-2.0
#include "models/files/read_schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schedule_match.hpp"
#include "models/network/routed_rows.hpp"
#include "models/price/contention.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/operand_check.hpp"

namespace dovetail {
namespace {

JsonReader open(const JsonFile& file, std::string_view kind, int readable) {
  const JsonReader root(file);
  if (root.string("kind") != kind) root.fail("kind", fmt::format("expected \"{}\"", kind));
  if (const int version = root.integer("version"); version != readable)
    root.fail("version",
              fmt::format("{}, but this program reads version {}: have the file written again", version, readable));
  return root;
}

// JSON has no NaN: what was not a number is null.
double number_or_nan(const JsonReader& r) {
  return r.value().is_null() ? std::numeric_limits<double>::quiet_NaN() : r.number(0);
}

TrainingReport read_training(const JsonReader& r) {
  TrainingReport training;
  for (const JsonReader& loss : r.at("losses").elements()) training.losses.push_back(number_or_nan(loss));
  for (const JsonReader& loss : r.at("reference_losses").elements())
    training.reference_losses.push_back(number_or_nan(loss));
  if (training.losses.empty()) r.fail("losses", "expected the loss of each step");
  if (!training.reference_losses.empty() && training.reference_losses.size() != training.losses.size())
    r.fail("reference_losses", "expected as many as losses, or none");
  training.loss_error = number_or_nan(r.at("loss_error"));
  training.weight_error = number_or_nan(r.at("weight_error"));
  if (r.has("tolerance")) training.tolerance = r.number("tolerance", 0);
  training.ok = r.boolean("ok");
  return training;
}

RunReport read_run(const JsonReader& r) {
  const auto error = [&](std::string_view key) { return number_or_nan(r.at(key)); };
  RunReport run;
  run.device = r.string("device");
  run.transport = r.string("transport");
  run.ranks = r.integer("ranks", 1);
  run.dilation = r.number("dilation", 0);
  run.emulated_share = r.number("emulated_share", 0, 1 + 1e-9);
  run.overruns = r.long_integer("overruns");
  run.valid = r.boolean("valid");
  for (const JsonReader& sample : r.at("samples_s").elements()) run.samples.emplace_back(sample.number(0));
  run.ci95_low = Seconds(r.number("ci95_low_s", 0));
  run.ci95_high = Seconds(r.number("ci95_high_s", 0));
  run.stopped_by = r.string("stopped_by");
  if (r.has("allocated_bytes")) run.allocated_bytes = r.long_integer("allocated_bytes");
  run.dropped = r.long_integer("dropped");
  run.output_error = error("output_error");
  run.gradient_error = error("gradient_error");
  run.numerics_ok = r.boolean("numerics_ok");
  run.numerics_checked = r.boolean_or("numerics_checked", true);
  run.clock = {r.number_or("clock_mhz", 0, 0), r.number_or("power_w", 0, 0)};
  if (r.has("training")) run.training = read_training(r.at("training"));
  return run;
}

constexpr int small_max = 32767;      // layers and chunks are 16-bit
constexpr double most_seconds = 1e6;  // of an op or of what it does

Workload read_workload(const JsonReader& r) {
  Workload workload = fields_from<Workload>(r, FieldForm::Results);
  read_routing_layers(r, workload.routing);
  return workload;
}

Experiment read_question(const JsonReader& root) {
  Experiment e;
  const JsonReader cluster = root.at("cluster");
  e.cluster.gpus_per_node = cluster.integer("gpus_per_node", 1);
  e.cluster.nodes = cluster.integer("nodes", 1, JsonReader::int_max / e.cluster.gpus_per_node);
  e.model = read_model(root.at("model"), FieldForm::Results);
  e.workload = read_workload(root.at("workload"));
  e.parallelism = fields_from<Parallelism>(root.at("parallelism"), FieldForm::Results);
  e.overlap = root.enumeration_or("overlap", overlap_names, e.overlap);
  return e;
}

std::vector<JsonReader> read_bounds(const JsonReader& reader) {
  auto bounds = reader.elements();
  if (bounds.size() != 2) reader.fail("expected [first, last)");
  return bounds;
}

RowRange read_range(const JsonReader& reader) {
  const std::vector<JsonReader> bounds = read_bounds(reader);
  return {bounds[0].long_integer(), bounds[1].long_integer()};
}

PlaceRange read_place_range(const JsonReader& reader) {
  const std::vector<JsonReader> bounds = read_bounds(reader);
  return {bounds[0].integer(), bounds[1].integer()};
}

// All but its rows.
StepPlace read_place(const JsonReader& r) {
  const auto small = [&](std::string_view key, int least) {
    return static_cast<std::int16_t>(r.integer(key, least, small_max));
  };
  return {small("layer", 0),
          small("micro_batch", 0),
          small("chunk", -1),
          small("step", -1),
          small("expert", -1),
          {},
          read_place_range(r.at("peers")),
          r.boolean_or("recomputed", false)};
}

Tensor read_tensor(const JsonReader& r, std::size_t classes, std::size_t earlier) {
  Tensor t;
  t.kind = r.enumeration("kind", tensor_kind_names);
  t.gradient = r.boolean("gradient");
  t.persistent = r.boolean("persistent");
  t.dtype = r.enumeration("dtype", dtype_names);
  t.place = r.enumeration("place", place_names);
  t.rank_class = static_cast<std::int16_t>(r.integer("rank_class", 0, static_cast<int>(classes) - 1));
  static_cast<StepPlace&>(t) = read_place(r);
  t.rows = read_place_range(r.at("rows"));
  t.buffer = TensorId(r.integer("buffer", -1, static_cast<int>(earlier) - 1));
  t.elements = r.long_integer("elements", 1);
  return t;
}

Span read_span(const JsonReader& reader, std::size_t limit) {
  const auto bounds = reader.elements();
  if (bounds.size() != 2) reader.fail("expected [first, last)");
  const int first = bounds[0].integer(0, static_cast<int>(limit));
  return {first, bounds[1].integer(first, static_cast<int>(limit))};
}

CollectiveStep read_collective_step(const JsonReader& r) {
  CollectiveStep step;
  step.kind = r.enumeration("kind", step_kind_names);
  step.subgroup = {r.at("subgroup").integer("stride", 1), r.at("subgroup").integer("size", 1)};
  step.every = r.integer("every", 1);
  step.outer = r.integer("outer", 1);
  step.middle = r.integer("middle", 1);
  step.parts = r.integer("parts", 1);
  step.run = r.integer("run", 1);
  return step;
}

KernelUse read_kernel_use(const JsonReader& r) {
  KernelUse use;
  use.shape.kind = r.enumeration("kernel", computing_kernels);
  const std::vector<JsonReader> sizes = r.at("sizes").elements();
  const auto names = kernel_size_names(use.shape.kind);
  if (sizes.size() != names.size()) r.fail("sizes", fmt::format("expected {}", fmt::join(names, ", ")));
  for (std::size_t i = 0; i < sizes.size(); ++i) use.shape.size[i] = sizes[i].long_integer(0);
  use.times = r.number("times", 0);
  use.launches = r.integer("launches", 0);
  if (r.has("dtype")) use.dtype = r.enumeration("dtype", dtype_names);
  if (r.has("readers")) use.readers = r.long_integer("readers", 1);
  return use;
}

// The file has one flat record for all kinds of work. An op that communicates holds an exchange. The fields of any
// other op say which kind of work it has.
Work read_work(const JsonReader& r, OpKind kind, const Schedule& s) {
  const Bytes memory(r.number("memory_traffic_bytes", 0));
  const ExchangeWork exchange{r.enumeration("collective", collective_names),
                              r.enumeration("group", group_kind_names),
                              r.enumeration("protocol", protocol_names),
                              Bytes(r.number("message_bytes", 0)),
                              memory,
                              {},
                              {},
                              read_span(r.at("steps"), s.steps.size())};
  if (entry_of(kind).communicates) return exchange;
  if (const Bytes bytes(r.number("host_traffic_bytes", 0)); bytes > Bytes(0)) return CopyWork{bytes};
  if (r.boolean("host_waits")) return HostWait{};
  if (r.string("profiled") != "no")
    return ProfiledWork{r.enumeration("profiled", profiled_names), r.long_integer("profiled_size", 0)};
  return KernelWork{Flops(r.number("flops", 0)),
                    r.integer("gemms"),
                    r.long_integer("gemm_rows", 0),
                    Bytes(r.number("gemm_traffic_bytes", 0)),
                    memory,
                    Bytes(r.number_or("row_traffic_bytes", 0)),
                    r.integer("memory_kernels", 0),
                    read_span(r.at("kernels"), s.kernels.size()),
                    r.number("row_share", 0),
                    r.integer_or("elsewhere", 0)};
}

Span append_dependencies(const JsonReader& list, Schedule& s) {
  Span span{static_cast<std::int32_t>(s.dependencies.size()), 0};
  for (const JsonReader& id : list.elements()) {
    s.dependencies.emplace_back(id.integer());
    if (static_cast<std::size_t>(s.dependencies.back()) >= s.ops.size())
      id.fail(fmt::format("{}, expected an op before this one", id.integer()));
  }
  span.last = static_cast<std::int32_t>(s.dependencies.size());
  return span;
}

Span append_operands(const JsonReader& list, Schedule& s) {
  Span span{static_cast<std::int32_t>(s.operands.size()), 0};
  for (const JsonReader& id : list.elements())
    s.operands.emplace_back(id.integer(0, static_cast<int>(s.tensors.size()) - 1));
  span.last = static_cast<std::int32_t>(s.operands.size());
  return span;
}

Op read_op(const JsonReader& r, Schedule& s) {
  Op op;
  op.kind = r.enumeration("kind", op_kind_names);
  op.phase = r.enumeration("phase", phase_names);
  op.half = r.enumeration_or("half", half_names, Half::Both);
  op.stream = StreamId(r.integer("stream", 0, static_cast<int>(s.streams.size()) - 1));
  static_cast<StepPlace&>(op) = read_place(r);
  op.work = read_work(r.at("work"), op.kind, s);
  op.dependencies = append_dependencies(r.at("dependencies"), s);
  op.reads = append_operands(r.at("reads"), s);
  op.writes = append_operands(r.at("writes"), s);
  constexpr Role sums = TensorKind::DenseGradients | TensorKind::ReplicatedGradients | TensorKind::SharedGradient;
  const auto is_sum = [&](TensorId t) { return sums.covers(s.tensors[t]); };
  if (op.kind == OpKind::ParameterAllGather || std::ranges::any_of(s.writes_of(op), is_sum))
    op.gradients = read_range(r.at("rows"));  // one word of the file for both
  else
    op.rows = read_place_range(r.at("rows"));
  if (const auto fault = operand_fault(s, op)) r.fail(*fault);
  return op;
}

void read_demands(const JsonReader& list, PricedSchedule& priced) {
  for (const JsonReader& d : list.elements())
    priced.demands.push_back({d.integer("resource", 0, static_cast<int>(priced.resources.size()) - 1),
                              Seconds(d.number("seconds", 0, most_seconds)), d.integer("multiplicity", 1)});
  priced.first_demand.push_back(static_cast<std::int32_t>(priced.demands.size()));
}

void read_price(const JsonReader& r, PricedSchedule& priced) {
  priced.fixed.push_back(Seconds(r.number("fixed_s", 0, most_seconds)));
  priced.duration.push_back(Seconds(r.number("duration_s", 0, most_seconds)));
  if (r.has("launch_s")) priced.launch.push_back(Seconds(r.number("launch_s", 0, most_seconds)));
  if (priced.first_activity.empty()) return read_demands(r.at("demands"), priced);
  for (const JsonReader& id : r.at("activities").elements())
    priced.activities.emplace_back(id.integer(0, static_cast<int>(priced.activity_count()) - 1));
  priced.first_activity.push_back(static_cast<std::int32_t>(priced.activities.size()));
}

// Everything before the ops.
void read_activities(const JsonReader& root, PricedSchedule& priced) {
  priced.first_demand.push_back(0);
  if (const auto activities = root.find("activities")) {
    for (const JsonReader& demands : activities->elements()) read_demands(demands, priced);
    priced.first_activity.push_back(0);
  }
  if (const auto changes = root.find("speed_changes"))
    for (const JsonReader& c : changes->elements()) {
      const Seconds at(c.number("at_s", 0));
      if (!priced.speed_changes.empty() && at < priced.speed_changes.back().at)
        c.fail("at_s", "before the one above it");
      const double speed = c.number("speed", least_speed, 1);
      priced.speed_changes.push_back(
          {c.integer("resource", 0, static_cast<int>(priced.resources.size()) - 1), at, speed});
    }
}

}  // namespace

ScheduleFile read_schedule(const JsonFile& input) {
  const JsonReader root = open(input, "dovetail_schedule", schedule_file_version);
  ScheduleFile file;
  file.experiment = read_question(root);
  read_plan(root.at("plan"), file.plan);
  Schedule s;
  static_cast<ScheduleSettings&>(s) = schedule_settings(file.plan, file.experiment);
  s.groups = fields_from<Parallelism>(root.at("groups"), FieldForm::Results);
  s.micro_batches = root.integer("micro_batches", 1, small_max);
  for (const JsonReader& r : root.at("rank_classes").elements()) s.classes.push_back({r.integer("ranks", 1)});
  for (const JsonReader& r : root.at("streams").elements())
    s.streams.push_back(
        {r.enumeration("kind", stream_kind_names), r.integer("rank_class", 0, static_cast<int>(s.classes.size()) - 1)});
  for (const JsonReader& r : root.at("collective_steps").elements()) s.steps.push_back(read_collective_step(r));
  for (const JsonReader& r : root.at("kernels").elements()) s.kernels.push_back(read_kernel_use(r));
  for (const JsonReader& r : root.at("tensors").elements())
    s.tensors.push_back(read_tensor(r, s.classes.size(), s.tensors.size()));
  for (const JsonReader& r : root.at("resources").elements()) file.priced.resources.push_back(r.string());
  file.priced.physical =
      static_cast<std::size_t>(root.integer("physical_resources", 0, static_cast<int>(file.priced.resources.size())));
  read_activities(root, file.priced);
  for (const JsonReader& r : root.at("ops").elements()) {
    s.ops.push_back(read_op(r, s));
    read_price(r, file.priced);
  }
  if (!file.priced.launch.empty() && file.priced.launch.size() != s.ops.size())
    root.fail("ops", "launch_s in some ops alone, expected it in all or none");
  const auto schedule = std::make_shared<Schedule>(std::move(s));
  file.priced.schedule = schedule;
  require_match(file, input);
  // Not in the file: it follows from the question, which is right now.
  if (schedule->routed) set_held_rows(RoutedRows(file.experiment, *schedule), *schedule);
  file.priced.contended = is_contended(file.priced);
  return file;
}

TimelineFile read_timeline(const JsonFile& input) {
  const JsonReader root = open(input, "dovetail_timeline", timeline_file_version);
  TimelineFile file;
  Timeline& timeline = file.timeline;
  timeline.kind = root.enumeration("result", result_kind_names);
  if (const auto run = root.find("run")) file.run = read_run(*run);
  if (const auto notes = root.find("notes"))
    for (const JsonReader& note : notes->elements()) file.notes.push_back(note.string());
  for (const JsonReader& r : root.at("ops").elements()) {
    timeline.ops.push_back({Seconds(r.number("start_s", 0)), Seconds(r.number("finish_s", 0))});
    timeline.emulated.push_back(r.boolean("emulated"));
    if (r.has("predicted_s")) file.predicted.push_back(Seconds(r.number("predicted_s", 0)));
    if (r.has("work_s")) file.work.push_back(Seconds(r.number("work_s", 0)));
  }
  for (const auto& [name, times] : {std::pair("predicted_s", &file.predicted), std::pair("work_s", &file.work)})
    if (!times->empty() && times->size() != timeline.ops.size())
      root.fail("ops", fmt::format("{} of some ops only, expected of all or of none", name));
  return file;
}

}  // namespace dovetail
