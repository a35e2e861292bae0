#include "models/schedule/op_work.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {

KernelWork OpWork::attention(Phase phase) const {
  const KernelWork first = projection(phase);
  KernelWork work = attention_chunk(phase);
  work.flops += first.flops;
  work.gemms += first.gemms;
  return work;
}

// Projections are two products in the backward pass: gradients of the input and of the weights.
KernelWork OpWork::projection(Phase phase) const {
  const int products = phase == Phase::Forward ? 1 : 2;
  const Attention& a = model_.attention;
  const int steps = a.kind == AttentionKind::GroupedQuery ? 1 : a.q_rank > 0 ? 4 : 3;  // latent: down and up
  KernelWork work;
  work.flops = products * (1 - output_share()) * v_.projection_flops;
  work.gemms = steps * products;
  return work;
}

KernelWork OpWork::attention_chunk(Phase phase) const {
  const int products = phase == Phase::Forward ? 1 : 2;
  KernelWork work;
  work.flops =
      products * output_share() * v_.projection_flops + (phase == Phase::Forward ? 1 : 2.5) * v_.attention_score_flops;
  work.gemms = products + 1;
  return work;
}

KernelWork OpWork::dense_ffn(Phase phase) const {
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  KernelWork work;
  work.flops = static_cast<double>(passes) * v_.ffn_flops();
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
}

KernelWork OpWork::residual(std::size_t parts) const {
  return memory((static_cast<std::int64_t>(parts) + 1) * v_.tokens * v_.hidden);
}

Work OpWork::gate(Phase phase) const {
  if (model_.gate_profile.given()) return ProfiledWork{Profiled::Gate, v_.tokens};
  const bool forward = phase == Phase::Forward;
  // Residual sum: two read, one written; backward adds three parts.
  KernelWork work = memory((forward ? 3 : 4) * v_.tokens * v_.hidden);
  work.flops =
      Flops((forward ? 2.0 : 4.0) * static_cast<double>(v_.tokens) * static_cast<double>(v_.router_parameters));
  work.gemms = static_cast<int>(v_.router_gemms) * (forward ? 1 : 2);
  // The forward pass writes the fp32 weights and the mask; the backward pass reads what is their gradient.
  if (plan_.encoding == Encoding::Dense)
    work.memory_traffic +=
        static_cast<double>(v_.dense_weights()) * (size_of(DType::Fp32) + (forward || soft() ? 1.0 : 0.0) * size_);
  return work;
}

KernelWork OpWork::encode(Phase phase) const {
  const bool mask_gradient = phase == Phase::Backward && soft();
  if (plan_.encoding == Encoding::Dense) return dense_order(mask_gradient ? 2 : 1, 0);
  const std::int64_t encoded = v_.encoded_elements(), once = encoded / v_.repeats;  // a repeated row is read once
  return memory(phase == Phase::Forward ? once + encoded : encoded + v_.tokens * v_.hidden);
}

KernelWork OpWork::decode(Phase phase) const {
  // Beside the products: the residual forward, the sum of the gradients backward.
  if (plan_.encoding == Encoding::Dense) return dense_order(phase == Phase::Forward ? 1 : 2, 3 * v_.tokens * v_.hidden);
  const std::int64_t encoded = v_.encoded_elements(), tokens = v_.tokens * v_.hidden;
  return memory(phase == Phase::Forward ? encoded + 2 * tokens : 2 * encoded + 3 * tokens);
}

Work OpWork::expert(Phase phase, const ChunkRange& chunk) const {
  if (model_.expert_profile.given()) return ProfiledWork{Profiled::Expert, v_.expert_rows(chunk)};
  return expert_gemms(phase, chunk);
}

