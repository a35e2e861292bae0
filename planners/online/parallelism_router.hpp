// SPDX-License-Identifier: Apache-2.0
// Tutel's choice between gathering weights and repeating rows (section 3.2): whatever moves least in this step, by
// sizes alone. Ranks keep the same shards of experts under all of them, so a change costs nothing.
#pragma once
#include <span>
#include <vector>

#include "planners/online/online.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

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

// Tutel's cost of a sharding: the bytes that a rank's rows have in one all-to-all of a layer, and those of the weights
// that it gathers (T_data, T_model) or, with ep, of the rows.
Bytes moved_size(const Experiment& experiment, const Plan& plan);
// The same as a line over the capacity factor.
LoadLine size_line(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::planners
