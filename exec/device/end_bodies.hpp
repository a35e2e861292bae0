// SPDX-License-Identifier: Apache-2.0
// Bodies of norms, of the embedding and of the loss.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"
#include "exec/step/norm_rule.hpp"
#include "exec/step/word_rule.hpp"
#include "models/schedule/loss_statistics.hpp"

namespace dovetail::exec {

// The places at which rows of some columns begin: one after another, or with a stride several rows in each piece of so
// many elements.
struct NormLayout {
  std::int64_t rows = 1, stride = 0;
  bool packs = true;  // they begin at multiples of a pack, if the strides are
  DOVETAIL_BOTH std::int64_t at(std::int64_t i, std::int64_t cols) const {
    return stride == 0 ? i * cols : i / rows * stride + i % rows * cols;
  }
  // A length by which for_columns() knows whether rows may be read in packs.
  template <class Scalar>
  DOVETAIL_BOTH std::int64_t length(std::int64_t cols) const {
    return packs && stride % pack_size<Scalar> == 0 ? cols : 1;
  }
};

// One over the root of a row's mean square.
template <class Scalar, class Lanes>
DOVETAIL_BOTH Wide<Scalar> inverse_root(const Scalar* row, std::int64_t length, std::int64_t cols, const Lanes& lanes) {
  using Number = Wide<Scalar>;
  Number squares = 0;
  for_columns<Scalar>(lanes, length, cols, [&](std::int64_t c, auto size) {
    const auto x = load_constant<decltype(size)::value>(row + c);
    for (const Scalar value : x.at) squares += wide(value) * wide(value);
  });
  return 1 / std::sqrt(lanes.sum(squares) / static_cast<Number>(cols) + Number(norm_epsilon));
}

// By row: y = w x / root.
template <class Scalar>
struct NormRows {
  const Scalar *x, *weights;
  std::int64_t cols;
  Scalar* y;
  NormLayout from = {}, to = {};
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const Scalar* const row = x + from.at(i, cols);
    Scalar* const result = y + to.at(i, cols);
    const std::int64_t length = to.length<Scalar>(from.length<Scalar>(cols));
    const Wide<Scalar> r = inverse_root(row, length, cols, lanes);
    for_columns<Scalar>(lanes, length, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      const auto in = load_constant<count>(row + c), w = load_constant<count>(weights + c);
      Pack<count, Scalar> out;
      for (int j = 0; j < count; ++j) out.at[j] = narrow<Scalar>(wide(w.at[j]) * wide(in.at[j]) * r);
      store(result + c, out);
    });
  }
};

// By row: the gradient of x, and the root for that of the weights.
template <class Scalar>
struct NormRowsBackward {
  const Scalar *x, *weights, *d_y;
  std::int64_t cols;
  Scalar* d_x;
  Wide<Scalar>* inverse;
  NormLayout from = {}, to = {};  // from: of x and d_y
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const Scalar *const row = x + from.at(i, cols), *const d = d_y + from.at(i, cols);
    Scalar* const back_to = d_x + to.at(i, cols);
    const std::int64_t length = to.length<Scalar>(from.length<Scalar>(cols));
    const Number r = inverse_root(row, length, cols, lanes);
    Number dot = 0;
    for_columns<Scalar>(lanes, length, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      const auto in = load_constant<count>(row + c), w = load_constant<count>(weights + c),
                 out = load_constant<count>(d + c);
      for (int j = 0; j < count; ++j) dot += wide(w.at[j]) * wide(out.at[j]) * wide(in.at[j]);
    });
    const Number back = r * r * lanes.sum(dot) / static_cast<Number>(cols);
    for_columns<Scalar>(lanes, length, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      const auto in = load_constant<count>(row + c), w = load_constant<count>(weights + c),
                 out = load_constant<count>(d + c);
      Pack<count, Scalar> result;
      for (int j = 0; j < count; ++j)
        result.at[j] = narrow<Scalar>(r * (wide(w.at[j]) * wide(out.at[j]) - wide(in.at[j]) * back));
      store(back_to + c, result);
    });
    if (lanes.index() == 0) inverse[i] = r;
  }
};

