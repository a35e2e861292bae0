#include "models/op_work.hpp"

#include "models/errors.hpp"

namespace dovetail {

Work OpWork::attention(Phase phase) const {
  const Work first = projection(phase);
  Work work = attention_chunk(phase);
  work.flops += first.flops;
  work.gemms += first.gemms;
  return work;
}

// Projections are two products in the backward pass: gradients of the input and of the weights.
Work OpWork::projection(Phase phase) const {
  const int products = phase == Phase::Forward ? 1 : 2;
  const Attention& a = model_.attention;
  const int steps = a.kind == AttentionKind::GroupedQuery ? 1 : a.q_rank > 0 ? 4 : 3;  // latent: down and up
  Work work;
  work.flops = products * (1 - output_share()) * v_.projection_flops;
  work.gemms = steps * products;
  return work;
}

Work OpWork::attention_chunk(Phase phase) const {
  const int products = phase == Phase::Forward ? 1 : 2;
  Work work;
  work.flops =
      products * output_share() * v_.projection_flops + (phase == Phase::Forward ? 1 : 2.5) * v_.attention_score_flops;
  work.gemms = products + 1;
  return work;
}

Work OpWork::dense_ffn(Phase phase) const {
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  Work work;
  work.flops = static_cast<double>(passes) * v_.ffn_flops();
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
}

Work OpWork::residual(std::size_t parts) const {
  return memory((static_cast<std::int64_t>(parts) + 1) * v_.tokens * v_.hidden);
}

Work OpWork::gate(Phase phase) const {
  if (model_.gate_profile.given()) return profiled(Profiled::Gate, v_.tokens);
  const bool forward = phase == Phase::Forward;
  // Residual sum: two read, one written; backward adds three parts.
  Work work = memory((forward ? 3 : 4) * v_.tokens * v_.hidden);
  work.flops = Flops((forward ? 2.0 : 4.0) * static_cast<double>(v_.tokens * v_.router_parameters));
  work.gemms = static_cast<int>(v_.router_gemms) * (forward ? 1 : 2);
  // The forward pass writes the fp32 weights and the mask; the backward pass reads what is their gradient.
  const auto weights = static_cast<double>(v_.dense_weights());
  if (encoding_ == Encoding::Dense)
    work.memory_traffic += weights * (size_of(DType::Fp32) + (forward || soft() ? 1.0 : 0.0) * size_);
  return work;
}

Work OpWork::encode(Phase phase) const {
  const bool mask_gradient = phase == Phase::Backward && soft();
  if (encoding_ == Encoding::Dense) return dense_order(mask_gradient ? 2 : 1, 0);
  const std::int64_t encoded = v_.all_to_all_elements(v_.capacity);
  return memory(phase == Phase::Forward ? 2 * encoded : encoded + v_.tokens * v_.hidden);
}

Work OpWork::decode(Phase phase) const {
  // Beside the products: the residual forward, the sum of the gradients backward.
  if (encoding_ == Encoding::Dense) return dense_order(phase == Phase::Forward ? 1 : 2, 3 * v_.tokens * v_.hidden);
  const std::int64_t encoded = v_.all_to_all_elements(v_.capacity), tokens = v_.tokens * v_.hidden;
  return memory(phase == Phase::Forward ? encoded + 2 * tokens : 2 * encoded + 3 * tokens);
}

Work OpWork::expert(Phase phase, std::int64_t rows) const {
  if (model_.expert_profile.given()) return profiled(Profiled::Expert, v_.expert_rows(rows));
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  Work work;
  work.flops = static_cast<double>(passes) * v_.expert_flops(rows);
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
}

Work OpWork::restore_hidden(std::int64_t rows) const {
  Work work;
  work.gemms = static_cast<int>(v_.expert_gemms) - 1;
  work.flops = v_.expert_flops(rows) * (work.gemms / static_cast<double>(v_.expert_gemms));
  return work;
}

Work OpWork::copy(Bytes bytes) const {
  Work work;
  work.host_traffic = bytes;
  return work;
}

Work OpWork::all_to_all(std::int64_t rows, Wire wire) const {
  Work work = collective(Collective::AllToAll, GroupKind::Ep, v_.all_to_all_elements(rows));
  if (wire != Wire::Same) work.message = wire_bytes(rows, wire);
  return work;
}

Work OpWork::convert(std::int64_t rows, Wire wire) const {
  Work work = memory(v_.all_to_all_elements(rows));
  work.memory_traffic += wire_bytes(rows, wire);
  return work;
}

double OpWork::output_share() const {
  return static_cast<double>(v_.context_width * v_.hidden) / static_cast<double>(v_.attention_parameters);
}

Work OpWork::host_sync() const {
  Work work;
  work.host_waits = true;
  return work;
}

Work OpWork::all_to_all(std::int64_t rows, Wire wire, std::span<const CollectiveStep> steps) const {
  const std::int64_t blocks = v_.experts / v_.local_experts;
  const Bytes block = all_to_all(rows, wire).message / static_cast<double>(blocks);
  const std::int64_t exchanged = exchanged_blocks(steps);
  Work work;
  work.collective = exchanged > 0 ? Collective::AllToAll : Collective::None;
  work.message = block * static_cast<double>(exchanged);
  work.memory_traffic = block * static_cast<double>(2 * copied_blocks(steps));
  return work;
}

Work OpWork::mp(Collective kind) const {
  return collective(kind, GroupKind::Mp, v_.sequence_tokens * v_.hidden);
}

Work OpWork::esp(Collective kind, std::int64_t rows, Wire wire) const {
  Work work = collective(kind, GroupKind::Esp, v_.gathered_elements(rows));
  if (wire != Wire::Same) work.message = static_cast<double>(v_.esp) * wire_bytes(rows, wire);
  return work;
}

Work OpWork::all_reduce(GroupKind group, std::int64_t elements) const {
  return collective(Collective::AllReduce, group, elements);
}

Work OpWork::update(std::int64_t parameters) const {
  // 28 bytes a parameter: fp32 reads weight, gradient and two moments and writes three of them; bf16 with an
  // fp32 master weight reads 2 + 12 and writes 12 + 2.
  Work work;
  work.memory_traffic = Bytes(28.0 * static_cast<double>(parameters));
  return work;
}

Work OpWork::collective(Collective kind, GroupKind group, std::int64_t elements) const {
  Work work;
  work.collective = kind;
  work.group = group;
  work.message = static_cast<double>(elements) * size_;
  return work;
}

// Products of (T, E C) weights with (E C, M) rows or (T, M) tokens.
Work OpWork::dense_order(int products, std::int64_t elements) const {
  Work work = memory(elements);
  work.flops = Flops(2.0 * products * static_cast<double>(v_.dense_weights()) * static_cast<double>(v_.hidden));
  work.gemms = products;
  return work;
}

Work OpWork::profiled(Profiled module, std::int64_t size) const {
  Work work;
  work.profiled = module;
  work.profiled_size = size;
  return work;
}

Bytes OpWork::wire_bytes(std::int64_t rows, Wire wire) const {
  return static_cast<double>(rows * v_.experts * wire_row_elements(wire, v_.hidden)) * size_of(wire_dtype(wire));
}

Work OpWork::memory(std::int64_t elements) const {
  Work work;
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
