// SPDX-License-Identifier: Apache-2.0
// The least that a layer of one layout takes and holds for each micro-batch, whatever the plan: read off schedules of
// two layers, one for each way to move rows.
//
// A layer's compute ops run one after the other, and these are the arguments why no plan takes less:
//   - Attention, dense parts, norms and routing are never cut unless attention is (scope block), so that each takes
//     its own kernels' time, or the least of it by any encoding and any place of the scores.
//   - Experts take the time of the fastest way to cut their rows (least_experts.hpp).
//   - Rows are exchanged between two ops of routing, which wait for all of them. So experts and exchanges together take
//     at least what the busiest link takes, and both one after the other if rows are in one chunk.
//   - Model-parallel collectives stand between two ops of the layer's chain, each of which needs the other's result.
//     Collectives that may run beside another unit or another part are left out.
//   - What is computed again comes on top, but for as much as the gathers of gradients may hide.
// Rows that a micro-batch holds between its passes are those that the backward pass reads, less what each recomputed
// part and each way to restore rows frees.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "planners/layouts/least_experts.hpp"

namespace dovetail::planners {

// How a plan gets along with fewer rows.
struct KeepingWay {
  EnumSet<Recompute> parts = {};
  Restore restore = Restore::Keep;
};

// One layer takes and holds so much for a micro-batch.
struct PassesLeast {
  Seconds passes;                 // both, with nothing computed again
  Seconds paired;                 // both, where exchanges may run beside other work
  Seconds at_border;              // of these: what may run beside another micro-batch, once for each virtual stage
  std::vector<Seconds> again;     // by way: what it takes longer
  std::vector<Seconds> copied;    // by way: to the host and back, beside all else
  std::vector<Bytes> held;        // by way
  std::vector<Bytes> made_again;  // by way: rows that the backward pass of a layer makes before it frees any
};

struct StageFloor {
  std::vector<KeepingWay> ways;  // the first one keeps everything
  PassesLeast dense, moe;
  Seconds head;     // and all else that the last stage has beside layers; the embedding's time is left out
  Bytes head_rows;  // that one of its ops reads and writes, between the passes of the layers
};

// How much of a plan counts, each with what is before it: what is computed at the best rates, at those of its shapes,
// what is exchanged with the experts, and what does not fit unless it is made again.
enum class FloorDetail { Rates, Shapes, Exchanges, Whole };
constexpr FloorDetail next(FloorDetail detail) {
  return detail == FloorDetail::Whole ? detail : static_cast<FloorDetail>(static_cast<int>(detail) + 1);
}

class StageFloors {
 public:
  using Hold = std::function<void(Plan&)>;

  // `base`: what plans have where the search leaves a knob alone. Plans with knobs that `hold` changes do not count.
  StageFloors(const Experiment& experiment, const Plan& base, const Hold& hold);

  // The experiment is laid out, and its batch is one micro-batch. Null: no schedule is asked, or none tells, since the
  // question has parts whose work nobody knows or no plan could be built.
  const StageFloor* of(const Experiment& micro_batch, FloorDetail detail);

 private:
  // `alike`: the stage's groups lie as in the whole cluster.
  StageFloor look_at(const Experiment& stage, bool alike, FloorDetail detail) const;

  const Experiment& experiment_;
  Plan base_;
  const Hold& hold_;
  int most_degree_;
  LeastExperts experts_;
  std::map<std::pair<std::vector<std::int64_t>, FloorDetail>, StageFloor> known_;
};

}  // namespace dovetail::planners
