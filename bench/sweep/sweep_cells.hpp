// SPDX-License-Identifier: Apache-2.0
// From the number of a cell of a sweep to its line in the result.
#pragma once
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/pipeline/evaluate.hpp"
#include "bench/sweep/sweep_grid.hpp"
#include "models/files/known_parts.hpp"

namespace dovetail::bench {

// Keeps what neighbouring cells share, so that files are read once and not in every cell. The grid must outlive it.
class SweepCells {
 public:
  explicit SweepCells(const SweepGrid& grid);

  // The line of a cell: its settings with its results, or why it was refused. The same input gives the same bytes,
  // whatever was asked before.
  std::string line(std::int64_t cell);

 private:
  using Parts = std::pair<ExperimentRequest, ExperimentParts>;

  SystemResult result_of(const Candidate& system, Evaluation& evaluation) const;
  Evaluation& ask(const ExperimentRequest& request);
  const ExperimentParts& parts_of(const ExperimentRequest& request);
  void add_interval(const SystemResult& result, nlohmann::ordered_json& json) const;
  const nlohmann::ordered_json& knobs_of(const Plan& plan);

  const SweepGrid& grid_;
  std::unique_ptr<Backend> backend_;
  std::vector<Candidate> systems_;
  KnownParts known_parts_;
  std::vector<Parts> parts_;
  std::optional<ExperimentRequest> asked_;
  Question question_;
  std::optional<Evaluation> evaluation_;  // of question_
  std::optional<Plan> described_;         // by knobs_
  nlohmann::ordered_json knobs_;
};

}  // namespace dovetail::bench
