// SPDX-License-Identifier: Apache-2.0
#include "planners/catalog/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail::planners {

// Each is defined at the end of its own source file.
const Planner& fixed();
const Planner& exhaustive();
const Planner& four_case();
const Planner& four_case_slsqp();
const Planner& granularity_search();
const Planner& memory_reuse();
const Planner& equation_10();
const Planner& all_to_all_choice();
const Planner& tutel_adaptive();
const Planner& parallelism_router();
const Planner& shadowing();
const Planner& alternatives_planner();
const Planner& dovetail();

namespace {

constexpr std::array planners{
    fixed,        exhaustive,           four_case,         four_case_slsqp, granularity_search,
    memory_reuse, equation_10,          all_to_all_choice, tutel_adaptive,  parallelism_router,
    shadowing,    alternatives_planner, dovetail};

}  // namespace

const Planner& find_planner(std::string_view name) {
  for (const auto planner : planners)
    if (planner().name() == name) return planner();
  const std::vector<std::string> known = planner_names();
  throw InputError(
      fmt::format("no planner {}{}; known: {}", in_quotes(name), did_you_mean(name, known), fmt::join(known, ", ")));
}

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const auto planner : planners) names.emplace_back(planner().name());
  return names;
}

}  // namespace dovetail::planners
