// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"
#include "models/files/read_parts.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

using Options = std::map<std::string, bool>;

Options read_options(const JsonReader& json) {
  Options options;
  if (const auto given = json.find("options"))
    for (const auto& [name, on] : given->members()) options[name] = on.boolean();
  return options;
}

// Whether the options are as the entry wants them. Conditions on the schedule are added to `cases`, or refused.
bool applies(const JsonReader& entry, const Options& options, std::vector<HostCase>* cases) {
  for (const auto& [key, wanted] : {std::pair{"if", true}, {"unless", false}}) {
    const auto conditions = entry.find(key);
    if (!conditions) continue;
    for (const JsonReader& each : conditions->elements()) {
      const auto option = options.find(each.string());
      if (option != options.end()) {
        if (option->second != wanted) return false;
      } else if (wanted && cases != nullptr) {
        cases->push_back(each.enumeration(host_case_names));
      } else {
        each.fail(fmt::format("no option {} in /options", in_quotes(each.string())));
      }
    }
  }
  return true;
}

// Entries whose options are on add up.
FrameworkPasses read_passes(const JsonReader& list, const Options& options) {
  FrameworkPasses passes;
  for (const JsonReader& each : list.elements()) {
    if (!applies(each, options, nullptr)) continue;
    for (const auto& [key, bytes] : {std::pair{"gradients", &passes.gradients},
                                     {"updated", &passes.updated},
                                     {"weights", &passes.weights},
                                     {"logits", &passes.logits}})
      *bytes += each.number_or(key, 0, 0, 1000);
  }
  return passes;
}

void read_memory(const JsonReader& list, const Options& options, TrainingFramework& framework) {
  for (const JsonReader& each : list.elements()) {
    if (!applies(each, options, nullptr)) continue;
    framework.empty_weight_gradients |= each.boolean_or("empty_weight_gradients", false);
    framework.workspace += each.quantity_or("workspace", Bytes());
    framework.fp8_inputs |= each.boolean_or("fp8_inputs", false);
    for (const auto& [key, bytes] : {std::pair{"fp8_weights", &framework.fp8_weights},
                                     {"logits_copies", &framework.logits_copies},
                                     {"score_copies", &framework.score_copies},
                                     {"activation_inputs", &framework.activation_inputs},
                                     {"weighted_activations", &framework.weighted_activations},
                                     {"dropout_masks", &framework.dropout_masks}})
      *bytes += each.number_or(key, 0, 0, 1000);
  }
}

using HostTimes = std::map<std::string, HostWork>;

// An operation that was measured in a tight loop takes `in_model` times as long inside a model.
HostTimes read_times(const JsonReader& json, double in_model) {
  HostTimes times;
  for (const JsonReader& each : json.elements()) {
    const double factor = each.boolean_or("in_loops", false) ? in_model : 1;
    times[each.string("name")] = {factor * each.quantity<Seconds>("time"), each.number_or("kernels", 0, 0, 1000)};
  }
  return times;
}

HostWork read_operations(const JsonReader& json, const HostTimes& times) {
  HostWork work;
  for (const auto& [name, count] : json.members()) {
    const auto time = times.find(name);
    if (time == times.end())
      count.fail(fmt::format("no operation {} in /host/times, expected one of those there", in_quotes(name)));
    const double n = count.number(0, 1e6);
    work += {n * time->second.work, n * time->second.kernels};
  }
  return work;
}

SizedHostWork read_work(const JsonReader& json, const HostTimes& times) {
  SizedHostWork work;
  for (const auto& [key, part] : {std::pair{"operations", &work.once},
                                  {"each_expert", &work.each_expert},
                                  {"each_block", &work.each_block},
                                  {"each_weight", &work.each_weight}})
    if (const auto found = json.find(key)) *part = read_operations(*found, times);
  return work;
}

HostProfile read_host(const JsonReader& json, const Options& options) {
  HostProfile host;
  host.provenance = read_provenance(json.at("provenance"));
  const auto in_model = json.find("in_model");
  const HostTimes times = read_times(json.at("times"), in_model ? in_model->number("factor", 1, 100) : 1);
  for (const JsonReader& each : json.at("ops").elements()) {
    HostEntry entry{each.enumeration("op", op_kind_names), each.enumeration("phase", phase_names), {}, {}};
    if (!applies(each, options, &entry.cases)) continue;
    entry.work = read_work(each, times);
    host.entries.push_back(std::move(entry));
  }
  const auto part = [&](const char* key, SizedHostWork& work) {
    if (const auto found = json.find(key)) work = read_work(*found, times);
  };
  part("forward_pass", host.forward_pass);
  part("backward_pass", host.backward_pass);
  part("step", host.step);
  SizedHostWork graph;
  part("graph", graph);
  host.graph = graph.once.work;
  host.wait = json.quantity_or("wait", Seconds());
  return host;
}

}  // namespace

FrameworkParts read_framework(const JsonReader& json) {
  FrameworkParts parts;
  TrainingFramework& framework = parts.framework;
  framework.name = json.string("name");
  framework.source = json.string_or("source", "");
  const Options options = read_options(json);
  if (const auto passes = json.find("passes")) framework.passes = read_passes(*passes, options);
  framework.dense_embedding_gradient = json.boolean_or("dense_embedding_gradient", false);
  framework.gathers_twice = json.boolean_or("gathers_twice", false);
  framework.waits_for_loss = json.boolean_or("waits_for_loss", false);
  framework.waits_for_norm = json.boolean_or("waits_for_norm", false);
  if (const auto rows = json.find("waits_for_rows"))
    for (const JsonReader& each : rows->elements()) framework.waits_for_rows |= applies(each, options, nullptr);
  if (const auto fused = json.find("fused"))
    for (const JsonReader& each : fused->elements()) {
      const auto option = options.find(each.string());
      if (option == options.end()) each.fail("no option of this framework");
      if (!option->second) framework.unfused.push_back(option->first);
    }
  if (const auto left_out = json.find("left_out")) framework.left_out = left_out->number("within", 1, 10);
  if (const auto memory = json.find("memory")) read_memory(*memory, options, framework);
  if (const auto host = json.find("host")) parts.host = read_host(*host, options);
  return parts;
}

}  // namespace dovetail
