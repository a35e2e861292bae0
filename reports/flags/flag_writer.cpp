// SPDX-License-Identifier: Apache-2.0
#include "reports/flags/flag_writer.hpp"

#include <fmt/format.h>

#include <utility>

#include "models/files/plan_json.hpp"
#include "models/plan/knob_table.hpp"

namespace dovetail::reports {

FlagWriter::FlagWriter(std::string framework, std::string checked, const Experiment& experiment, const Plan& plan) {
  result_.framework = std::move(framework);
  result_.checked = std::move(checked);
  result_.taken = {experiment.parallelism, experiment.workload.batch, plan, experiment.workload.message_sizes};
}

void FlagWriter::flag(std::string name, std::string value, std::string versions) {
  result_.flags.push_back({std::move(name), std::move(value), std::move(versions)});
}

void FlagWriter::flag(std::string name, int value, std::string versions) {
  flag(std::move(name), std::to_string(value), std::move(versions));
}

void FlagWriter::in_file(std::string name, std::string value, std::string versions) {
  result_.flags.push_back({std::move(name), std::move(value), std::move(versions), true});
}

void FlagWriter::say(std::initializer_list<std::string_view> knobs) {
  for (const std::string_view name : knobs) said_.insert(knob(name).name);
}

void FlagWriter::cannot(std::string sentence, const Change& does) {
  result_.cannot.push_back(std::move(sentence));
  if (does)
    takes(does);
  else
    result_.known = false;
}

FrameworkFlags FlagWriter::finish(const Plan& own) {
  const Plan& taken = result_.taken.plan;
  say({"one_connection"});
  if (taken.one_connection) elsewhere("the environment has CUDA_DEVICE_MAX_CONNECTIONS=1 (plan.one_connection)");
  for (const Knob& knob : knobs()) {
    if (said_.contains(knob.name) || same_value(knob, taken, own)) continue;
    cannot(fmt::format("plan.{} {}: {} does as with {}, and has no argument for it", knob.name, value_text(knob, taken),
                       result_.framework, value_text(knob, own)),
           [&](TakenPlan& changed) { copy_value(knob, own, changed.plan); });
  }
  return std::move(result_);
}

}  // namespace dovetail::reports
