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
  return memory_bound((phase == Phase::Forward ? 2 : 3) * rows(), size_);
}

KernelWork EndWork::head(Phase phase) const {
  KernelList kernels;
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
  return memory_bound(logits(), size_);
}

KernelWork EndWork::loss(bool gradient) const {
  return memory_bound(gradient ? 2 * logits() : static_cast<double>(v_.sequence_tokens), size_);
}

ExchangeWork EndWork::gather_statistics(std::int64_t elements) const {
  ExchangeWork work;
  work.collective = Collective::AllGather;
  work.group = GroupKind::Mp;
  work.message = static_cast<double>(elements) * size_of(DType::Fp32);
  return work;
}

}  // namespace dovetail
