// SPDX-License-Identifier: Apache-2.0
// The work of the ops before and after a model's layers. No cost model.
#pragma once
#include "models/question/experiment.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/schedule_writer.hpp"
#include "models/schedule/work.hpp"

namespace dovetail {

class EndWork {
 public:
  // `layer`: the sizes of a layer's tokens. Shapes of kernels go to `writer`, whose schedule the works are for.
  EndWork(const EndVolumes& ends, const LayerVolumes& layer, const Experiment& experiment, ScheduleWriter& writer)
      : ends_(ends),
        v_(layer),
        framework_(experiment.framework),
        writer_(writer),
        size_(size_of(experiment.workload.dtype)),
        gradient_(size_of(experiment.workload.gradient_dtype())) {}

  // Forward: a row is read and written for each token. Backward: a row is added to the gradient of its word; with a
  // framework that makes this gradient as a matrix of its own, that is written and added too.
  KernelWork embedding(Phase phase) const;
  KernelWork head(Phase phase) const;  // a product (L, V / mp); two in the backward pass
  // One pass over the logits finds what the softmax of a row needs; a second one replaces them by their gradient. A
  // framework may make more passes, which are halved over both.
  KernelWork statistics() const;
  KernelWork loss(bool gradient) const;
  ExchangeWork gather_statistics(std::int64_t elements) const;  // fp32, over the model-parallel ranks

 private:
  double rows() const { return static_cast<double>(v_.sequence_tokens * v_.hidden); }
  double logits() const { return static_cast<double>(v_.sequence_tokens * ends_.words); }

  const EndVolumes& ends_;
  const LayerVolumes& v_;
  const TrainingFramework& framework_;
  ScheduleWriter& writer_;
  Bytes size_, gradient_;  // of an element, and of one of a gradient
};

}  // namespace dovetail
