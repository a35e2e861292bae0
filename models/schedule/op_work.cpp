// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/op_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr double gated_matrices = 3;
constexpr int norm_gradients = 2;  // kernels: of the input, and of the weights

}  // namespace

void KernelList::add(const KernelShape& shape, double times, int launches, std::int64_t readers) {
  check(count_ < kernels_.size(), "an op of more kernels than a list holds");
  kernels_[count_++] = {shape, share_ * times, launches, dtype_, readers};
  launches_ += share_ * launches;
}

int KernelList::launches() const {
  return static_cast<int>(std::lround(launches_));
}

void KernelList::add_product(Phase phase, std::int64_t rows, std::int64_t columns, std::int64_t inner,
                             std::int64_t groups) {
  if (phase == Phase::Forward) return add(gemm_shape(rows, columns, inner, groups));
  if (half_ != Half::Weights) add(gemm_shape(rows, inner, columns, groups));
  if (half_ == Half::Inputs) return;
  const KernelShape weights = gemm_shape(inner, columns, rows, groups);
  add(widens_ ? as_kind(weights, KernelKind::WeightGradient) : weights);
}

KernelWork OpWork::of(const KernelList& kernels, MemoryPasses memory) const {
  KernelWork work;
  for (const KernelUse& kernel : kernels.all()) {
    work.flops += kernel.times * flops(kernel.shape);
    const auto [rows, columns, inner, groups, none] = kernel.shape.size;
    const bool product = kernel.shape.kind == KernelKind::Gemm || kernel.shape.kind == KernelKind::WeightGradient;
    if (!kernel.dtype || !product) continue;
    memory.share = std::min(1., kernel.times);  // of the layers that have the product
    memory.add(cast(inner * columns * groups));
  }
  work.gemms = kernels.launches();
  work.memory_traffic = memory.traffic;
  if (memory.kernels > 0) work.memory_kernels = memory.launches();
  work.kernels = writer_.add_kernels(kernels.all());
  return work;
}

Bytes OpWork::cast(std::int64_t elements) const {
  return static_cast<double>(elements) * (size_ + size_of(products_.value()));
}

// Forward: all hidden numbers are read and one of each g - 1 written. Backward: these are read with the gradient, and
// the gradients of the first written.
void OpWork::add_activation(Phase phase, MemoryPasses& memory) const {
  if (!workload_.whole_layers() || !makes_inputs()) return;
  const std::int64_t hidden = v_.expert_gemms - 1;  // numbers of each column
  const std::int64_t columns = phase == Phase::Forward ? hidden + 1 : 2 * hidden + 1;
  memory.add(static_cast<double>(columns * v_.sequence_tokens * v_.ffn_hidden) * size_);
}

KernelWork OpWork::without_norm(KernelWork work, Phase phase) const {
  if (workload_.whole_layers()) work.elsewhere = phase == Phase::Forward ? 1 : norm_gradients;
  return work;
}

KernelWork OpWork::dense_ffn(Phase phase, bool keeps) const {
  KernelList kernels = product_list();
  for (int i = 1; i < v_.expert_gemms; ++i) kernels.add_product(phase, v_.sequence_tokens, v_.ffn_hidden, v_.hidden);
  kernels.add_product(phase, v_.sequence_tokens, v_.hidden, v_.ffn_hidden);
  MemoryPasses memory;
  add_activation(phase, memory);
  return with_activated(without_norm(of(kernels, memory), phase), phase, keeps, v_.sequence_tokens, v_.ffn_hidden);
}

// The kernel of the activation's gradient reads the hidden numbers anyway. If the activated rows were not kept, it
// also writes them: they are a factor of a weight gradient. The half of the weights reads the hidden numbers for that.
KernelWork OpWork::with_activated(KernelWork work, Phase phase, bool keeps, std::int64_t rows,
                                  std::int64_t columns) const {
  const bool gated = v_.expert_gemms == 3;
  if (phase == Phase::Forward || keeps || !gated || !workload_.whole_layers()) return work;
  if (!makes_weights(phase)) return work;
  if (work.memory_traffic == Bytes(0)) work.memory_kernels = makes_inputs() ? 0 : 1;
  const std::int64_t read = makes_inputs() ? 0 : v_.expert_gemms - 1;
  const Bytes traffic = static_cast<double>((read + 1) * rows * columns) * size_;
  work.memory_traffic += traffic;
  if (work.row_traffic > Bytes(0)) work.row_traffic += traffic;
  return work;
}

