// SPDX-License-Identifier: Apache-2.0
#include "exec/run/compute_rules.hpp"

#include <algorithm>
#include <numeric>

#include "models/schedule/op_table.hpp"

namespace dovetail::exec {
namespace {

Wire sent_in(const Schedule& s, const Op& op) {
  const Tensor& sent = s.tensors[s.reads_of(op).front()];
  if (sent.kind != TensorKind::Compressed) return Wire::Same;
  switch (sent.dtype) {
    case DType::Bf16:
      return Wire::Bf16;
    case DType::Fp8:
      return Wire::Fp8;
    default:
      return Wire::Same;
  }
}

}  // namespace

ComputeRules rules_of(const Schedule& s) {
  ComputeRules rules;
  rules.micro_batches = s.micro_batches;
  for (const Op& op : s.ops) {
    const bool forward = op.phase == Phase::Forward;
    if (forward && op.kind == OpKind::Attention) rules.token_chunks = std::max<int>(rules.token_chunks, op.chunk + 1);
    if (!entry_of(op.kind).exchanges_rows) continue;
    const Wire sent = sent_in(s, op);
    if (sent == Wire::Same) continue;  // later steps of an exchange send what lies between
    if (op.kind == OpKind::Dispatch) (forward ? rules.dispatch : rules.dispatch_back) = sent;
    if (op.kind == OpKind::Combine && forward) rules.combine = sent;
  }
  return rules;
}

std::vector<TokenPart> token_parts(const LayerVolumes& v, int token_chunks) {
  if (token_chunks == 0) return {all_tokens(v)};
  std::vector<TokenPart> parts;
  for (int i = 0; i < token_chunks; ++i) parts.push_back(token_part(v, token_chunks, i));
  return parts;
}

std::vector<std::int64_t> token_rows(const LayerVolumes& v, int token_chunks) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(v.sequence_tokens));
  std::iota(rows.begin(), rows.end(), 0);
  if (token_chunks == 0) return rows;
  for (const TokenPart& part : token_parts(v, token_chunks))
    for (std::int64_t i = 0; i < part.volumes.sequence_tokens; ++i) {
      const std::int64_t sample = i / part.positions.size(),
                         position = part.positions.first + i % part.positions.size();
      const std::int64_t rank = i / part.tokens.size(), token = part.tokens.first + i % part.tokens.size();
      rows[static_cast<std::size_t>(sample * v.sequence + position)] = rank * v.tokens + token;
    }
  return rows;
}

}  // namespace dovetail::exec
