// SPDX-License-Identifier: Apache-2.0
// The work of attention, its projections and the norms of its queries and keys.
#include "models/schedule/op_table.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail {
namespace {

// Elements read and written for each score by the eager kernels between the products. Forward: the scale, the mask and
// the softmax read and write each. Backward: the softmax reads probabilities and their gradients and writes those of
// the scores; mask and scale read and write each. There is no dropout.
constexpr double scale_pass = 2, mask_pass = 2, softmax_pass = 2, softmax_backward_pass = 3;
constexpr int rotary_kernels = 2;  // of queries, and of keys

}  // namespace

// Latent attention makes them from its low ranks, which down_projection() is the work of.
void OpWork::add_projections(KernelList& kernels, Phase phase) const {
  const Attention& a = model_.attention;
  const auto project = [&](std::int64_t columns, std::int64_t inner) {
    kernels.add_product(phase, v_.sequence_tokens, columns, inner);
  };
  if (a.kind == AttentionKind::GroupedQuery) return project(v_.query_width + 2 * v_.key_value_width, v_.hidden);
  project(v_.query_width, a.q_rank > 0 ? a.q_rank : v_.hidden);
  project(v_.query_heads * (std::int64_t{a.nope_size} + a.value_size), a.kv_rank);
}

// Each rank of its own tokens. The small kernels of a projection are those of the one up.
KernelWork OpWork::down_projection(Phase phase) const {
  const Attention& a = model_.attention;
  KernelList kernels = product_list();
  if (a.q_rank > 0) kernels.add_product(phase, v_.tokens, a.q_rank, v_.hidden);
  kernels.add_product(phase, v_.tokens, a.kv_rank + a.rope_size, v_.hidden);
  KernelWork work = of(kernels);
  work.elsewhere = entry_of(OpKind::Projection).small.of(phase);
  return work;
}

void OpWork::add_core(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  if (!makes_inputs()) return;
  if (workload_.attention == AttentionKernel::Eager)
    add_eager(kernels, phase, memory);
  else
    add_flash(kernels, phase);
}

void OpWork::add_scores(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  kernels.set_dtype({});
  add_core(kernels, phase, memory);
  kernels.set_dtype(products_);
  kernels.add_product(phase, v_.sequence_tokens, v_.hidden, v_.context_width);
}

// A chunk of positions sees all earlier ones: its kernel is a part of that of the whole sequence. The shape is that of
// a causal kernel, and one without a mask is taken to be as many times longer as it has more flops.
void OpWork::add_flash(KernelList& kernels, Phase phase) const {
  const Attention& a = model_.attention;
  const std::int64_t kv_heads = a.kind == AttentionKind::Latent ? v_.query_heads : v_.key_value_width / a.head_size;
  const std::int64_t head_size = (v_.query_width + v_.context_width) / (2 * v_.query_heads);
  const KernelShape whole = attention_shape(workload_.batch, v_.sequence, v_.query_heads, kv_heads, head_size);
  const double share = v_.attention_score_flops / flops(whole);
  kernels.add(phase == Phase::Forward ? whole : as_kind(whole, KernelKind::AttentionBackward), share);
}

// Queries of each head by all keys, whatever the mask, and probabilities by values. Heads that share keys repeat them.
void OpWork::add_eager(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  const std::int64_t queries = v_.sequence_tokens / workload_.batch, groups = workload_.batch * v_.query_heads;
  const auto add = [&](std::int64_t columns, std::int64_t inner) {
    kernels.add_product(phase, queries, columns, inner, groups);
  };
  kernels.set_half(Half::Both);  // none of these is of weights
  add(v_.sequence, v_.query_width / v_.query_heads);
  add(v_.context_width / v_.query_heads, v_.sequence);
  kernels.set_half(half_);
  const Bytes scores = static_cast<double>(v_.score_elements()) * size_;
  memory.add(scores * scale_pass);
  if (workload_.causal) memory.add(scores * mask_pass);
  memory.add(scores * (phase == Phase::Forward ? softmax_pass : softmax_backward_pass));
}

// Each element of queries and keys that has a position is read and written, in both passes.
void OpWork::add_rotary(MemoryPasses& memory) const {
  if (!workload_.whole_layers() || !makes_inputs()) return;
  const Attention& a = model_.attention;
  const auto turn = [&](std::int64_t width) {
    memory.add(static_cast<double>(2 * v_.sequence_tokens * width) * size_);
  };
  const bool latent = a.kind == AttentionKind::Latent;  // of which one key serves all heads
  turn(latent ? v_.query_heads * a.rope_size : v_.query_width);
  turn(latent ? a.rope_size : v_.key_value_width);
}

// Latent attention norms its low ranks, before it makes queries and keys of them.
bool OpWork::turned_after_norm() const {
  return v_.query_key_normed > 0 && model_.attention.kind != AttentionKind::Latent;
}

KernelWork OpWork::attention(Phase phase) const {
  KernelList kernels = product_list();
  MemoryPasses memory;
  add_projections(kernels, phase);
  add_rotary(memory);
  add_scores(kernels, phase, memory);
  return without_norm(of(kernels, memory), phase);
}

KernelWork OpWork::projection(Phase phase) const {
  KernelList kernels = product_list();
  MemoryPasses memory;
  add_projections(kernels, phase);
  if (!turned_after_norm()) add_rotary(memory);
  KernelWork work = without_norm(of(kernels, memory), phase);
  if (turned_after_norm()) work.elsewhere += rotary_kernels;
  return work;
}

KernelWork OpWork::attention_chunk(Phase phase) const {
  KernelList kernels(widens_, {}, half_);
  MemoryPasses memory;
  add_scores(kernels, phase, memory);
  return of(kernels, memory);
}

// Backward: the gradient of the result and the input are read, and that of the input is written.
KernelWork OpWork::query_key_norm(Phase phase) const {
  KernelWork work = memory((phase == Phase::Forward ? 2 : 3) * v_.query_key_normed_elements());
  if (!turned_after_norm()) {
    work.elsewhere = rotary_kernels;
    return work;
  }
  if (sums_over_ranks() && phase == Phase::Backward)
    work.elsewhere = rotary_kernels;
  else
    add_turns(work);
  return work;
}

void OpWork::add_turns(KernelWork& work) const {
  MemoryPasses turns;
  add_rotary(turns);
  work.memory_traffic += turns.traffic;
  work.memory_kernels += turns.kernels;
}

bool OpWork::sums_over_ranks() const {
  return v_.query_key_normed > 0 && model_.attention.qk_norm == QkNorm::Width &&
         v_.query_heads < model_.attention.heads;
}

// Queries and keys are read; backward their gradients too, which are turned back first. A kernel for each.
KernelWork OpWork::query_key_sums(Phase phase) const {
  KernelWork work = memory((phase == Phase::Forward ? 1 : 2) * v_.query_key_normed_elements());
  work.elsewhere = 2;
  if (phase == Phase::Backward) add_turns(work);
  return work;
}

ExchangeWork OpWork::sum_over_ranks() const {
  ExchangeWork work = collective(Collective::AllReduce, GroupKind::Mp, 0);
  work.message = static_cast<double>(2 * v_.sequence_tokens) * size_of(DType::Fp32);
  return work;
}

KernelWork OpWork::core_attention() const {
  KernelList kernels(widens_);
  MemoryPasses memory;
  add_core(kernels, Phase::Forward, memory);
  return of(kernels, memory);
}

}  // namespace dovetail
