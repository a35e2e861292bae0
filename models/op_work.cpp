#include "models/op_work.hpp"

#include <algorithm>

namespace dovetail {

Work OpWork::attention(Phase phase) const {
  Work work;
  const bool forward = phase == Phase::Forward;
  work.flops = forward ? v_.projection_flops + v_.attention_score_flops
                       : 2 * v_.projection_flops + 2.5 * v_.attention_score_flops;
  work.gemms = forward ? 3 : 5;  // QKV, flash, output; backward: input and weight gradients of each projection
  return work;
}

Work OpWork::gate(Phase phase) const {
  const bool forward = phase == Phase::Forward;
  // Residual sum: two read, one written; backward adds three parts.
  Work work = memory((forward ? 3 : 4) * v_.tokens * v_.hidden);
  work.flops = Flops((forward ? 2.0 : 4.0) * static_cast<double>(v_.tokens * v_.router_parameters));
  work.gemms = forward ? 1 : 2;
  return work;
}

Work OpWork::encode(Phase phase) const {
  const std::int64_t encoded = v_.encoded_elements(), once = encoded / v_.repeats;  // a repeated row is read once
  return memory(phase == Phase::Forward ? once + encoded : encoded + v_.tokens * v_.hidden);
}

Work OpWork::decode(Phase phase) const {
  const std::int64_t encoded = v_.encoded_elements(), tokens = v_.tokens * v_.hidden;
  return memory(phase == Phase::Forward ? encoded + 2 * tokens : 2 * encoded + 3 * tokens);
}

Work OpWork::expert(Phase phase, const ChunkRange& chunk) const {
  const std::int64_t copies = v_.row_copies(chunk), experts = v_.dispatched_experts, rows = chunk.rows.size();
  if (layout_ == Layout::ExpertMajor) return gemms(phase, experts, copies * rows);
  Work work = gemms(phase, copies * experts, rows);
  work.gemm_rows = rows;
  // Each GEMM reads its weights again, and each row comes in and goes out.
  const std::int64_t weights = copies * experts * v_.worked_parameters();
  const std::int64_t sides = v_.expert_rows(chunk) * v_.expert_gemms * (v_.hidden + v_.worked_hidden());
  const int passes = phase == Phase::Forward ? 1 : 2;
  work.gemm_traffic = static_cast<double>(passes * (weights + sides)) * size_;
  return work;
}

Work OpWork::shadowed_expert(Phase phase) const {
  return gemms(phase, 1, v_.capacity);
}

// A batch of GEMMs is one launch.
Work OpWork::gemms(Phase phase, std::int64_t gemms, std::int64_t rows) const {
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  const std::int64_t tile = std::max(1, row_tile_), padded = (rows + tile - 1) / tile * tile;
  Work work;
  work.flops = static_cast<double>(passes) * v_.expert_flops(gemms * padded);
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
}

Work OpWork::all_to_all(const ChunkRange& chunk) const {
  if (!chunk.by_peers()) return collective(Collective::AllToAll, GroupKind::Ep, v_.all_to_all_elements(chunk));
  const auto others = static_cast<double>(chunk.peers.size() - (chunk.peers.first == 0 ? 1 : 0));
  Work work = collective(Collective::AllToAll, GroupKind::Ep, v_.all_to_all_elements(chunk.rows));
  work.message = work.message * (others / static_cast<double>(v_.peers - 1));
  return work;
}

Work OpWork::mp(Collective kind) const {
  return collective(kind, GroupKind::Mp, v_.sequence_tokens * v_.hidden);
}

Work OpWork::esp(Collective kind, const ChunkRange& chunk) const {
  return collective(kind, GroupKind::Esp, v_.gathered_elements(chunk));
}

Work OpWork::weight_shards(Collective kind) const {
  return collective(kind, GroupKind::Esp, v_.weight_shards * v_.expert_parameters);
}

Work OpWork::shadow(Collective kind) const {
  return collective(kind, GroupKind::Ep, v_.worked_parameters());
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

Work OpWork::memory(std::int64_t elements) const {
  Work work;
  work.memory_traffic = static_cast<double>(elements) * size_;
  return work;
}

}  // namespace dovetail
