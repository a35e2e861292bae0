#include "reports/flags/flag_writer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "models/files/plan_json.hpp"

namespace dovetail::reports {
namespace {

std::string value_text(const Knob& knob, const Plan& plan) {
  const nlohmann::ordered_json value = value_json(knob, plan);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

FlagWriter::FlagWriter(std::string framework, std::string checked) {
  result_.framework = std::move(framework);
  result_.checked = std::move(checked);
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

void FlagWriter::cannot(std::string sentence) {
  result_.cannot.push_back(std::move(sentence));
}

FrameworkFlags FlagWriter::finish(const Plan& plan, const Plan& own) {
  for (const Knob& knob : knobs()) {
    if (said_.contains(knob.name) || value_json(knob, plan) == value_json(knob, own)) continue;
    cannot(fmt::format("plan.{} {}: {} does as with {}, and has no argument for it", knob.name, value_text(knob, plan),
                       result_.framework, value_text(knob, own)));
  }
  return std::move(result_);
}

}  // namespace dovetail::reports
