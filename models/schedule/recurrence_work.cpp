// SPDX-License-Identifier: Apache-2.0
// The work of layers that mix tokens by a recurrence. Chunks of positions are worked out by products, and a state
// passes from chunk to chunk, as flash-linear-attention and mamba do it.
#include <algorithm>
#include <vector>

#include "models/question/recurrence_sizes.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail {
namespace {

// Positions of a chunk: flash-linear-attention's of delta rules, mamba's usual one and lightning attention's block.
constexpr std::int64_t delta_chunk = 64, state_space_chunk = 256;
// Backward, a product of the forward pass is done again and has two gradients.
constexpr double backward_products = 3;

struct ChunkProduct {
  std::int64_t rows, columns, inner, heads;
  double times;
};

bool delta_rule(RecurrenceKind kind) {
  return kind == RecurrenceKind::GatedDelta || kind == RecurrenceKind::KimiDelta;
}

// The products of one chunk of c positions, for keys of d and values of e elements.
std::vector<ChunkProduct> chunk_products(const Recurrence& r, const RecurrenceSizes& s, std::int64_t c) {
  const std::int64_t d = r.key_size, e = r.value_size;
  switch (r.kind) {
    case RecurrenceKind::GatedDelta:
    case RecurrenceKind::KimiDelta:
      return {{c, c, d, s.heads, 2},   // keys by keys, queries by keys
              {c, c, c, s.heads, 1},   // the inverse of a triangle
              {c, d, c, s.heads, 1},   // the inverse by keys
              {c, e, c, s.heads, 2},   // the inverse by values, scores by new values
              {c, e, d, s.heads, 2},   // keys by the state, queries by the state
              {d, e, c, s.heads, 1}};  // keys by new values: the next state
    case RecurrenceKind::Lightning:
    case RecurrenceKind::Mamba2:
      return {{c, c, d, s.key_heads, 1},  // queries by keys
              {c, e, c, s.heads, 1},      // scores by values
              {c, e, d, s.heads, 1},      // queries by the state
              {d, e, c, s.heads, 1}};     // keys by values: the next state
    case RecurrenceKind::Mamba:
    case RecurrenceKind::ShortConvolution:
      break;  // no products
  }
  return {};
}

// Elements of a token that kernels bound by device memory read and write: the convolution (backward it reads input and
// gradient); norms of the queries and keys of delta rules; Mamba's scan (values, time steps, gate, keys and queries are
// read, and the result written); the norm of the result with its gate.
std::vector<std::int64_t> passes_of(const Recurrence& r, const RecurrenceSizes& s, Phase phase) {
  const bool forward = phase == Phase::Forward;
  const std::int64_t state = r.key_size, read_and_written = forward ? 2 : 3;
  std::vector<std::int64_t> passes;
  if (s.convolved > 0) passes.push_back(read_and_written * s.convolved);
  if (delta_rule(r.kind)) passes.push_back(read_and_written * 2 * s.keys);
  if (r.kind == RecurrenceKind::Mamba)
    passes.push_back((forward ? 1 : 2) * (4 * s.width + 2 * state));
  else
    passes.push_back((forward ? 3 : 5) * s.normed);
  return passes;
}

}  // namespace

void OpWork::add_recurrence_projections(KernelList& kernels, Phase phase) const {
  for (const TokenProduct& product : recurrence_sizes(model_.recurrence, v_.hidden, v_.mp).products)
    kernels.add_product(phase, v_.sequence_tokens, product.columns, product.inner);
}

void OpWork::add_states(KernelList& kernels, Phase phase, MemoryPasses& memory) const {
  if (!makes_inputs()) return;
  const Recurrence& r = model_.recurrence;
  const RecurrenceSizes sizes = recurrence_sizes(r, v_.hidden, v_.mp);
  for (const std::int64_t elements : passes_of(r, sizes, phase))
    memory.add(static_cast<double>(elements * v_.sequence_tokens) * size_);
  const std::int64_t positions = v_.sequence_tokens / workload_.batch;
  const std::int64_t chunk = std::min(positions, delta_rule(r.kind) ? delta_chunk : state_space_chunk);
  const std::int64_t chunks = workload_.batch * ((positions + chunk - 1) / chunk);
  for (const ChunkProduct& p : chunk_products(r, sizes, chunk))
    kernels.add(gemm_shape(p.rows, p.columns, p.inner, p.heads * chunks),
                p.times * (phase == Phase::Forward ? 1 : backward_products));
}

int OpWork::recurrence_passes(Phase phase) const {
  if (!recurrent() || !makes_inputs()) return 0;
  const RecurrenceSizes sizes = recurrence_sizes(model_.recurrence, v_.hidden, v_.mp);
  return static_cast<int>(passes_of(model_.recurrence, sizes, phase).size());
}

}  // namespace dovetail
