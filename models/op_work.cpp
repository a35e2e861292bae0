#include "models/op_work.hpp"

namespace dovetail {

Work OpWork::attention(Phase phase) const {
  Work work;
  const bool forward = phase == Phase::Forward;
  work.flops = forward ? v_.projection_flops + v_.attention_score_flops
                       : 2 * v_.projection_flops + 2.5 * v_.attention_score_flops;
  work.gemms = forward ? 3 : 5;  // QKV, flash, output; backward: input and weight gradients of each projection
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
  const bool forward = phase == Phase::Forward;
  // Residual sum: two read, one written; backward adds three parts.
  Work work = memory((forward ? 3 : 4) * v_.tokens * v_.hidden);
  work.flops = Flops((forward ? 2.0 : 4.0) * static_cast<double>(v_.tokens * v_.router_parameters));
  work.gemms = forward ? 1 : 2;
  return work;
}

Work OpWork::encode(Phase phase) const {
  const std::int64_t encoded = v_.all_to_all_elements(v_.capacity);
  return memory(phase == Phase::Forward ? 2 * encoded : encoded + v_.tokens * v_.hidden);
}

Work OpWork::decode(Phase phase) const {
  const std::int64_t encoded = v_.all_to_all_elements(v_.capacity), tokens = v_.tokens * v_.hidden;
  return memory(phase == Phase::Forward ? encoded + 2 * tokens : 2 * encoded + 3 * tokens);
}

Work OpWork::expert(Phase phase, std::int64_t rows) const {
  const int passes = phase == Phase::Forward ? 1 : 2;  // backward: input and weight gradients
  Work work;
  work.flops = static_cast<double>(passes) * v_.expert_flops(rows);
  work.gemms = passes * static_cast<int>(v_.expert_gemms);
  return work;
}

Work OpWork::all_to_all(std::int64_t rows) const {
  return collective(Collective::AllToAll, GroupKind::Ep, v_.all_to_all_elements(rows));
}

Work OpWork::mp(Collective kind) const {
  return collective(kind, GroupKind::Mp, v_.sequence_tokens * v_.hidden);
}

Work OpWork::esp(Collective kind, std::int64_t rows) const {
  return collective(kind, GroupKind::Esp, v_.gathered_elements(rows));
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
