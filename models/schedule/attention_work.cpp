// SPDX-License-Identifier: Apache-2.0
// The work of attention, its projections and the norms of its queries and keys.
#include <cmath>
#include <utility>

#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail {
namespace {

// Elements read and written for each score by the eager kernels between the products. Forward: the scale, the mask and
// the softmax read and write each. Backward: the softmax reads probabilities and their gradients and writes those of
// the scores; mask and scale read and write each. There is no dropout.
constexpr double scale_pass = 2, mask_pass = 2, softmax_pass = 2, softmax_backward_pass = 3;
constexpr int rotary_kernels = 2;  // of queries, and of keys
// An output gate reads the result and its own logits and writes what the projection reads. Backward: it reads the
// gradient with both, and writes theirs.
constexpr double gate_pass = 3, gate_backward_pass = 5;
// An index writes its scores and reads them to choose. Backward: it reads them and writes their gradients.
constexpr double index_pass = 2;

int small_kernels(OpKind kind, Phase phase) {
  return entry_of(kind).small.of(phase);
}

}  // namespace

void OpWork::set_share(double share, KernelList& kernels, MemoryPasses& memory) const {
  kernels.set_share(share);
  memory.share = share;
}

// The op has `small` launches of small kernels in a layer with attention, and so many in one with a recurrence.
// launches_of() counts those of the op's kind, less what is elsewhere.
KernelWork OpWork::in_mean(KernelWork work, int small, int of_recurrence) const {
  if (!recurrent()) return work;  // all layers have attention
  const int left = small - work.elsewhere;
  const double attention = v_.attention_share + v_.windowed.share;
  work.elsewhere = small - static_cast<int>(std::lround(attention * left + v_.recurrence_share * of_recurrence));
  return work;
}

template <class Add>
void OpWork::for_heads(KernelList& kernels, MemoryPasses& memory, Add add) const {
  if (v_.windowed.share > 0) {
    set_share(v_.windowed.share, kernels, memory);
    add(v_.windowed);
  }
  set_share(v_.attention_share, kernels, memory);
  if (v_.attention_share > 0) add(v_.whole_heads());
}

// Projections of layers of either kind. Leaves the share of attention.
void OpWork::add_all_projections(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  if (recurrent()) {
    kernels.set_share(v_.recurrence_share);
    add_recurrence_projections(kernels, phase);
  }
  if (model_.attention.kind == AttentionKind::GroupedQuery) {
    for_heads(kernels, memory, [&](const HeadVolumes& heads) {
      kernels.add_product(phase, v_.sequence_tokens,
                          heads.projected_width() + gate_columns(model_.attention, heads.heads), v_.hidden);
    });
    return;
  }
  set_share(v_.attention_share, kernels, memory);
  add_up_projections(kernels, phase);
}

// Latent attention makes them from its low ranks, which down_projection() is the work of.
void OpWork::add_up_projections(KernelList& kernels, Phase phase) const {
  const Attention& a = model_.attention;
  const auto project = [&](std::int64_t columns, std::int64_t inner) {
    kernels.add_product(phase, v_.sequence_tokens, columns, inner);
  };
  if (a.gate != OutputGate::None) project(gate_columns(a, v_.query_heads), v_.hidden);
  project(v_.query_width, a.q_rank > 0 ? a.q_rank : v_.hidden);
  project(v_.query_heads * (std::int64_t{a.nope_size} + a.value_size), a.kv_rank);
}

// Each rank of its own tokens. The small kernels of a projection are those of the one up.
KernelWork OpWork::down_projection(Phase phase) const {
  const Attention& a = model_.attention;
  KernelList kernels = product_list();
  kernels.set_share(v_.attention_share);
  if (a.q_rank > 0) kernels.add_product(phase, v_.tokens, a.q_rank, v_.hidden);
  kernels.add_product(phase, v_.tokens, a.kv_rank + a.rope_size, v_.hidden);
  KernelWork work = of(kernels);
  work.elsewhere = entry_of(OpKind::Projection).small.of(phase);
  return work;
}

// Attention or states. Leaves the share of attention.
void OpWork::add_core(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  if (recurrent()) {
    set_share(v_.recurrence_share, kernels, memory);
    add_states(kernels, phase, memory);
  }
  add_index(kernels, phase, memory);
  if (!makes_inputs()) return;
  for_heads(kernels, memory, [&](const HeadVolumes& heads) {
    if (workload_.attention == AttentionKernel::Eager)
      add_eager(heads, kernels, phase, memory);
    else
      add_flash(heads, kernels, phase);
    add_output_gate(heads, phase, memory);
  });
}

void OpWork::add_output_gate(const HeadVolumes& heads, Phase phase, MemoryPasses& memory) const {
  if (model_.attention.gate == OutputGate::None) return;
  const double passes = phase == Phase::Forward ? gate_pass : gate_backward_pass;
  memory.add(passes * static_cast<double>(v_.sequence_tokens * heads.value_width()) * size_);
}

