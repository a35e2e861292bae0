// SPDX-License-Identifier: Apache-2.0
// Lower bounds of the time of a step, from the schedule of one MoE layer: without contention and without what a plan
// copies, steps are chains of such layers. No plan with the same knobs is faster in the analytic model, however its
// gradients are sliced.
#pragma once
#include <array>

#include "models/price/price.hpp"
#include "planners/closed_form/layer_times.hpp"

namespace dovetail::planners {

// Times of one pass of one MoE layer, one micro-batch.
struct PassSample {
  Seconds chain;       // from the pass's beginning to its end
  Seconds tail;        // of that after the last op of compute
  Seconds link;        // what the stream of the all-reduces is busy, but for what may run in another pass
  Seconds early;       // backward, of the first layer it reaches: communication that need not wait for the forward pass
  Seconds host;        // what its launches take; 0 where graphs may hold them
  Seconds alone;       // what the layer really takes in its order, with contention; no bound
  double drag = 0;     // of computation on that stream
  Seconds compute;     // that drags, latencies apart
  Seconds link_fixed;  // latencies in `link`, during which nothing drags
  bool apart = false;  // reductions of gradients have streams of their own
  std::array<Seconds, 20> busy{};  // by stream, then by kind of resource, then by pair of kinds that slow each other
};
struct LayerSample {
  PassSample forward, backward;
};

// The least times of a pass under any arrangement of the same ops, by the share of a layer's rows in one chunk.
struct PassFloor {
  Seconds busiest;   // of any resource
  Seconds compute;   // all of it
  Seconds outside;   // communication that nothing of the layer can hide, when attention is not cut into chunks
  Seconds exchange;  // what all rows take there and back, latencies apart
  Seconds latency;   // of one chunk there and back, where it does not depend on the chunk's size
  Seconds launch;    // of the experts' op of a chunk

  Seconds at(int degree, double chunk_share) const;
  Seconds hidden(int degree) const;  // where other chunks may hide all communication

 private:
  Seconds of_compute(int degree) const;
};
struct LayerFloor {
  PassFloor forward, backward;
};

// The least work of the streams of communication, latencies apart.
struct StreamFloor {
  Seconds busiest;    // of any, in the whole step
  Seconds gradients;  // of that on which gradients are reduced, for those of all layers
  Seconds backward;   // of that for one layer's backward pass, without what may run beside other layers
  Seconds dragged;    // by how much one layer's backward pass at least delays that stream
};

// The rest of a step under plans of the same number of micro-batches.
class StepBound {
 public:
  StepBound(const Experiment& experiment, const Plan& plan);

  LayerSample sample(const Plan& plan) const;   // of the plan's degrees
  LayerFloor floor(const Plan& plan) const;     // whatever its degrees, scope, order and streams
  StreamFloor streams(const Plan& plan) const;  // whatever its degrees, scope and order

  Seconds of(const PassSample& forward, const PassSample& backward) const;
  Seconds of(const StreamFloor& streams, Seconds forward, Seconds backward) const;         // of one layer's passes
  Seconds of_halves(const StreamFloor& streams, Seconds forward, Seconds backward) const;  // the same, no chains
  bool halves() const { return halves_; }  // gradients of weights are made later than those of inputs
  Seconds reduced_after(const PassSample& forward, const PassSample& backward) const;  // all gradients after the step

  std::int64_t capacity() const { return times_.capacity; }
  const LayerTimes& times() const { return times_; }

 private:
  bool times_bend(const Plan& plan) const;
  PricedSchedule priced(Plan plan, const Experiment& layer) const;
  Seconds of(Seconds forward, Seconds backward) const;
  Seconds dragged(const PassSample& backward) const;

  Experiment layer_;  // one MoE layer on each stage
  Experiment least_;  // the same, with costs that no chunk undercuts
  LayerTimes times_;
  // MoE layers, micro-batches of a pipeline, MoE layers of the fullest stage.
  double moe_ = 0, parts_ = 1, of_stage_ = 0;
  int stages_ = 1;
  Seconds dense_forward_, dense_backward_;   // of all dense layers
  Seconds first_gather_;                     // of the backward pass, for the last layer's shared experts
  Seconds first_reduced_;                    // the all-reduce of the first layer's dense gradients
  Seconds dense_reduced_, experts_reduced_;  // those of all of them, and of the experts'
  Seconds reduce_fixed_;                     // latencies in all of them
  Seconds update_;
  bool training_ = true;
  bool halves_ = false;
  bool reduces_ = false;  // gradients, from one micro-batch on one stage
};

}  // namespace dovetail::planners