KernelWork OpWork::norm(Phase phase) const {
  return memory((phase == Phase::Forward ? 2 : 4) * v_.tokens * v_.hidden);
}

KernelWork OpWork::residual(std::size_t parts) const {
  return memory((static_cast<std::int64_t>(parts) + 1) * v_.tokens * v_.hidden);
}

namespace {

// Passes that a kind of gate makes beyond those of a softmax gate, forward and backward, from the formulas of
// operands.md without fusion: over the scores of all experts, and over the projection of the tokens.
struct GatePasses {
  GateKind kind;
  std::array<int, 2> scores, projected;
};
constexpr std::array gate_passes{GatePasses{GateKind::Gshard, {3, 2}, {0, 0}},  // softplus, times noise, sum
                                 GatePasses{GateKind::XMoe, {1, 1}, {2, 3}},    // over the temperature; norms, quotient
                                 GatePasses{GateKind::Cosine, {1, 1}, {2, 3}},  // as XMoe
                                 GatePasses{GateKind::ExpertChoice, {1, 1}, {0, 0}},  // transposition
                                 GatePasses{GateKind::SoftMoe, {1, 1}, {0, 0}}};  // a second softmax, over the slots

}  // namespace

void OpWork::add_gate_passes(Phase phase, MemoryPasses& memory) const {
  const auto found = std::ranges::find(gate_passes, workload_.gate.kind, &GatePasses::kind);
  if (found == gate_passes.end()) return;
  const std::size_t at = phase == Phase::Forward ? 0 : 1;
  const double row = 2.0 * static_cast<double>(v_.tokens);  // read and written
  for (int i = 0; i < found->scores[at]; ++i) memory.add(row * static_cast<double>(v_.experts) * size_of(DType::Fp32));
  for (int i = 0; i < found->projected[at]; ++i) memory.add(row * static_cast<double>(v_.projection) * size_);
}

KernelWork OpWork::gate_kernels(Phase phase, Bytes traffic) const {
  if (extensions_.gate != nullptr)
    return phase == Phase::Forward ? stated(extensions_.gate->forward_work(gate_sizes_, v_.tokens), traffic)
                                   : stated(extensions_.gate->backward_work(gate_sizes_, v_.tokens), traffic);
  KernelList kernels(widens_);
  if (v_.projection > 0) {
    kernels.add_product(phase, v_.tokens, v_.projection, v_.hidden);
    kernels.add_product(phase, v_.tokens, v_.experts, v_.projection);
  } else {
    for (int i = 0; i < v_.router_gemms; ++i)
      kernels.add_product(phase, v_.tokens, (v_.router_parameters - v_.latent_parameters) / v_.hidden / v_.router_gemms,
                          v_.hidden);
  }
  if (v_.latent_parameters > 0) {  // the projection back, after combine, is counted here too
    kernels.add_product(phase, v_.tokens, v_.row_width, v_.hidden);
    kernels.add_product(phase, v_.tokens, v_.hidden, v_.row_width);
  }
  MemoryPasses memory;
  if (traffic > Bytes(0)) memory.add(traffic);
  add_gate_passes(phase, memory);
  return of(kernels, memory);
}

KernelWork OpWork::stated(const StatedWork& work, Bytes traffic) const {
  KernelList kernels(widens_);
  for (const MatrixProduct& p : work.products) kernels.add(gemm_shape(p.rows, p.columns, p.inner, p.groups));
  MemoryPasses memory{traffic, traffic > Bytes(0) ? 1. : 0.};
  if (work.traffic > Bytes(0)) {
    memory.traffic += work.traffic;
    memory.kernels += work.kernels;
  }
  return of(kernels, memory);
}

