// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/differences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_value = 60, most_differences = 3;

std::string difference(const std::string& key, const Json& there, const Json& here) {
  const std::string a = there.dump(), b = here.dump();
  if (a.size() > longest_value || b.size() > longest_value) return key + " is not the same";
  return fmt::format("{} is {} there and {} here", key, a, b);
}

void collect(const std::string& key, const Json& there, const Json& here, std::vector<std::string>& found) {
  if (there == here) return;
  if (!there.is_object() || !here.is_object()) {
    found.push_back(difference(key, there, here));
    return;
  }
  const std::string inside = key.empty() ? "" : key + "/";
  for (const auto& [name, value] : there.items())
    if (here.contains(name))
      collect(inside + name, value, here[name], found);
    else
      found.push_back(inside + name + " is only there");
  for (const auto& [name, value] : here.items())
    if (!there.contains(name)) found.push_back(inside + name + " is only here");
}

}  // namespace

std::string differences(const Json& there, const Json& here) {
  std::vector<std::string> found;
  collect("", there, here, found);
  if (found.empty() && there != here) return "the order of keys is not the same";
  if (found.size() > most_differences) {
    const std::size_t more = found.size() - most_differences;
    found.resize(most_differences);
    found.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace dovetail::bench
