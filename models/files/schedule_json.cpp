// SPDX-License-Identifier: Apache-2.0
#include "models/files/schedule_json.hpp"

#include <nlohmann/json.hpp>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

Json header(std::string_view kind, int version) {
  return {{"kind", kind}, {"version", version}};
}

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

Json kernel_use_json(const KernelUse& use) {
  Json json{{"kernel", name_in(kernel_kind_names, use.shape.kind)},
            {"sizes", std::span(use.shape.size).first(kernel_size_names(use.shape.kind).size())},
            {"times", use.times},
            {"launches", use.launches}};
  if (use.dtype) json["dtype"] = name_in(dtype_names, *use.dtype);
  if (use.readers > 1) json["readers"] = use.readers;
  return json;
}

Json tensor_json(const Tensor& t) {
  Json json{{"kind", name_in(tensor_kind_names, t.kind)},
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
  if (t.recomputed) json["recomputed"] = true;
  return json;
}

// The file has one flat record for all kinds of work: fields that a kind does not have are 0, "none" or "no".
Json work_json(const Op& op) {
  const KernelWork k = op.kernel() == nullptr ? KernelWork{} : *op.kernel();
  const ExchangeWork e = op.exchange() == nullptr ? ExchangeWork{} : *op.exchange();
  const auto* copy = std::get_if<CopyWork>(&*op.work);
  const ProfiledWork* profiled = op.profiled();
  Json json{{"flops", k.flops.value()},
            {"gemms", k.gemms},
            {"gemm_rows", k.gemm_rows},
            {"gemm_traffic_bytes", k.gemm_traffic.value()},
            {"memory_traffic_bytes", op.memory_traffic().value()},
            {"memory_kernels", k.memory_kernels},
            {"kernels", span_json(k.kernels)},
            {"row_share", k.row_share},
            {"collective", name_in(collective_names, e.collective)},
            {"group", name_in(group_kind_names, e.group)},
            {"protocol", name_in(protocol_names, e.protocol)},
            {"message_bytes", e.message.value()},
            {"steps", span_json(e.steps)},
            {"host_traffic_bytes", copy == nullptr ? 0.0 : copy->bytes.value()},
            {"host_waits", std::holds_alternative<HostWait>(*op.work)},
            {"profiled", profiled == nullptr ? "no" : name_in(profiled_names, profiled->module)},
            {"profiled_size", profiled == nullptr ? 0 : profiled->size}};
  if (k.elsewhere > 0) json["elsewhere"] = k.elsewhere;
  if (k.row_traffic > Bytes(0)) json["row_traffic_bytes"] = k.row_traffic.value();
  return json;
}

Json demands_json(std::span<const Demand> demands) {
  Json list = Json::array();
  for (const Demand& d : demands)
    list.push_back({{"resource", d.resource}, {"seconds", d.seconds.value()}, {"multiplicity", d.multiplicity}});
  return list;
}

Json op_json(const PricedSchedule& priced, OpId id) {
  const Schedule& s = *priced.schedule;
  const Op& op = s.ops[id];
  Json json{{"name", to_string(op)},
            {"kind", name_in(op_kind_names, op.kind)},
            {"phase", name_in(phase_names, op.phase)},
            {"stream", op.stream},
            {"layer", op.layer},
            {"micro_batch", op.micro_batch},
            {"chunk", op.chunk},
            {"step", op.step},
            {"expert", op.expert},
            {"rows", range_json(op.gradients.size() > 0 ? op.gradients : RowRange(op.rows))},
            {"peers", range_json(op.peers)},
            {"work", work_json(op)},
            {"dependencies", s.dependencies_of(op)},
            {"reads", s.reads_of(op)},
            {"writes", s.writes_of(op)},
            {"fixed_s", priced.fixed[id].value()},
            {"duration_s", priced.duration[id].value()}};
  if (op.half != Half::Both) json["half"] = name_in(half_names, op.half);
  if (op.recomputed) json["recomputed"] = true;
  if (!priced.launch.empty()) json["launch_s"] = priced.launch[id].value();
  return json;
}

// An op that is one activity of its own has its demands written out; else it names its activities.
Json priced_op_json(const PricedSchedule& priced, OpId id) {
  Json json = op_json(priced, id);
  if (priced.first_activity.empty()) {
    json["demands"] = demands_json(priced.demands_of(PricedSchedule::only_activity(id)));
  } else {
    json["activities"] = Json::array();
    priced.for_each_activity(id, [&](ActivityId activity) { json["activities"].push_back(std::int32_t{activity}); });
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

Json training_json(const TrainingReport& training) {
  Json json = {{"losses", training.losses},
               {"reference_losses", training.reference_losses},
               {"loss_error", training.loss_error},
               {"weight_error", training.weight_error},
               {"ok", training.ok}};
  if (training.tolerance) json["tolerance"] = *training.tolerance;
  return json;
}

Json run_json(const RunReport& run) {
  Json samples = Json::array();
  for (Seconds sample : run.samples) samples.push_back(sample.value());
  Json json = {{"device", run.device},
               {"transport", run.transport},
               {"ranks", run.ranks},
               {"dilation", run.dilation},
               {"emulated_share", run.emulated_share},
               {"overruns", run.overruns},
               {"valid", run.valid},
               {"samples_s", samples},
               {"ci95_low_s", run.ci95_low.value()},
               {"ci95_high_s", run.ci95_high.value()},
               {"stopped_by", run.stopped_by},
               {"allocated_bytes", run.allocated_bytes},
               {"dropped", run.dropped},
               {"output_error", run.output_error},
               {"gradient_error", run.gradient_error},
               {"numerics_ok", run.numerics_ok},
               {"numerics_checked", run.numerics_checked}};
  if (run.clock.mhz > 0) json["clock_mhz"] = run.clock.mhz;
  if (run.clock.watts > 0) json["power_w"] = run.clock.watts;
  if (run.training) json["training"] = training_json(*run.training);
  return json;
}

}  // namespace

Json to_json(const ScheduleFile& file) {
  const PricedSchedule& priced = file.priced;
  const Schedule& s = *priced.schedule;
  Json json = header("dovetail_schedule", schedule_file_version);
  json["cluster"] = {{"nodes", file.experiment.cluster.nodes},
                     {"gpus_per_node", file.experiment.cluster.gpus_per_node}};
  json["model"] = to_json(file.experiment.model);
  json["workload"] = to_json(file.experiment.workload);
  json["parallelism"] = to_json(file.experiment.parallelism);
  json["overlap"] = name_in(overlap_names, file.experiment.overlap);
  json["plan"] = to_json(file.plan);
  json["resources"] = priced.resources;
  json["physical_resources"] = priced.physical;
  json["groups"] = to_json(s.groups);
  json["micro_batches"] = s.micro_batches;
  for (const RankClass& c : s.classes) json["rank_classes"].push_back({{"ranks", c.ranks}});
  for (const Stream& stream : s.streams)
    json["streams"].push_back({{"kind", name_in(stream_kind_names, stream.kind)}, {"rank_class", stream.rank_class}});
  json["collective_steps"] = Json::array();
  for (const CollectiveStep& step : s.steps) json["collective_steps"].push_back(step_json(step));
  json["kernels"] = Json::array();
  for (const KernelUse& use : s.kernels) json["kernels"].push_back(kernel_use_json(use));
  for (const Tensor& t : s.tensors) json["tensors"].push_back(tensor_json(t));
  if (!priced.first_activity.empty()) json["activities"] = activities_json(priced);
  if (!priced.speed_changes.empty()) json["speed_changes"] = speed_changes_json(priced.speed_changes);
  for (const OpId id : s.ops.ids()) json["ops"].push_back(priced_op_json(priced, id));
  return json;
}

Json to_json(const TimelineFile& file) {
  const Timeline& timeline = file.timeline;
  Json json = header("dovetail_timeline", timeline_file_version);
  json["result"] = name_in(result_kind_names, timeline.kind);
  if (file.run) json["run"] = run_json(*file.run);
  if (!file.notes.empty()) json["notes"] = file.notes;
  json["ops"] = Json::array();
  for (const OpId i : timeline.ops.ids()) {
    json["ops"].push_back({{"start_s", timeline.ops[i].start.value()},
                           {"finish_s", timeline.ops[i].finish.value()},
                           {"emulated", !timeline.emulated.empty() && timeline.emulated[i]}});
    if (!file.predicted.empty()) json["ops"].back()["predicted_s"] = file.predicted[i].value();
    if (!file.work.empty()) json["ops"].back()["work_s"] = file.work[i].value();
  }
  return json;
}

}  // namespace dovetail