Work OpWork::gate(Phase phase, bool from_sum) const {
  if (model_.gate_profile.given()) return ProfiledWork{Profiled::Gate, v_.tokens};
  const bool forward = phase == Phase::Forward;
  // Residual sum: two read, one written; backward adds three parts. With norms the sums are ops of their own, but for
  // that of the two gradients of the norm's result.
  const bool sums = !workload_.whole_layers() && !from_sum;
  const int parts = forward ? (sums ? 3 : 0) : (sums ? 4 : 3);
  Bytes traffic = static_cast<double>(parts * v_.tokens * v_.hidden) * size_;
  // The forward pass writes the fp32 weights and the mask; the backward pass reads what is their gradient.
  if (plan_.encoding == Encoding::Dense)
    traffic +=
        static_cast<double>(v_.dense_weights()) * (size_of(DType::Fp32) + (forward || soft() ? 1.0 : 0.0) * size_);
  KernelWork work = gate_kernels(phase, traffic);
  if (!sums) work.elsewhere = workload_.whole_layers() ? norm_gradients : 1;  // forward: the sum, and the norm
  return work;
}

KernelWork OpWork::encode(Phase phase) const {
  const bool mask_gradient = phase == Phase::Backward && soft();
  if (plan_.encoding == Encoding::Dense) return dense_order(phase == Phase::Forward, mask_gradient, 0);
  const std::int64_t encoded = v_.encoded_elements(), once = encoded / v_.repeats;  // a repeated row is read once
  if (phase == Phase::Forward) return order(OrderStep::Encode, moving_rows(once + encoded, 0));
  return order(OrderStep::EncodeBackward, moving_rows(encoded, 1));
}

KernelWork OpWork::decode(Phase phase) const {
  // Beside the products: the residual forward, the sum of the gradients backward.
  if (plan_.encoding == Encoding::Dense)
    return dense_order(phase == Phase::Backward, phase == Phase::Backward, 3 * v_.tokens * v_.hidden);
  const std::int64_t encoded = v_.encoded_elements();
  if (phase == Phase::Forward) return order(OrderStep::Decode, moving_rows(encoded, 2));
  return order(OrderStep::DecodeBackward, moving_rows((plan_.scores_at == ScoresAt::Decode ? 2 : 1) * encoded, 3));
}

// The sums with the residual are the library's: two parts and their sum, or the gradient's.
KernelWork OpWork::order(OrderStep step, const KernelWork& own) const {
  if (extensions_.order == nullptr) return own;
  const std::optional<StatedWork> work = extensions_.order->work(step, {v_.tokens, v_.hidden, v_.experts, v_.capacity});
  if (!work) return own;
  const bool sums = step == OrderStep::Decode || step == OrderStep::DecodeBackward;
  return stated(*work, (sums ? 3 : 0) * static_cast<double>(v_.tokens * v_.hidden) * size_);
}

// Rows of the capacity, and passes over all tokens.
KernelWork OpWork::moving_rows(std::int64_t elements, std::int64_t token_passes) const {
  KernelWork work = memory(elements + token_passes * v_.tokens * v_.row_width);
  work.row_traffic = static_cast<double>(elements) * size_;
  return work;
}

Work OpWork::expert(Phase phase, const ChunkRange& chunk, bool keeps) const {
  if (model_.expert_profile.given()) return ProfiledWork{Profiled::Expert, v_.expert_rows(chunk)};
  if (extensions_.expert != nullptr) return custom_expert(phase, chunk);
  return with_activated(expert_gemms(phase, chunk), phase, keeps, v_.expert_rows(chunk), v_.worked_hidden());
}

KernelWork OpWork::custom_expert(Phase phase, const ChunkRange& chunk) const {
  const std::int64_t experts = v_.dispatched_experts, rows = v_.expert_rows(chunk);
  return phase == Phase::Forward ? stated(extensions_.expert->forward_work(expert_sizes_, experts, rows))
                                 : stated(extensions_.expert->backward_work(expert_sizes_, experts, rows));
}

