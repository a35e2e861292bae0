#include "models/files/schedule_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/contention.hpp"
#include "models/time/fair_sharing.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

Json header(std::string_view kind) {
  return {{"kind", kind}, {"version", schedule_file_version}};
}

JsonReader open(const JsonFile& file, std::string_view kind) {
  const JsonReader root(file);
  if (root.string("kind") != kind) root.fail("kind", fmt::format("expected \"{}\"", kind));
  if (const int version = root.integer("version"); version != schedule_file_version)
    root.fail("version", fmt::format("{}, this program reads version {}", version, schedule_file_version));
  return root;
}

// --- writing ---
Json range_json(RowRange rows) {
  return {rows.first, rows.last};
}

Json span_json(Span span) {
  return {span.first, span.last};
}

Json step_json(const CollectiveStep& step) {
  return {{"kind", name_in(step_kind_names, step.kind)},
          {"subgroup", {{"stride", step.subgroup.stride}, {"size", step.subgroup.size}}},
          {"every", step.every},
          {"outer", step.outer},
          {"middle", step.middle},
          {"parts", step.parts},
          {"run", step.run}};
}

Json tensor_json(const Tensor& t) {
  return {{"kind", name_in(tensor_kind_names, t.kind)},
          {"gradient", t.gradient},
          {"persistent", t.persistent},
          {"dtype", name_in(dtype_names, t.dtype)},
          {"place", name_in(place_names, t.place)},
          {"rank_class", t.rank_class},
          {"layer", t.layer},
          {"micro_batch", t.micro_batch},
          {"chunk", t.chunk},
          {"step", t.step},
          {"expert", t.expert},
          {"rows", range_json(t.rows)},
          {"peers", range_json(t.peers)},
          {"buffer", t.buffer},
          {"elements", t.elements}};
}

Json work_json(const Work& w) {
  return {{"flops", w.flops.value()},
          {"gemms", w.gemms},
          {"gemm_rows", w.gemm_rows},
          {"gemm_traffic_bytes", w.gemm_traffic.value()},
          {"memory_traffic_bytes", w.memory_traffic.value()},
          {"collective", name_in(collective_names, w.collective)},
          {"group", name_in(group_kind_names, w.group)},
          {"protocol", name_in(protocol_names, w.protocol)},
          {"message_bytes", w.message.value()},
          {"steps", span_json(w.steps)},
          {"host_traffic_bytes", w.host_traffic.value()},
          {"host_waits", w.host_waits},
          {"profiled", name_in(profiled_names, w.profiled)},
          {"profiled_size", w.profiled_size}};
}

Json demands_json(std::span<const Demand> demands) {
  Json list = Json::array();
  for (const Demand& d : demands)
    list.push_back({{"resource", d.resource}, {"seconds", d.seconds.value()}, {"multiplicity", d.multiplicity}});
  return list;
}

Json op_json(const PricedSchedule& priced, OpId id) {
  const Schedule& s = *priced.schedule;
  const auto at = static_cast<std::size_t>(id);
  const Op& op = s.ops[at];
  return {{"name", to_string(op)},
          {"kind", name_in(op_kind_names, op.kind)},
          {"phase", name_in(phase_names, op.phase)},
          {"stream", op.stream},
          {"layer", op.layer},
          {"micro_batch", op.micro_batch},
          {"chunk", op.chunk},
          {"step", op.step},
          {"expert", op.expert},
          {"rows", range_json(op.rows)},
          {"peers", range_json(op.peers)},
          {"work", work_json(op.work)},
          {"dependencies", s.dependencies_of(op)},
          {"reads", s.reads_of(op)},
          {"writes", s.writes_of(op)},
          {"fixed_s", priced.fixed[at].value()},
          {"duration_s", priced.duration[at].value()}};
}

