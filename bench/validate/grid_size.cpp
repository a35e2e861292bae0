// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/grid_size.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dovetail::bench {

SizeParts size_parts(const GridSize& size) {
  const exec::HostScale& s = size.scale;
  SizeParts parts{fmt::format("{} ranks", s.ranks), fmt::format("{} tokens", s.tokens_per_rank),
                  fmt::format("hidden {} and {}", s.hidden, s.expert_hidden)};
  if (s.sequence > 0) parts.push_back(fmt::format("samples of {}", s.sequence));
  if (s.head_size > 0) parts.push_back(fmt::format("heads of {}", s.head_size));
  for (const auto& [group, ranks] : {std::pair("mp", s.mp), std::pair("esp", s.esp), std::pair("ep", s.ep)})
    if (ranks > 1) parts.push_back(fmt::format("{} {}", group, ranks));
  if (s.experts > 0) parts.push_back(fmt::format("{} experts", s.experts));
  if (s.top_k > 0) parts.push_back(fmt::format("top {}", s.top_k));
  parts.push_back(fmt::format("{} layer{}", s.layers, s.layers == 1 ? "" : "s"));
  if (size.links_to_computation > 0)
    parts.push_back(fmt::format("links {:.4g} x computation", size.links_to_computation));
  else if (size.link_slowdown != 1)
    parts.push_back(fmt::format("links x {:.4g}", size.link_slowdown));
  for (const std::string& setting : size.set)
    parts.push_back(setting.substr(setting.rfind('.', setting.find('=')) + 1));
  return parts;
}

std::string size_name(const GridSize& size) {
  return fmt::format("{}", fmt::join(size_parts(size), ", "));
}

SizeParts shared_parts(const std::vector<SizeParts>& sizes) {
  SizeParts shared = sizes.front();
  std::erase_if(shared, [&](const std::string& part) {
    return !std::ranges::all_of(sizes, [&](const SizeParts& s) { return std::ranges::find(s, part) != s.end(); });
  });
  return shared;
}

std::string name_without(const SizeParts& parts, const SizeParts& left_out) {
  SizeParts kept = parts;
  std::erase_if(kept, [&](const std::string& part) { return std::ranges::find(left_out, part) != left_out.end(); });
  return fmt::format("{}", fmt::join(kept, ", "));
}

}  // namespace dovetail::bench