KernelWork OpWork::expert_gemms(Phase phase, const ChunkRange& chunk, int left_out) const {
  const std::int64_t copies = v_.row_copies(chunk), experts = v_.dispatched_experts, rows = chunk.rows.size();
  if (plan_.layout == Layout::ExpertMajor) return expert_runs(phase, experts, experts, copies * rows, left_out);
  KernelWork work = expert_runs(phase, experts, copies * experts, rows, left_out);
  work.gemm_rows = rows;
  // Each GEMM reads its weights again, and each row comes in and goes out.
  const std::int64_t weights = copies * experts * v_.worked_parameters();
  const std::int64_t sides = v_.expert_rows(chunk) * v_.expert_gemms * (v_.row_width + v_.worked_hidden());
  const double share = static_cast<double>(v_.expert_gemms - left_out) / static_cast<double>(v_.expert_gemms);
  const Bytes in = products_ ? size_of(*products_) : size_;  // rows go out in the workload's format
  work.gemm_traffic =
      passes(phase) * share * (static_cast<double>(weights) * in + static_cast<double>(sides) * .5 * (in + size_));
  return work;
}

KernelWork OpWork::restore_hidden(const ChunkRange& chunk) const {
  return extensions_.expert != nullptr ? custom_expert(Phase::Forward, chunk) : expert_gemms(Phase::Forward, chunk, 1);
}

KernelWork OpWork::shadowed_expert(Phase phase, bool keeps) const {
  return with_activated(expert_runs(phase, 1, 1, v_.capacity, 0), phase, keeps, v_.capacity, v_.worked_hidden());
}

// A batch of GEMMs is one launch. The shape is that of a gated expert, which has three matrices.
KernelWork OpWork::expert_runs(Phase phase, std::int64_t experts, std::int64_t runs, std::int64_t rows,
                               int left_out) const {
  const std::int64_t tile = std::max(1, plan_.row_tile), padded = (rows + tile - 1) / tile * tile;
  const KernelShape shape = experts_shape(runs * padded, runs, v_.row_width, v_.worked_hidden(), runs * padded);
  const auto matrices = static_cast<int>(v_.expert_gemms) - left_out;
  const std::int64_t readers = runs / experts;
  KernelList kernels = product_list();
  if (makes_inputs()) kernels.add(shape, matrices / gated_matrices, matrices, readers);
  if (makes_weights(phase))
    kernels.add(widens_ ? as_kind(shape, KernelKind::ExpertGradients) : shape, matrices / gated_matrices, matrices,
                readers);
  MemoryPasses memory;
  if (!products_) return of(kernels, memory);
  add_casts(phase, experts, runs * rows, matrices, memory);
  KernelWork work = of(kernels, memory);
  work.row_traffic = std::max(Bytes(1), row_casts(phase, runs * rows, matrices));  // weights are cast whatever the rows
  return work;
}

Bytes OpWork::row_casts(Phase phase, std::int64_t rows, int matrices) const {
  Bytes bytes;
  for (int i = 0; makes_weights(phase) && i < matrices; ++i)
    bytes += cast(rows * (i + 1 == v_.expert_gemms ? v_.row_width : v_.worked_hidden()));
  return bytes;
}

// The weights of each matrix are cast, and backward also the gradients that those of the weights are made of.
void OpWork::add_casts(Phase phase, std::int64_t experts, std::int64_t rows, int matrices, MemoryPasses& memory) const {
  const std::int64_t inter = v_.worked_hidden();
  for (int i = 0; i < matrices; ++i) {
    if (makes_inputs()) memory.add(cast(experts * v_.row_width * inter));
    const bool last = i + 1 == v_.expert_gemms;
    if (makes_weights(phase)) memory.add(cast(rows * (last ? v_.row_width : inter)));
  }
}

CopyWork OpWork::copy(Bytes bytes) const {
  return {bytes};
}

