// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/end_work.hpp"

#include "models/schedule/op_work.hpp"

namespace dovetail {
namespace {

KernelWork memory_bound(double elements, Bytes size) {
  KernelWork work;
  work.memory_traffic = elements * size;
  return work;
}

}  // namespace

KernelWork EndWork::embedding(Phase phase) const {
  KernelWork work = memory_bound((phase == Phase::Forward ? 2 : 3) * rows(), size_);
  if (phase == Phase::Forward || !framework_.dense_embedding_gradient) return work;
  // The matrix is set to zero and read, and the gradients that add up are read and written.
  const auto words = static_cast<double>(ends_.embedding_parameters);
  work.memory_traffic += words * (2 * size_ + 2 * gradient_);
  work.memory_kernels = 3;
  return work;
}

KernelWork EndWork::head(Phase phase) const {
  KernelList kernels(gradient_ > size_);
  kernels.add_product(phase, v_.sequence_tokens, ends_.words, v_.hidden);
  KernelWork work;
  for (const KernelUse& kernel : kernels.all()) {
    work.flops += kernel.times * flops(kernel.shape);
    work.gemms += kernel.launches;
  }
  work.kernels = writer_.add_kernels(kernels.all());
  return work;
}

KernelWork EndWork::statistics() const {
  if (framework_.passes.logits > 0) return memory_bound(logits() * .5 * framework_.passes.logits, Bytes(1));
  return memory_bound(logits(), size_);
}

KernelWork EndWork::loss(bool gradient) const {
  if (!gradient) return memory_bound(static_cast<double>(v_.sequence_tokens), size_);
  if (framework_.passes.logits > 0) return memory_bound(logits() * .5 * framework_.passes.logits, Bytes(1));
  return memory_bound(2 * logits(), size_);
}

ExchangeWork EndWork::gather_statistics(std::int64_t elements) const {
  ExchangeWork work;
  work.collective = Collective::AllGather;
  work.group = GroupKind::Mp;
  work.message = static_cast<double>(elements) * size_of(DType::Fp32);
  return work;
}

}  // namespace dovetail