// An op that is one activity of its own has its demands written out; else it names its activities.
Json priced_op_json(const PricedSchedule& priced, OpId id) {
  Json json = op_json(priced, id);
  if (priced.first_activity.empty()) {
    json["demands"] = demands_json(priced.demands_of(id));
  } else {
    json["activities"] = Json::array();
    priced.for_each_activity(id, [&](ActivityId activity) { json["activities"].push_back(activity); });
  }
  return json;
}

Json activities_json(const PricedSchedule& priced) {
  Json list = Json::array();
  for (std::size_t a = 0; a < priced.activity_count(); ++a)
    list.push_back(demands_json(priced.demands_of(static_cast<ActivityId>(a))));
  return list;
}

Json speed_changes_json(std::span<const SpeedChange> changes) {
  Json list = Json::array();
  for (const SpeedChange& change : changes)
    list.push_back({{"resource", change.resource}, {"at_s", change.at.value()}, {"speed", change.speed}});
  return list;
}

Json run_json(const RunReport& run) {
  Json samples = Json::array();
  for (Seconds sample : run.samples) samples.push_back(sample.value());
  return {{"device", run.device},
          {"transport", run.transport},
          {"ranks", run.ranks},
          {"dilation", run.dilation},
          {"emulated_share", run.emulated_share},
          {"overruns", run.overruns},
          {"samples_s", samples},
          {"ci95_low_s", run.ci95_low.value()},
          {"ci95_high_s", run.ci95_high.value()},
          {"stopped_by", run.stopped_by},
          {"dropped", run.dropped},
          {"output_error", run.output_error},
          {"gradient_error", run.gradient_error},
          {"numerics_ok", run.numerics_ok}};
}

// --- reading ---
RunReport read_run(const JsonReader& r) {
  // JSON has no NaN: what was not a number is null.
  const auto error = [&](std::string_view key) {
    return r.at(key).value().is_null() ? std::numeric_limits<double>::quiet_NaN() : r.number(key, 0);
  };
  RunReport run;
  run.device = r.string("device");
  run.transport = r.string("transport");
  run.ranks = r.integer("ranks", 1);
  run.dilation = r.number("dilation", 0);
  run.emulated_share = r.number("emulated_share", 0, 1 + 1e-9);
  run.overruns = r.long_integer("overruns");
  for (const JsonReader& sample : r.at("samples_s").elements()) run.samples.emplace_back(sample.number(0));
  run.ci95_low = Seconds(r.number("ci95_low_s", 0));
  run.ci95_high = Seconds(r.number("ci95_high_s", 0));
  run.stopped_by = r.string("stopped_by");
  run.dropped = r.long_integer("dropped");
  run.output_error = error("output_error");
  run.gradient_error = error("gradient_error");
  run.numerics_ok = r.boolean("numerics_ok");
  return run;
}

constexpr int small_max = 32767;  // layers and chunks are 16-bit

Workload read_workload(const JsonReader& r) {
  Workload w{r.integer("batch", 1),
             r.integer("sequence", 1),
             r.integer("layers", 1, small_max),
             r.integer("top_k", 1),
             r.number("capacity_factor"),
             r.enumeration("dtype", dtype_names),
             r.enumeration("phases", phases_names),
             r.long_integer("capacity_rows"),
             read_gate(r.at("gate")),
             read_routing(r.at("routing")),
             r.integer("step")};
  if (const auto loads = r.find("router_loads"))
    for (const JsonReader& load : loads->elements())
      w.router_loads.push_back({load.integer("micro_batches", 1, small_max), load.long_integer("largest")});
  return w;
}

Parallelism read_parallelism(const JsonReader& r) {
  return {r.integer("dp", 1),  r.integer("mp", 1), r.integer("ep", 1),
          r.integer("esp", 1), r.integer("pp", 1), r.integer("edp", 1)};
}

RowRange read_range(const JsonReader& reader) {
  const auto bounds = reader.elements();
  if (bounds.size() != 2) reader.fail("expected [first, last)");
  return {bounds[0].long_integer(), bounds[1].long_integer()};
}

