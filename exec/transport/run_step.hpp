// One step of a collective on one rank.
#pragma once
#include <span>

#include "exec/transport/transport.hpp"
#include "models/plan/collectives/step.hpp"

namespace dovetail::exec {

template <class Scalar>
struct StepBuffers {
  std::span<const Scalar> source;  // step.source_blocks() blocks
  std::span<Scalar> target;        // step.target_blocks() blocks of the same size
};

// Returns the latest `ready` of the members. What this rank gets no block for is left as it was. Throws InternalError
// for buffers of other sizes than the step's.
template <class Scalar>
double run_step(const CollectiveStep& step, const StepBuffers<Scalar>& buffers, Communicator& communicator,
                double ready);

}  // namespace dovetail::exec
