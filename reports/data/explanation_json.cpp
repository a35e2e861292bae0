// SPDX-License-Identifier: Apache-2.0
#include "reports/data/explanation_json.hpp"

#include <nlohmann/json.hpp>

#include "models/base/names.hpp"
#include "reports/data/json_values.hpp"
#include "reports/text/explanation_text.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const ExplainedStep& step) {
  return {{"step_s", number(step.metrics.makespan)},
          {"computation_s", number(step.metrics.computation)},
          {"hidden_communication_s", number(step.metrics.hidden)},
          {"exposed_communication_s", number(step.metrics.exposed_communication)},
          {"waiting_s", number(step.metrics.waiting)},
          {"peak_bytes", number(step.peak)}};
}

Json pairs_json(const PairsExplained& pairs) {
  Json otherwise = Json::object();
  for (const PairStep& step : pairs.otherwise)
    otherwise[std::string(name_in(pair_limit_names, step.limit))] = {{"paired_s", number(step.paired)},
                                                                     {"apart_s", number(step.apart)}};
  return {{"chosen", pairs.chosen},
          {"other", pairs.other ? step_json(*pairs.other) : Json(nullptr)},
          {"refusal", pairs.refusal.empty() ? Json(nullptr) : Json(pairs.refusal)},
          {"otherwise", std::move(otherwise)}};
}

}  // namespace

Json explanation_json(const Explanation& x) {
  Json without = Json::object(), others = Json::object();
  for (const WithoutPart& part : x.without)
    without[std::string(name_in(step_part_names, part.part))] = number(part.step);
  for (const Alternative& other : x.alternatives)
    others[std::string(name_in(other_choice_names, other.choice))] = step_json(other.step);
  return {{"text", explanation_text(x)},
          {"best", step_json(x.best)},
          {"next_best", x.next ? step_json(x.next->step) : Json(nullptr)},
          {"step_without_s", std::move(without)},
          {"alternatives", std::move(others)},
          {"pairs", x.pairs ? pairs_json(*x.pairs) : Json(nullptr)}};
}

}  // namespace dovetail::reports