// What tensors and ops have in common.
template <class Item>
void read_place_in_step(const JsonReader& r, Item& item) {
  const auto small = [&](std::string_view key, int least) {
    return static_cast<std::int16_t>(r.integer(key, least, small_max));
  };
  item.layer = small("layer", 0);
  item.micro_batch = small("micro_batch", 0);
  item.chunk = small("chunk", -1);
  item.step = small("step", -1);
  item.expert = small("expert", -1);
  item.rows = read_range(r.at("rows"));
  item.peers = read_range(r.at("peers"));
}

Tensor read_tensor(const JsonReader& r, std::size_t classes, std::size_t earlier) {
  Tensor t;
  t.kind = r.enumeration("kind", tensor_kind_names);
  t.gradient = r.boolean("gradient");
  t.persistent = r.boolean("persistent");
  t.dtype = r.enumeration("dtype", dtype_names);
  t.place = r.enumeration("place", place_names);
  t.rank_class = static_cast<std::int16_t>(r.integer("rank_class", 0, static_cast<int>(classes) - 1));
  read_place_in_step(r, t);
  t.buffer = r.integer("buffer", -1, static_cast<int>(earlier) - 1);
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

Work read_work(const JsonReader& r, std::size_t steps) {
  Work w;
  w.flops = Flops(r.number("flops", 0));
  w.gemms = r.integer("gemms");
  w.gemm_rows = r.long_integer("gemm_rows", 0);
  w.gemm_traffic = Bytes(r.number("gemm_traffic_bytes", 0));
  w.memory_traffic = Bytes(r.number("memory_traffic_bytes", 0));
  w.collective = r.enumeration("collective", collective_names);
  w.group = r.enumeration("group", group_kind_names);
  w.protocol = r.enumeration("protocol", protocol_names);
  w.message = Bytes(r.number("message_bytes", 0));
  w.steps = read_span(r.at("steps"), steps);
  w.host_traffic = Bytes(r.number("host_traffic_bytes", 0));
  w.host_waits = r.boolean("host_waits");
  w.profiled = r.enumeration("profiled", profiled_names);
  w.profiled_size = r.long_integer("profiled_size", 0);
  return w;
}

template <class Id>
Span append_ids(const JsonReader& list, std::size_t limit, std::vector<Id>& ids) {
  const auto size = [&] { return static_cast<std::int32_t>(ids.size()); };
  Span span{size(), 0};
  for (const JsonReader& id : list.elements()) ids.push_back(id.integer(0, static_cast<int>(limit) - 1));
  span.last = size();
  return span;
}

Op read_op(const JsonReader& r, Schedule& s) {
  Op op;
  op.kind = r.enumeration("kind", op_kind_names);
  op.phase = r.enumeration("phase", phase_names);
  op.stream = r.integer("stream", 0, static_cast<int>(s.streams.size()) - 1);
  read_place_in_step(r, op);
  op.work = read_work(r.at("work"), s.steps.size());
  op.dependencies = append_ids(r.at("dependencies"), s.ops.size(), s.dependencies);
  op.reads = append_ids(r.at("reads"), s.tensors.size(), s.operands);
  op.writes = append_ids(r.at("writes"), s.tensors.size(), s.operands);
  return op;
}

void read_demands(const JsonReader& list, PricedSchedule& priced) {
  for (const JsonReader& d : list.elements())
    priced.demands.push_back({d.integer("resource", 0, static_cast<int>(priced.resources.size()) - 1),
                              Seconds(d.number("seconds", 0)), d.integer("multiplicity", 1)});
  priced.first_demand.push_back(static_cast<std::int32_t>(priced.demands.size()));
}

void read_price(const JsonReader& r, PricedSchedule& priced) {
  priced.fixed.push_back(Seconds(r.number("fixed_s", 0)));
  priced.duration.push_back(Seconds(r.number("duration_s", 0)));
  if (priced.first_activity.empty()) return read_demands(r.at("demands"), priced);
  for (const JsonReader& id : r.at("activities").elements())
    priced.activities.push_back(id.integer(0, static_cast<int>(priced.activity_count()) - 1));
  priced.first_activity.push_back(static_cast<std::int32_t>(priced.activities.size()));
}

// What goes before the ops.
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
      const double speed = c.number("speed", 0, 1);
      if (speed <= 0) c.fail("speed", "0, expected more");
      priced.speed_changes.push_back(
          {c.integer("resource", 0, static_cast<int>(priced.resources.size()) - 1), at, speed});
    }
}

}  // namespace