KernelWork OpWork::expert_gemms(Phase phase, const ChunkRange& chunk) const {
  const std::int64_t copies = v_.row_copies(chunk), experts = v_.dispatched_experts, rows = chunk.rows.size();
  if (plan_.layout == Layout::ExpertMajor) return gemms(phase, experts, copies * rows);
  KernelWork work = gemms(phase, copies * experts, rows);
  work.gemm_rows = rows;
  // Each GEMM reads its weights again, and each row comes in and goes out.
  const std::int64_t weights = copies * experts * v_.worked_parameters();
  const std::int64_t sides = v_.expert_rows(chunk) * v_.expert_gemms * (v_.hidden + v_.worked_hidden());
  const int passes = phase == Phase::Forward ? 1 : 2;
  work.gemm_traffic = static_cast<double>(passes * (weights + sides)) * size_;
  return work;
}

// A share of the forward GEMMs.
KernelWork OpWork::restore_hidden(const ChunkRange& chunk) const {
  KernelWork work = expert_gemms(Phase::Forward, chunk);
  const double share = static_cast<double>(v_.expert_gemms - 1) / static_cast<double>(v_.expert_gemms);
  work.gemms = static_cast<int>(v_.expert_gemms) - 1;
  work.flops = work.flops * share;
  work.gemm_traffic = work.gemm_traffic * share;
  return work;
}

KernelWork OpWork::shadowed_expert(Phase phase) const {
  return gemms(phase, 1, v_.capacity);
}

// A batch of GEMMs is one launch.
KernelWork OpWork::gemms(Phase phase, std::int64_t gemms, std::int64_t rows) const {
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  const std::int64_t tile = std::max(1, plan_.row_tile), padded = (rows + tile - 1) / tile * tile;
  KernelWork work;
  work.flops = static_cast<double>(passes) * v_.expert_flops(gemms * padded);
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
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

KernelWork OpWork::convert(const ChunkRange& chunk, std::int64_t copies, Wire wire) const {
  KernelWork work = memory(copies * v_.all_to_all_elements(chunk));
  work.memory_traffic += static_cast<double>(copies) * wire_bytes(chunk, wire);
  return work;
}

double OpWork::output_share() const {
  return static_cast<double>(v_.context_width * v_.hidden) / static_cast<double>(v_.attention_parameters);
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

ExchangeWork OpWork::mp(Collective kind) const {
  return collective(kind, GroupKind::Mp, v_.sequence_tokens * v_.hidden);
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

ExchangeWork OpWork::all_reduce(GroupKind group, std::int64_t elements) const {
  return collective(Collective::AllReduce, group, elements);
}

ExchangeWork OpWork::stage_send() const {
  return collective(Collective::Send, GroupKind::Pp, v_.tokens * v_.hidden);
}

KernelWork OpWork::update(std::int64_t parameters) const {
  // 28 bytes a parameter: fp32 reads weight, gradient and two moments and writes three of them; bf16 with an
  // fp32 master weight reads 2 + 12 and writes 12 + 2.
  KernelWork work;
  work.memory_traffic = Bytes(28.0 * static_cast<double>(parameters));
  return work;
}

ExchangeWork OpWork::collective(Collective kind, GroupKind group, std::int64_t elements) const {
  ExchangeWork work;
  work.collective = kind;
  work.group = group;
  work.message = static_cast<double>(elements) * size_;
  return work;
}

// Products of (T, E C) weights with (E C, M) rows or (T, M) tokens.
KernelWork OpWork::dense_order(int products, std::int64_t elements) const {
  KernelWork work = memory(elements);
  work.flops = Flops(2.0 * products * static_cast<double>(v_.dense_weights()) * static_cast<double>(v_.hidden));
  work.gemms = products;
  return work;
}

Bytes OpWork::wire_bytes(const ChunkRange& chunk, Wire wire) const {
  const std::int64_t rows = v_.all_to_all_elements(chunk) / v_.hidden;
  return static_cast<double>(rows * wire_row_elements(wire, v_.hidden)) * size_of(wire_dtype(wire));
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
