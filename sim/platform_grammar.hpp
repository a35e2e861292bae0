// SPDX-License-Identifier: Apache-2.0
// Contents that a SimGrid platform file may have here: hosts, links, routes and clusters, and nothing that SimGrid
// would act upon elsewhere (other files, settings, processes, profiles over time).
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::sim {

enum class PlatformValue {
  Text,       // not read
  Version,    // 4 or 4.1
  Name,       // of this element, or part of one
  Reference,  // the name of another element
  Speed,
  Bandwidth,
  Latency,
  Count,     // 1 to 1e6
  Radical,   // "0-3,7"
  Topology,  // "2;4,4;1,2"
  Routing,
  Choice  // one of `choices`
};

struct PlatformAttribute {
  std::string_view name;
  PlatformValue value;
  bool required = false;
  std::string_view choices = {};  // with spaces between
};

struct PlatformElement {
  std::string_view name, parents;  // names with spaces between; the root has none
  std::span<const PlatformAttribute> attributes;
};

// Null: no element that a platform may have here.
const PlatformElement* find_platform_element(std::string_view name);
bool is_word_of(std::string_view words, std::string_view word);

// Says how a value is wrong; empty: it is not.
std::string objection_to(const PlatformAttribute& attribute, const std::string& value);

// The numbers of a radical that objection_to accepts.
inline constexpr std::size_t most_platform_hosts = 4096;
std::vector<int> numbers_of_radical(std::string_view radical);

}  // namespace dovetail::sim