Json to_json(const ScheduleFile& file) {
  const PricedSchedule& priced = file.priced;
  const Schedule& s = *priced.schedule;
  Json json = header("dovetail_schedule");
  json["model"] = to_json(file.model);
  json["workload"] = to_json(file.workload);
  json["parallelism"] = to_json(file.parallelism);
  json["resources"] = priced.resources;
  json["physical_resources"] = priced.physical;
  json["groups"] = to_json(s.groups);
  json["micro_batches"] = s.micro_batches;
  for (const RankClass& c : s.classes) json["rank_classes"].push_back({{"ranks", c.ranks}});
  for (const Stream& stream : s.streams)
    json["streams"].push_back({{"kind", name_in(stream_kind_names, stream.kind)}, {"rank_class", stream.rank_class}});
  json["collective_steps"] = Json::array();
  for (const CollectiveStep& step : s.steps) json["collective_steps"].push_back(step_json(step));
  for (const Tensor& t : s.tensors) json["tensors"].push_back(tensor_json(t));
  if (!priced.first_activity.empty()) json["activities"] = activities_json(priced);
  if (!priced.speed_changes.empty()) json["speed_changes"] = speed_changes_json(priced.speed_changes);
  for (OpId id = 0; static_cast<std::size_t>(id) < s.ops.size(); ++id)
    json["ops"].push_back(priced_op_json(priced, id));
  return json;
}

Json to_json(const TimelineFile& file) {
  const Timeline& timeline = file.timeline;
  Json json = header("dovetail_timeline");
  json["result"] = name_in(result_kind_names, timeline.kind);
  if (file.run) json["run"] = run_json(*file.run);
  if (!file.notes.empty()) json["notes"] = file.notes;
  json["ops"] = Json::array();
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    json["ops"].push_back({{"start_s", timeline.ops[i].start.value()},
                           {"finish_s", timeline.ops[i].finish.value()},
                           {"emulated", !timeline.emulated.empty() && timeline.emulated[i]}});
    if (!file.predicted.empty()) json["ops"].back()["predicted_s"] = file.predicted[i].value();
  }
  return json;
}

ScheduleFile read_schedule(const JsonFile& input) {
  const JsonReader root = open(input, "dovetail_schedule");
  ScheduleFile file{
      read_model(root.at("model")), read_workload(root.at("workload")), read_parallelism(root.at("parallelism")), {}};
  Schedule s;
  s.groups = read_parallelism(root.at("groups"));
  s.micro_batches = root.integer("micro_batches", 1, small_max);
  for (const JsonReader& r : root.at("rank_classes").elements()) s.classes.push_back({r.integer("ranks", 1)});
  for (const JsonReader& r : root.at("streams").elements())
    s.streams.push_back(
        {r.enumeration("kind", stream_kind_names), r.integer("rank_class", 0, static_cast<int>(s.classes.size()) - 1)});
  for (const JsonReader& r : root.at("collective_steps").elements()) s.steps.push_back(read_collective_step(r));
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
  try {
    validate(s);
  } catch (const InternalError& error) {
    root.fail("ops", error.what());
  }
  file.priced.schedule = std::make_shared<const Schedule>(std::move(s));
  file.priced.contended = is_contended(file.priced);
  return file;
}

TimelineFile read_timeline(const JsonFile& input) {
  const JsonReader root = open(input, "dovetail_timeline");
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
  }
  if (!file.predicted.empty() && file.predicted.size() != timeline.ops.size())
    root.fail("ops", "predicted_s of some ops only, expected of all or of none");
  return file;
}

}  // namespace dovetail