// By segment of rows and column: the segment's part of the weights' gradient.
template <class Scalar>
struct NormWeightParts {
  static constexpr std::int64_t segment = 64;  // rows
  const Scalar *x, *d_y;
  const Wide<Scalar>* inverse;
  std::int64_t rows, cols;
  Wide<Scalar>* parts;
  NormLayout from = {};
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const std::int64_t first = i / cols * segment, col = i % cols;
    const std::int64_t last = first + segment < rows ? first + segment : rows;
    Wide<Scalar> sum = 0;
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = from.at(row, cols) + col;
      sum += wide(d_y[at]) * wide(x[at]) * inverse[row];
    }
    parts[i] = sum;
  }
};
// By column: adds the parts of all segments.
template <class Scalar>
struct AddNormWeightParts {
  const Wide<Scalar>* parts;
  std::int64_t segments, cols;
  Scalar* gradient;
  DOVETAIL_BOTH void operator()(std::int64_t col) const {
    Wide<Scalar> sum = wide(gradient[col]);
    for (std::int64_t segment = 0; segment < segments; ++segment) sum += parts[segment * cols + col];
    gradient[col] = narrow<Scalar>(sum);
  }
};

// By row: `cols` elements of it, between rows of other lengths.
template <class Scalar>
struct CopyColumns {
  const Scalar* from;
  std::int64_t from_length;
  Scalar* to;
  std::int64_t to_length, cols;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const Scalar* const source = from + i * from_length;
    Scalar* const target = to + i * to_length;
    const bool packs = from_length % pack_size<Scalar> == 0 && to_length % pack_size<Scalar> == 0;
    for_columns<Scalar>(lanes, packs ? cols : 1, cols, [&](std::int64_t c, auto size) {
      store(target + c, load_constant<decltype(size)::value>(source + c));
    });
  }
};

// The words of all positions, and the rows that these have. A rank has words [first, first + count).
template <class Scalar>
struct DeviceWords {
  const Wide<Scalar>* tokens;  // (2, L)
  const std::int64_t* rows;
  std::int64_t positions, first, count;
  std::int64_t sequence, depth;  // words are so many positions further on, see shifted_position()
  DOVETAIL_BOTH std::int64_t word(std::int64_t position) const { return here(tokens[shifted(position)]); }
  DOVETAIL_BOTH std::int64_t next_word(std::int64_t position) const {
    return here(tokens[positions + shifted(position)]);
  }

 private:
  DOVETAIL_BOTH std::int64_t shifted(std::int64_t position) const {
    return shifted_position(position, sequence, depth);
  }
  DOVETAIL_BOTH std::int64_t here(Wide<Scalar> token) const {
    const std::int64_t word = static_cast<std::int64_t>(token) - first;
    return 0 <= word && word < count ? word : -1;
  }
};

// By position: the row of its word, or zeros.
template <class Scalar>
struct LookUpWords {
  DeviceWords<Scalar> words;
  const Scalar* weights;
  std::int64_t cols;
  Scalar* to;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const std::int64_t word = words.word(i);
    Scalar* const row = to + words.rows[i] * cols;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      Pack<count, Scalar> values;
      for (Scalar& value : values.at) value = narrow<Scalar>(0);
      if (word >= 0) values = load_constant<count>(weights + word * cols + c);
      store(row + c, values);
    });
  }
};

