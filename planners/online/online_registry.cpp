// SPDX-License-Identifier: Apache-2.0
// All planners that learn, by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/json/nearest.hpp"
#include "planners/online/bucketed_search.hpp"
#include "planners/online/granularity_search.hpp"
#include "planners/online/online.hpp"
#include "planners/online/parallelism_router.hpp"

namespace dovetail::planners {
namespace {

using Make = std::unique_ptr<OnlinePlanner> (*)(OnlineSettings);

template <class Type>
std::unique_ptr<OnlinePlanner> make(OnlineSettings settings) {
  return std::make_unique<Type>(std::move(settings));
}

template <const BucketRules& rules>
std::unique_ptr<OnlinePlanner> make_by(OnlineSettings settings) {
  return std::make_unique<BucketedSearch>(std::move(settings), rules);
}

std::unique_ptr<OnlinePlanner> make_published_granularity(OnlineSettings settings) {
  return std::make_unique<GranularitySearch>(std::move(settings), published_granularity);
}

constexpr std::array<std::pair<std::string_view, Make>, 6> table{
    {{"bucketed_search", make<BucketedSearch>},
     {published_rules.name, make_by<published_rules>},
     {joint_rules.name, make_by<joint_rules>},
     {"granularity_search", make<GranularitySearch>},
     {published_granularity.name, make_published_granularity},
     {"parallelism_router", make<ParallelismRouter>}}};

}  // namespace

std::unique_ptr<OnlinePlanner> make_online(std::string_view name, OnlineSettings settings) {
  for (const auto& [known, make] : table)
    if (known == name) return make(std::move(settings));
  throw InputError(fmt::format("no online planner \"{}\"{}; known: {}", name, did_you_mean(name, online_names()),
                               fmt::join(online_names(), ", ")));
}

std::vector<std::string> online_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : table) names.emplace_back(name);
  return names;
}

}  // namespace dovetail::planners