ExchangeWork OpWork::all_to_all(const ChunkRange& chunk, Wire wire) const {
  const ChunkRange whole = chunk.rows;
  ExchangeWork work = collective(Collective::AllToAll, GroupKind::Ep, v_.all_to_all_elements(whole));
  work.protocol = plan_.protocol;
  if (wire != Wire::Same) work.message = wire_bytes(whole, wire);
  if (!chunk.by_peers()) return work;
  const auto others = static_cast<double>(chunk.peers.size() - (chunk.peers.first == 0 ? 1 : 0));
  work.message = work.message * (others / static_cast<double>(v_.peers - 1));
  return work;
}

ExchangeWork OpWork::score_exchange(const ChunkRange& chunk) const {
  ExchangeWork work = all_to_all(chunk);
  work.message = work.message * (size_of(DType::Fp32) / (static_cast<double>(v_.row_width) * size_));
  return work;
}

ExchangeWork OpWork::gather_scores(const ChunkRange& chunk, Collective kind) const {
  ExchangeWork work = esp(kind, chunk);
  work.message = work.message * (size_of(DType::Fp32) / (static_cast<double>(v_.row_width) * size_));
  return work;
}

ExchangeWork OpWork::count_exchange() const {
  ExchangeWork work = collective(Collective::AllToAll, GroupKind::Ep, v_.experts);
  work.message = static_cast<double>(v_.experts) * size_of(DType::Fp32);
  return work;
}

ExchangeWork OpWork::gather_counts() const {
  ExchangeWork work = collective(Collective::AllGather, GroupKind::Esp, v_.esp * v_.experts);
  work.message = static_cast<double>(v_.esp * v_.experts) * size_of(DType::Fp32);
  return work;
}

KernelWork OpWork::convert(const ChunkRange& chunk, std::int64_t copies, Wire wire) const {
  KernelWork work = memory(copies * v_.all_to_all_elements(chunk));
  work.memory_traffic += static_cast<double>(copies) * wire_bytes(chunk, wire);
  work.row_traffic = work.memory_traffic;
  return work;
}

HostWait OpWork::host_sync() const {
  return {};
}

ExchangeWork OpWork::all_to_all(const ChunkRange& chunk, Wire wire, std::span<const CollectiveStep> steps) const {
  ExchangeWork work = all_to_all(chunk, wire);
  const Bytes block = work.message / static_cast<double>(v_.peers);
  const std::int64_t exchanged = exchanged_blocks(steps);
  work.collective = exchanged > 0 ? Collective::AllToAll : Collective::None;
  work.message = block * static_cast<double>(exchanged);
  work.copy_traffic = block * static_cast<double>(2 * copied_blocks(steps));
  return work;
}

ExchangeWork OpWork::mp(Collective kind, std::int64_t width) const {
  return collective(kind, GroupKind::Mp, v_.sequence_tokens * width);
}

KernelWork OpWork::mtp_projection(Phase phase) const {
  KernelList kernels(widens_, products_);
  kernels.add_product(phase, v_.sequence_tokens, v_.mtp_parameters / (2 * v_.hidden), 2 * v_.hidden);
  return of(kernels, {});
}

ExchangeWork OpWork::send_gradients(std::int64_t elements) const {
  ExchangeWork work = collective(Collective::Send, GroupKind::Pp, elements);
  work.message = static_cast<double>(elements) * size_of(workload_.gradient_dtype());
  return work;
}

KernelWork OpWork::add_gradients(std::int64_t elements) const {
  KernelWork work;
  work.memory_traffic = 3 * static_cast<double>(elements) * size_of(workload_.gradient_dtype());
  return work;
}

ExchangeWork OpWork::esp(Collective kind, const ChunkRange& chunk, Wire wire) const {
  ExchangeWork work = collective(kind, GroupKind::Esp, v_.gathered_elements(chunk));
  if (wire != Wire::Same) work.message = static_cast<double>(v_.esp) * wire_bytes(chunk, wire);
  return work;
}

ExchangeWork OpWork::weight_shards(Collective kind) const {
  return collective(kind, GroupKind::Esp, v_.weight_shards * v_.expert_parameters);
}

