// SPDX-License-Identifier: Apache-2.0
#include "models/question/recurrence_sizes.hpp"

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

std::int64_t share_of(std::int64_t heads, int mp) {
  return (heads + mp - 1) / mp;
}

void add_gated_delta(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  s.convolved = 2 * s.keys + s.width;
  s.normed = s.width;
  s.products = {{2 * s.keys + 2 * s.width + 2 * s.heads, hidden}};  // queries, keys, values, gate; rate and decay
  s.vectors = r.convolution * s.convolved + 2 * s.heads + r.value_size;
}

// The decay of each key element is made through a low rank, and so is the output's gate, unless that is made directly.
void add_kimi_delta(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  const std::int64_t inputs = 2 * s.keys + s.width + s.heads;
  s.convolved = 2 * s.keys + s.width;
  s.normed = s.width;
  if (r.direct_gate)
    s.products = {{inputs + s.width, hidden}, {r.rank, hidden}, {s.keys, r.rank}};
  else
    s.products = {{inputs, hidden}, {2 * std::int64_t{r.rank}, hidden}, {s.keys + s.width, r.rank}};
  s.vectors = r.convolution * s.convolved + s.heads + s.keys + r.value_size;
}

void add_lightning(RecurrenceSizes& s, std::int64_t hidden) {
  s.normed = s.width;
  s.products = {{2 * s.keys + 2 * s.width, hidden}};  // queries, keys, values, gate
  s.vectors = s.width;
}

// Each head has a decay, a direct path and a bias of its time step. The convolution has biases.
void add_mamba2(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  s.convolved = s.width + 2 * s.keys;
  s.normed = s.width;
  s.products = {{2 * s.width + 2 * s.keys + s.heads, hidden}};
  s.vectors = (r.convolution + 1) * s.convolved + 3 * s.heads + s.width;
}

// Jamba's, with norms of time steps, keys and queries.
void add_mamba(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  const std::int64_t state = r.key_size;
  s.convolved = s.normed = s.width;
  s.products = {{2 * s.width, hidden}, {r.rank + 2 * state, s.width}, {s.width, r.rank}};
  s.vectors = (r.convolution + 1) * s.width + s.width * (state + 2) + r.rank + 2 * state;
}

void add_short_convolution(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  s.convolved = s.normed = s.width;
  s.products = {{3 * s.width, hidden}};
  s.vectors = r.convolution * s.width;
}

void add_kind(RecurrenceSizes& s, const Recurrence& r, std::int64_t hidden) {
  switch (r.kind) {
    case RecurrenceKind::GatedDelta:
      return add_gated_delta(s, r, hidden);
    case RecurrenceKind::KimiDelta:
      return add_kimi_delta(s, r, hidden);
    case RecurrenceKind::Lightning:
      return add_lightning(s, hidden);
    case RecurrenceKind::Mamba:
      return add_mamba(s, r, hidden);
    case RecurrenceKind::Mamba2:
      return add_mamba2(s, r, hidden);
    case RecurrenceKind::ShortConvolution:
      return add_short_convolution(s, r, hidden);
  }
  throw InternalError("kinds of recurrences");
}

}  // namespace

std::int64_t RecurrenceSizes::parameters() const {
  std::int64_t sum = vectors + output.columns * output.inner;
  for (const TokenProduct& product : products) sum += product.columns * product.inner;
  return sum;
}

std::int64_t RecurrenceSizes::kept() const {
  std::int64_t sum = convolved;
  for (const TokenProduct& product : products) sum += product.columns;
  return sum;
}

RecurrenceSizes recurrence_sizes(const Recurrence& r, std::int64_t hidden, int mp) {
  RecurrenceSizes s;
  s.heads = share_of(r.heads, mp);
  s.key_heads = share_of(r.key_heads, mp);
  s.width = s.heads * r.value_size;
  s.keys = s.key_heads * r.key_size;
  s.output = {hidden, s.width};
  add_kind(s, r, hidden);
  return s;
}

double state_flops(const Recurrence& r) {
  if (r.layers == 0 || r.kind == RecurrenceKind::ShortConvolution) return 0;
  const bool delta = r.kind == RecurrenceKind::GatedDelta || r.kind == RecurrenceKind::KimiDelta;
  return (delta ? 6. : 4.) * r.heads * r.value_size * r.key_size;
}

}  // namespace dovetail
