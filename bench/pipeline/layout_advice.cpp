// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/layout_advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "planners/steps/least_state.hpp"

namespace dovetail::bench {
namespace {

using planners::LayoutRequest;
using planners::layouts;
using planners::ParallelLayout;

struct Size {
  const char* name;
  std::optional<int> LayoutRequest::*asked;
  int (*of)(const ParallelLayout&);
};

constexpr std::array sizes{
    Size{"pp", &LayoutRequest::pp, [](const ParallelLayout& l) { return l.groups.pp; }},
    Size{"mp", &LayoutRequest::mp, [](const ParallelLayout& l) { return l.groups.mp; }},
    Size{"dp", &LayoutRequest::dp, [](const ParallelLayout& l) { return l.groups.dp; }},
    Size{"ep", &LayoutRequest::ep, [](const ParallelLayout& l) { return l.groups.ep; }},
    Size{"esp", &LayoutRequest::esp, [](const ParallelLayout& l) { return l.groups.esp; }},
    Size{"edp", &LayoutRequest::edp, [](const ParallelLayout& l) { return l.groups.edp; }},
    Size{"micro-batch", &LayoutRequest::micro_batch, [](const ParallelLayout& l) { return l.micro_batch; }},
};

// "pp 5 (4 would)"
std::string with_nearest(const Size& size, int asked, const std::vector<ParallelLayout>& others) {
  const auto distance = [&](const ParallelLayout& layout) { return std::abs(size.of(layout) - asked); };
  const auto nearest = std::ranges::min_element(others, {}, distance);
  return fmt::format("{} {} ({} would)", size.name, asked, size.of(*nearest));
}

// Sizes that no layout has, whatever the others are.
std::vector<std::string> at_fault_alone(const Experiment& e, const LayoutRequest& request) {
  std::vector<std::string> faults;
  const std::vector<ParallelLayout> all = layouts(e, {request.global_batch});
  if (all.empty()) return faults;
  for (const Size& size : sizes) {
    LayoutRequest alone{request.global_batch};
    alone.*size.asked = request.*size.asked;
    if (request.*size.asked && layouts(e, alone).empty())
      faults.push_back(with_nearest(size, *(request.*size.asked), all));
  }
  return faults;
}

// Sizes that do not go with all of the others.
std::vector<std::string> at_fault_together(const Experiment& e, const LayoutRequest& request) {
  std::vector<std::string> faults;
  for (const Size& size : sizes) {
    if (!(request.*size.asked)) continue;
    LayoutRequest others = request;
    (others.*size.asked).reset();
    if (const std::vector<ParallelLayout> left = layouts(e, others); !left.empty())
      faults.push_back(with_nearest(size, *(request.*size.asked), left));
  }
  return faults;
}

}  // namespace

std::string sizes_at_fault(const Experiment& e, const LayoutRequest& request) {
  if (const std::vector<std::string> alone = at_fault_alone(e, request); !alone.empty())
    return fmt::format("{}", fmt::join(alone, ", "));
  return fmt::format("{}", fmt::join(at_fault_together(e, request), " or "));
}

std::optional<int> enough_nodes(const Experiment& e, const LayoutRequest& request, Bytes limit) {
  constexpr int most = 1024;  // times the nodes that there are
  Experiment larger = e;
  for (int times = 2; times <= most; times *= 2) {
    larger.cluster.nodes = times * e.cluster.nodes;
    for (const ParallelLayout& layout : layouts(larger, request))
      if (planners::least_state(planners::with_layout(larger, layout), 1) <= limit) return larger.cluster.nodes;
  }
  return {};
}

}  // namespace dovetail::bench
