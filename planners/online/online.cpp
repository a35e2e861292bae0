// SPDX-License-Identifier: Apache-2.0
#include "planners/online/online.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/write_file.hpp"
#include "models/files/saved_format.hpp"

namespace dovetail::planners {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *state_version = "1.0", *state_kind = "online_state";

void require_positive(std::string_view what, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw InputError(fmt::format("{} {}, expected a number above 0", what, value));
}

void require_positive(const StepSize& step) {
  require_positive("capacity factor", step.capacity_factor);
  require_positive("tokens", step.tokens);
  require_positive("load", step.load());
}

std::vector<std::string> strings(const JsonReader& json) {
  std::vector<std::string> texts;
  for (const JsonReader& each : json.elements()) texts.push_back(each.string());
  return texts;
}

OnlineChoice read_choice(const JsonReader& json, std::size_t strategies) {
  OnlineChoice choice;
  choice.step = {json.at("capacity_factor").number(smallest_load), json.at("tokens").number(smallest_load)};
  choice.strategy = static_cast<std::size_t>(json.integer("strategy", 0, static_cast<int>(strategies) - 1));
  return choice;
}

}  // namespace

OnlinePlanner::OnlinePlanner(OnlineSettings settings) : settings_(std::move(settings)) {
  const std::vector<std::string>& names = settings_.strategies;
  if (names.empty()) throw InputError("no strategies, expected at least one");
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw InputError(fmt::format("strategy {} twice, expected different names", in_quotes(*name)));
}

std::size_t OnlinePlanner::choose(const StepSize& step) {
  require_positive(step);
  pending_ = OnlineChoice{step, pick(step.load())};
  return pending_->strategy;
}

void OnlinePlanner::report(Seconds time) {
  if (!pending_) throw InputError("nothing was chosen since the last report");
  report(pending_->step, pending_->strategy, time);
  pending_.reset();
}

void OnlinePlanner::report(const StepSize& step, std::size_t strategy, Seconds time) {
  require_positive(step);
  require_positive("seconds", time.value());
  if (strategy >= strategies().size())
    throw InputError(fmt::format("strategy {}, expected 0 to {}", strategy, strategies().size() - 1));
  learn(step.load(), strategy, time);
}

std::string OnlinePlanner::state() const {
  Json json{{"schema_version", state_version}, {"kind", state_kind},         {"planner", name()},
            {"context", settings_.context},    {"strategies", strategies()}, {"pending", nullptr}};
  if (pending_)
    json["pending"] = {{"capacity_factor", pending_->step.capacity_factor},
                       {"tokens", pending_->step.tokens},
                       {"strategy", pending_->strategy}};
  write(json);
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + '\n';
}

void OnlinePlanner::restore(const JsonFile& file) {
  const JsonReader json(file);
  require_format(json, std::array{SavedFormat{state_kind, state_version}});
  const auto other = [&](std::string_view key, std::string_view learned, std::string_view expected) {
    json.at(key).fail(
        fmt::format("this state was learned {}, expected {}: remove it or name another file", learned, expected));
  };
  if (const std::string planner = json.string("planner"); planner != name()) other("planner", "by " + planner, name());
  if (const auto had = strings(json.at("strategies")); had != strategies())
    other("strategies", fmt::format("for other strategies ({})", fmt::join(had, ", ")),
          fmt::format("{}", fmt::join(strategies(), ", ")));
  if (const std::string context = json.string("context"); context != settings_.context)
    other("context", fmt::format("for another experiment ({})", context), settings_.context);
  std::optional<OnlineChoice> pending;
  if (!json.at("pending").value().is_null()) pending = read_choice(json.at("pending"), strategies().size());
  read(json);
  pending_ = pending;
}

void OnlinePlanner::save(const std::filesystem::path& file) const {
  write_file(file, state(), Durability::Flush);
}

bool OnlinePlanner::load(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return false;
  restore(JsonFile::read(file));
  return true;
}

}  // namespace dovetail::planners
