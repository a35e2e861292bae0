// Tutel's choice between gathering weights and repeating rows (section 3.2): whatever moves least in this step. Ranks
// keep the same shards of experts under all of them, so a change costs nothing.
#pragma once
#include <span>
#include <vector>

#include "planners/online/online.hpp"
#include "planners/planner.hpp"

namespace dovetail::planners {

// Tutel's rule in bytes, of a rank and top 1: with ep_mp its rows go to all `shards` of an expert, with ep_dp they go
// once and the expert's parameters are gathered (and their gradients scattered). True: ep_mp.
constexpr bool repeats_rows(int shards, Bytes rows, Bytes expert_parameters) {
  return rows * shards < rows + expert_parameters;
}

// Picks the line that is lowest at the step's load: O(strategies), nothing to learn.
class ParallelismRouter final : public OnlinePlanner {
 public:
  explicit ParallelismRouter(OnlineSettings settings);
  std::string_view name() const override { return "parallelism_router"; }

 private:
  std::size_t pick(double load) override;
  void learn(double, std::size_t, Seconds) override {}
  void write(nlohmann::ordered_json&) const override {}
  void read(const JsonReader&) override {}
};

// The base plan with each way to shard that this experiment allows: ep (rows gathered in the node), ep_dp, and ep_mp
// with rows repeated to every divisor of esp above 1. The base plan alone where experts are not sharded.
std::vector<Plan> sharding_plans(const Experiment& experiment, const Plan& base);
std::string sharding_name(const Plan& plan);  // "ep_mp 2"

// Links of one step that sharding decides: rows exchanged, gathered and scattered, weights gathered and their
// gradients scattered, one after another.
Seconds link_time(const Experiment& experiment, const Plan& plan);
// The same as a line over the capacity factor.
LoadLine link_line(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::planners
