// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout.hpp"

#include <tuple>

#include "models/question/capacity.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

auto sizes_of(const ParallelLayout& l) {
  const Parallelism& p = l.groups;
  return std::tuple(p.pp, p.mp, p.dp, p.ep, p.esp, p.edp, p.token_repeats(), l.micro_batch, l.micro_batches);
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

// The divisors of `number` that the request leaves.
std::vector<int> sizes(int number, std::optional<int> given) {
  if (!given) return divisors(number);
  return number % *given == 0 ? std::vector{*given} : std::vector<int>{};
}

bool allowed(const Parallelism& groups, const Experiment& e) {
  return !refusal_of([&] { validate(groups, e.cluster, e.model); });
}

class Enumeration {
 public:
  Enumeration(const Experiment& experiment, const LayoutRequest& request) : e_(experiment), request_(request) {}

  std::vector<ParallelLayout> run() {
    for (const int pp : sizes(e_.cluster.gpus(), request_.pp))
      if (pp <= e_.workload.all_layers()) add_stages(pp);
    return std::move(found_);
  }

 private:
  void add_stages(int pp) {
    const int ranks = e_.cluster.gpus() / pp;
    for (const int mp : sizes(ranks, request_.mp)) {
      const int dp = ranks / mp;
      if (!request_.mp && e_.cluster.gpus_per_node % mp != 0) continue;
      if (request_.global_batch % dp != 0 || (request_.dp && *request_.dp != dp)) continue;
      Parallelism groups = e_.parallelism;
      groups.pp = pp;
      groups.mp = mp;
      groups.dp = dp;
      add_experts(groups, ranks);
    }
  }

  void add_experts(Parallelism groups, int ranks) {
    for (const int esp : e_.model.dense() ? std::vector{1} : sizes(ranks, request_.esp)) {
      if (!request_.esp && e_.cluster.gpus_per_node % esp != 0) continue;
      for (const int ep : e_.model.dense() ? std::vector{1} : sizes(ranks / esp, request_.ep)) {
        groups.esp = esp;
        groups.ep = ep;
        groups.edp = ranks / esp / ep;
        if (request_.edp && *request_.edp != groups.edp) continue;
        if (allowed(groups, e_)) add_micro_batches(groups);
      }
    }
  }

  void add_micro_batches(const Parallelism& groups) {
    const int samples = request_.global_batch / groups.dp;
    for (const int micro_batch : sizes(samples, request_.micro_batch))
      if (std::int64_t{micro_batch} * e_.workload.sequence % groups.token_shares() == 0)
        found_.push_back({groups, micro_batch, samples / micro_batch});
  }

  const Experiment& e_;
  const LayoutRequest& request_;
  std::vector<ParallelLayout> found_;
};

}  // namespace

bool operator==(const ParallelLayout& a, const ParallelLayout& b) {
  return sizes_of(a) == sizes_of(b);
}

std::vector<ParallelLayout> layouts(const Experiment& experiment, const LayoutRequest& request) {
  return Enumeration(experiment, request).run();
}

Experiment with_layout(const Experiment& experiment, const ParallelLayout& layout) {
  Experiment e = experiment;
  e.parallelism = layout.groups;
  e.workload.batch = layout.micro_batch * layout.micro_batches;
  e.workload.router_loads.clear();
  resolve_capacity(e);
  return e;
}

}  // namespace dovetail::planners