// By position: the next position with the same word, or -1; of a word that stood before, `not_first` too. Sums over the
// positions of a word are then made in their order by one row alone.
template <class Scalar>
struct LinkSameWords {
  static constexpr std::int32_t none = -1;
  DeviceWords<Scalar> words;
  std::int32_t *next, *not_first;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    const std::int64_t word = words.word(i);
    std::int32_t nearest = none;  // counted from the end, so that the largest is the nearest
    std::int32_t before = 0;
    for (std::int64_t j = lanes.index(); j < words.positions && word >= 0; j += lanes.count()) {
      if (j == i || words.word(j) != word) continue;
      if (j < i)
        before = 1;
      else if (nearest == none)
        nearest = static_cast<std::int32_t>(words.positions - j);
    }
    nearest = lanes.max(nearest);
    const std::int32_t stood = lanes.max(before);
    if (lanes.index() != 0) return;
    next[i] = nearest == none ? none : static_cast<std::int32_t>(words.positions) - nearest;
    not_first[i] = word < 0 ? 1 : stood;
  }
};
template <class Scalar>
struct AddToWords {
  DeviceWords<Scalar> words;
  const std::int32_t *next, *not_first;
  const Scalar* d_rows;
  std::int64_t cols;
  Scalar* gradient;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    if (not_first[i] != 0) return;
    Scalar* const to = gradient + words.word(i) * cols;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      Pack<count, Scalar> result = load<count>(to + c);
      Wide<Scalar> sum[count];
      for (int j = 0; j < count; ++j) sum[j] = wide(result.at[j]);
      for (std::int64_t position = i; position >= 0; position = next[position]) {
        const auto row = load_constant<count>(d_rows + words.rows[position] * cols + c);
        for (int j = 0; j < count; ++j) sum[j] += wide(row.at[j]);
      }
      for (int j = 0; j < count; ++j) result.at[j] = narrow<Scalar>(sum[j]);
      store(to + c, result);
    });
  }
};

// By position: the statistics of its row of logits (loss_statistics.hpp).
template <class Scalar>
struct LossStatisticsOf {
  DeviceWords<Scalar> words;
  const Scalar* logits;
  Wide<Scalar>* statistics;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const std::int64_t cols = words.count, at = words.rows[i], next = words.next_word(i);
    const Scalar* const row = logits + at * cols;
    Number largest = wide(row[0]);
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      const auto values = load_constant<decltype(size)::value>(row + c);
      for (const Scalar value : values.at) largest = wide(value) > largest ? wide(value) : largest;
    });
    largest = lanes.max(largest);
    Number sum = 0;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      const auto values = load_constant<decltype(size)::value>(row + c);
      for (const Scalar value : values.at) sum += std::exp(wide(value) - largest);
    });
    sum = lanes.sum(sum);
    if (lanes.index() != 0) return;
    Number* const to = statistics + loss_statistics * at;
    to[0] = largest;
    to[1] = sum;
    to[2] = next >= 0 ? wide(row[next]) : Number(0);
  }
};

// By position: its loss from the statistics of all ranks; the row of logits, if there is one, becomes its gradient.
template <class Scalar>
struct LossOf {
  DeviceWords<Scalar> words;
  const Wide<Scalar>* statistics;  // (ranks, L, 3)
  std::int64_t ranks;
  Wide<Scalar> share;  // of the loss of a position
  Wide<Scalar>* losses;
  Scalar* logits;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t i, const Lanes& lanes) const {
    using Number = Wide<Scalar>;
    const std::int64_t cols = words.count, at = words.rows[i], next = words.next_word(i);
    Number largest = of_rank(0, at)[0], sum = 0, right = 0;
    for (std::int64_t rank = 1; rank < ranks; ++rank)
      largest = of_rank(rank, at)[0] > largest ? of_rank(rank, at)[0] : largest;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      sum += of_rank(rank, at)[1] * std::exp(of_rank(rank, at)[0] - largest);
      right += of_rank(rank, at)[2];
    }
    if (lanes.index() == 0) losses[at] = largest + std::log(sum) - right;
    if (logits == nullptr) return;
    Scalar* const row = logits + at * cols;
    for_columns<Scalar>(lanes, cols, [&](std::int64_t c, auto size) {
      constexpr int count = decltype(size)::value;
      Pack<count, Scalar> values = load<count>(row + c);
      for (int j = 0; j < count; ++j) {
        const Number expected = c + j == next ? Number(1) : Number(0);
        values.at[j] = narrow<Scalar>((std::exp(wide(values.at[j]) - largest) / sum - expected) * share);
      }
      store(row + c, values);
    });
  }

 private:
  DOVETAIL_BOTH const Wide<Scalar>* of_rank(std::int64_t rank, std::int64_t row) const {
    return statistics + loss_statistics * (rank * words.positions + row);
  }
};

}  // namespace dovetail::exec