// Every rank has the whole index: its queries, its keys, its heads' weights, and the scores of earlier positions.
void OpWork::add_index(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  const Attention& a = model_.attention;
  if (v_.index_share == 0) return;
  set_share(v_.index_share, kernels, memory);
  const std::int64_t width = std::int64_t{a.index.heads} * a.index.size;
  kernels.add_product(phase, v_.sequence_tokens, width, a.q_rank > 0 ? a.q_rank : v_.hidden);
  kernels.add_product(phase, v_.sequence_tokens, a.index.size + a.index.heads, v_.hidden);
  if (!makes_inputs()) return;
  const std::int64_t queries = v_.sequence_tokens / workload_.batch;
  const double seen = workload_.causal ? .5 : 1, gradients = phase == Phase::Forward ? 1 : 2;
  kernels.add(gemm_shape(queries, v_.sequence, a.index.size, std::int64_t{workload_.batch} * a.index.heads),
              seen * gradients);
  memory.add(index_pass * seen * static_cast<double>(v_.sequence_tokens * v_.sequence) * size_of(DType::Fp32));
}

void OpWork::add_scores(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  kernels.set_dtype({});
  add_core(kernels, phase, memory);
  kernels.set_dtype(products_);
  for_heads(kernels, memory, [&](const HeadVolumes& heads) {
    kernels.add_product(phase, v_.sequence_tokens, v_.hidden, heads.value_width());
  });
  if (!recurrent()) return;
  set_share(v_.recurrence_share, kernels, memory);
  const TokenProduct output = recurrence_sizes(model_.recurrence, v_.hidden, v_.mp).output;
  kernels.add_product(phase, v_.sequence_tokens, output.columns, output.inner);
}

// A chunk of positions sees all earlier ones: its kernel is a part of that of the whole sequence. The shape is that of
// a causal kernel, and one without a mask is taken to be as many times longer as it has more flops.
void OpWork::add_flash(const HeadVolumes& heads, KernelList& kernels, Phase phase) const {
  const std::int64_t kv_heads = model_.attention.kind == AttentionKind::Latent ? heads.heads : heads.key_heads;
  const std::int64_t head_size = (heads.head_size + heads.value_size) / 2;
  const KernelShape whole = attention_shape(workload_.batch, v_.sequence, heads.heads, kv_heads, head_size);
  const double share = heads.score_flops / flops(whole) / heads.share;  // of a layer that has them
  kernels.add(phase == Phase::Forward ? whole : as_kind(whole, KernelKind::AttentionBackward), share);
}

// Queries of each head by all keys, whatever the mask, and probabilities by values. Heads that share keys repeat them.
void OpWork::add_eager(const HeadVolumes& heads, KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  const std::int64_t queries = v_.sequence_tokens / workload_.batch, groups = workload_.batch * heads.heads;
  const auto add = [&](std::int64_t columns, std::int64_t inner) {
    kernels.add_product(phase, queries, columns, inner, groups);
  };
  kernels.set_half(Half::Both);  // none of these is of weights
  add(v_.sequence, heads.head_size);
  add(heads.value_size, v_.sequence);
  kernels.set_half(half_);
  const Bytes scores = static_cast<double>(queries * groups * v_.sequence) * size_;
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
  if (v_.windowed.share == 0) return;
  const double share = std::exchange(memory.share, v_.windowed.share);
  turn(v_.windowed.query_width());
  turn(v_.windowed.key_width());
  memory.share = share;
}

// Latent attention norms its low ranks, before it makes queries and keys of them.
bool OpWork::turned_after_norm() const {
  return v_.query_key_normed > 0 && model_.attention.kind != AttentionKind::Latent;
}

KernelWork OpWork::attention(Phase phase) const {
  KernelList kernels = product_list();
  MemoryPasses memory;
  add_all_projections(kernels, phase, memory);
  add_rotary(memory);
  add_scores(kernels, phase, memory);
  const int small = small_kernels(OpKind::Attention, phase) + small_kernels(OpKind::Projection, phase);
  return in_mean(without_norm(of(kernels, memory), phase), small, recurrence_passes(phase));
}

KernelWork OpWork::projection(Phase phase) const {
  KernelList kernels = product_list();
  MemoryPasses memory;
  add_all_projections(kernels, phase, memory);
  if (!turned_after_norm()) add_rotary(memory);
  KernelWork work = without_norm(of(kernels, memory), phase);
  if (turned_after_norm()) work.elsewhere += rotary_kernels;
  return in_mean(work, small_kernels(OpKind::Projection, phase), 0);
}

KernelWork OpWork::attention_chunk(Phase phase) const {
  KernelList kernels(widens_, {}, half_);
  MemoryPasses memory;
  add_scores(kernels, phase, memory);
  return in_mean(of(kernels, memory), small_kernels(OpKind::Attention, phase), recurrence_passes(phase));
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
  turns.share = v_.attention_share;
  add_rotary(turns);
  work.memory_traffic += turns.traffic;
  if (turns.kernels > 0) work.memory_kernels += turns.launches();
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
  return in_mean(of(kernels, memory), small_kernels(OpKind::Attention, Phase::Forward),
                 recurrence_passes(Phase::Forward));
}

}  // namespace dovetail
