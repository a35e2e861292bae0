// SPDX-License-Identifier: Apache-2.0
// An expert of the user's own (FSMoE section 3.1: Expert, and listing 1). A class that derives from CustomExpert takes
// the place of the model's routed experts; dense layers and shared experts stay the model's.
//
// - Numbers are double, whatever the run's format: the library converts. All arrays are row-major.
// - Spans belong to the library and are valid during the call alone.
// - Functions are called from many threads at once, for other ranks, layers and experts. A call has rows of one expert,
//   as many as the plan puts together. Each row's result may depend on that row and the parameters alone. Rows that no
//   token has taken are 0 and are computed all the same; their results are not used, and their gradients are 0.
// - An exception ends the step with the name of the op.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "models/extend/stated_work.hpp"

namespace dovetail {

struct ExpertSizes {
  std::int64_t hidden = 0;  // M, elements of a row
  std::int64_t inner = 0;   // S: the model's expert_hidden, over `shards`
  std::int64_t shards = 1;  // ranks that share each expert (parallelism.esp)
};

class CustomExpert {
 public:
  virtual ~CustomExpert() = default;
  virtual std::string name() const = 0;

  // Whether an expert may be cut into shards whose results add up to its result. A call then has one shard, with
  // parameters of its own; else parallelism.esp must be 1.
  virtual bool has_shards() const { return false; }

  // Numbers that one expert, or one shard of it, learns: at least 1.
  virtual std::int64_t parameters(const ExpertSizes& sizes) const = 0;
  // The standard deviation of the random number that parameter `index` starts a run with.
  virtual double deviation(const ExpertSizes& sizes, std::int64_t index) const;
  // Numbers that forward() leaves of each row for backward(); 0: none. (Steps keep at least one.)
  virtual std::int64_t kept(const ExpertSizes& sizes) const = 0;

  // Writes the results (rows, M) of rows (rows, M), and what is kept (rows, kept).
  virtual void forward(const ExpertSizes& sizes, std::span<const double> rows, std::span<const double> parameters,
                       std::span<double> results, std::span<double> kept) const = 0;

  // From the loss's gradient by the results (rows, M) that by the rows, which is written, and by the parameters, which
  // is added to.
  virtual void backward(const ExpertSizes& sizes, std::span<const double> rows, std::span<const double> parameters,
                        std::span<const double> kept, std::span<const double> d_results, std::span<double> d_rows,
                        std::span<double> d_parameters) const = 0;

  // The work of one op: `rows` rows, evenly over `experts` experts or shards of a rank. Plan.layout makes no
  // difference.
  virtual StatedWork forward_work(const ExpertSizes& sizes, std::int64_t experts, std::int64_t rows) const = 0;
  virtual StatedWork backward_work(const ExpertSizes& sizes, std::int64_t experts, std::int64_t rows) const = 0;
};

}  // namespace dovetail
