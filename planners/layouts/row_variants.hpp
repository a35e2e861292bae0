// SPDX-License-Identifier: Apache-2.0
// The plans that get rows to their experts and back in other ways, with all that the user holds.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

class RowVariants {
 public:
  using Hold = std::function<void(Plan&)>;

  // On a stage by itself. All three must live as long.
  RowVariants(const Experiment& stage, const Plan& base, const Hold& hold);

  // The plan with what the user holds, but for how it is arranged. Empty: it cannot be built.
  std::optional<Plan> legal(const Plan& plan) const;

  // For each way to share experts: the plans with each exchange of rows, or with the base's alone.
  std::vector<std::vector<Plan>> sharded(bool all_exchanges) const;
  // The plans whose rows get to their experts and back in another way, by the same exchanges.
  std::vector<Plan> encoded() const;
  // The plan with its rows in 2 chunks, in 3 and so on.
  std::vector<Plan> in_chunks(Plan plan, int most_degree) const;
  // The plans that cut attention.
  std::vector<Plan> blocks(int most_degree) const;
  // The plan that holds least of all these.
  Plan lean() const;

 private:
  void add(const Plan& plan, std::vector<Plan>& found) const;
  Plan in_own_rows(const Plan& plan) const;
  std::vector<Plan> shardings() const;

  const Experiment& stage_;
  Plan base_;
  const Hold& hold_;
};

}  // namespace dovetail::planners