ExchangeWork OpWork::shadow(Collective kind) const {
  return collective(kind, GroupKind::Ep, v_.worked_parameters());
}

ExchangeWork OpWork::reduce_gradients(Collective kind, GroupKind group, std::int64_t elements) const {
  ExchangeWork work = collective(kind, group, elements);
  work.message = static_cast<double>(elements) * size_of(workload_.gradient_dtype());
  return work;
}

ExchangeWork OpWork::gather_weights(GroupKind group, std::int64_t elements) const {
  return collective(Collective::AllGather, group, elements);
}

ExchangeWork OpWork::stage_send() const {
  return collective(Collective::Send, GroupKind::Pp, v_.tokens * v_.hidden);
}

KernelWork OpWork::gradient_norm(std::int64_t parameters) const {
  KernelWork work;
  work.memory_traffic = static_cast<double>(parameters) * size_of(workload_.gradient_dtype());
  return work;
}

ExchangeWork OpWork::reduce_gradient_norm() const {
  ExchangeWork work = collective(Collective::AllReduce, GroupKind::World, 1);
  work.message = size_of(DType::Fp32);
  return work;
}

// Gradients that are clipped are scaled on their way, in the same kernel.
KernelWork OpWork::update(std::int64_t parameters, std::int64_t held) const {
  // Read are the gradient and, in fp32, the weight and two moments; written are these three. If the weight in fp32
  // is a master copy, the weight itself is written too.
  const Bytes copy = size_of(workload_.dtype) < size_of(DType::Fp32) ? size_of(workload_.dtype) : Bytes();
  KernelWork work;
  const FrameworkPasses& passes = framework_.passes;
  const double scaled = workload_.clips() ? passes.updated : 0, converted = copy > Bytes(0) ? passes.weights : 0;
  // The framework's passes are counted for gradients in fp32.
  const double wide = size_of(workload_.gradient_dtype()) / size_of(DType::Fp32);
  work.memory_traffic =
      static_cast<double>(parameters) *
          (6 * size_of(DType::Fp32) + size_of(workload_.gradient_dtype()) + copy + Bytes(wide * scaled + converted)) +
      static_cast<double>(held) * Bytes(wide * passes.gradients);
  return work;
}

ExchangeWork OpWork::collective(Collective kind, GroupKind group, std::int64_t elements) const {
  ExchangeWork work;
  work.collective = kind;
  work.group = group;
  work.message = static_cast<double>(elements) * size_;
  return work;
}

// The product of (T, E C) weights with tokens, which gives rows, or with rows, which gives tokens; and the gradient of
// the weights, if wanted.
KernelWork OpWork::dense_order(bool to_rows, bool weight_gradient, std::int64_t elements) const {
  const std::int64_t slots = v_.experts * v_.capacity;
  KernelList kernels(widens_);
  kernels.add(to_rows ? gemm_shape(slots, v_.row_width, v_.tokens) : gemm_shape(v_.tokens, v_.row_width, slots));
  if (weight_gradient) kernels.add(gemm_shape(v_.tokens, slots, v_.row_width));
  return of(kernels, {static_cast<double>(elements) * size_});
}

Bytes OpWork::wire_bytes(const ChunkRange& chunk, Wire wire) const {
  const std::int64_t rows = v_.all_to_all_elements(chunk) / v_.row_width;
  return static_cast<double>(rows * wire_row_elements(wire, v_.row_width)) * size_of(wire_dtype(wire));
}

KernelWork OpWork::memory(std::int64_t elements) const {
  KernelWork work;
  work.memory_traffic = static_cast<double>(elements) * size_;
  return work;
}

DType wire_dtype(Wire wire) {
  check(wire != Wire::Same, "rows that are sent as they are have no format of their own");
  return wire == Wire::Bf16 ? DType::Bf16 : DType::Fp8;
}

std::int64_t wire_row_elements(Wire wire, std::int64_t hidden) {
  return wire == Wire::Fp8 ? hidden + 4 : hidden;  // the scale of a row: fp32
}

}  // namespace dovetail
