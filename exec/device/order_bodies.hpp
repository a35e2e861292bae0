// SPDX-License-Identifier: Apache-2.0
// Bodies of encode and decode: tokens to the capacity rows of their experts, and back. A routing (entries, 3) is as in
// models/schedule/operands.md.
#pragma once
#include "exec/device/launch.hpp"

namespace dovetail::exec {

// The facts about a layer that all of them know.
struct SlotShape {
  std::int64_t hidden, capacity, first_slot;
};

// The entries of the routing that a token has. Tokens choose: `count` that follow one another; else those in a table
// (T, count), -1: none.
struct TokenEntries {
  std::int64_t count;
  const std::int32_t* table = nullptr;
  template <class Visit>
  DOVETAIL_BOTH void visit(std::int64_t token, Visit act) const {
    for (std::int64_t i = token * count; i < (token + 1) * count; ++i)
      if (const std::int64_t entry = table == nullptr ? i : table[i]; entry >= 0) act(entry);
  }
};

// A chunk's rows [first, last) of every expert's slots. blocks (E, copies): where an expert's blocks are; -1: none.
template <class Scalar>
struct ChunkView {
  std::int64_t first, last;
  const Scalar* data;
  const std::int32_t* blocks;
  std::int64_t copies;
};

// slot_entry (E C), -1 before: which entry of the routing has the slot.
template <class Number>
struct InvertRouting {
  const Number* routing;
  std::int32_t* slot_entry;
  DOVETAIL_BOTH void operator()(std::int64_t entry) const {
    const auto place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    if (place >= 0) slot_entry[place] = static_cast<std::int32_t>(entry);
  }
};

// A row of a chunk: its token's, times the score if `weighted`; 0 where no token has it.
template <class Scalar>
struct FillSlots {
  SlotShape shape;
  const Scalar* tokens;
  const Wide<Scalar>* routing;
  const std::int32_t *slot_entry, *block_expert;
  bool weighted;
  std::int64_t first, rows;  // slots [first, first + rows) of each block
  Scalar* chunk;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const auto at = static_cast<std::uint32_t>(row), in_block = static_cast<std::uint32_t>(rows);
    const std::int64_t expert = block_expert[at / in_block], slot = first + at % in_block - shape.first_slot;
    const std::int64_t entry = expert < 0 ? -1 : slot_entry[expert * shape.capacity + slot];
    const Wide<Scalar> score = entry < 0 ? 0 : weighted ? routing[3 * entry + 2] : 1;
    const Scalar* const from = tokens + (entry < 0 ? 0 : static_cast<std::int64_t>(routing[3 * entry])) * shape.hidden;
    Scalar* const to = chunk + row * shape.hidden;
    for_columns<Scalar>(lanes, shape.hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value;
      Pack<size, Scalar> values{};
      if (entry >= 0) values = load_constant<size>(from + c);
      for (int j = 0; j < size; ++j) {
        if (entry < 0)
          values.at[j] = narrow<Scalar>(0);
        else if (weighted)
          values.at[j] = narrow<Scalar>(score * wide(values.at[j]));
      }
      store(to + c, values);
    });
  }
};

// The number of a chunk's row: the score of its token's choice; 0 where no token has it.
template <class Number>
struct FillScores {
  SlotShape shape;
  const Number* routing;
  const std::int32_t *slot_entry, *block_expert;
  std::int64_t first, rows;  // slots [first, first + rows) of each block
  Number* chunk;
  DOVETAIL_BOTH void operator()(std::int64_t row) const {
    const std::int64_t expert = block_expert[row / rows], slot = first + row % rows - shape.first_slot;
    const std::int64_t entry = expert < 0 ? -1 : slot_entry[expert * shape.capacity + slot];
    chunk[row] = entry < 0 ? 0 : routing[3 * entry + 2];
  }
};

// visit(row) for each copy of a place's row that the chunks hold.
template <class Scalar, class Visit>
DOVETAIL_BOTH void for_copies(const SlotShape& shape, const ChunkView<Scalar>* chunks, std::int64_t chunk_count,
                              std::int64_t place, Visit visit) {
  const auto at = static_cast<std::uint32_t>(place), slots = static_cast<std::uint32_t>(shape.capacity);
  const std::int64_t expert = at / slots, slot = at % slots + shape.first_slot;
  for (std::int64_t i = 0; i < chunk_count; ++i) {
    const ChunkView<Scalar>& chunk = chunks[i];
    if (slot < chunk.first || slot >= chunk.last) continue;
    for (std::int64_t copy = 0; copy < chunk.copies; ++copy) {
      const std::int64_t block = chunk.blocks[expert * chunk.copies + copy];
      if (block >= 0) visit(chunk.data + (block * (chunk.last - chunk.first) + slot - chunk.first) * shape.hidden);
    }
  }
}

// sum += score * the columns from c on of a row.
template <int size, class Scalar>
DOVETAIL_BOTH void add_scaled(Wide<Scalar>* sum, Wide<Scalar> score, const Pack<size, Scalar>& columns) {
  for (int j = 0; j < size; ++j) sum[j] += score * wide(columns.at[j]);
}

// The rows of a token's choices with their scores, found once for all columns.
template <class Scalar>
struct ChosenRows {
  static constexpr int most = 8;
  const Scalar* rows[most];
  Wide<Scalar> scores[most];
  int count = 0;  // may be more than `most`, which are not kept

  // Comparisons instead of an index: registers have none.
  DOVETAIL_BOTH void keep(const Scalar* row, Wide<Scalar> score) {
    for (int i = 0; i < most; ++i)
      if (i == count) {
        rows[i] = row;
        scores[i] = score;
      }
    ++count;
  }
  // All loads before the first sum, so that a lane waits once.
  template <int size>
  DOVETAIL_BOTH void add(std::int64_t c, Wide<Scalar>* sum) const {
    Pack<size, Scalar> columns[most];
    for (int i = 0; i < most; ++i)
      if (i < count) columns[i] = load_constant<size>(rows[i] + c);
    for (int i = 0; i < most; ++i)
      if (i < count) add_scaled<size, Scalar>(sum, scores[i], columns[i]);
  }
};

// A token's row: `base` (if any) plus the rows of its choices, times their scores if `weighted`.
template <class Scalar>
struct CollectSlots {
  SlotShape shape;
  TokenEntries entries;
  const Scalar* base;
  const Wide<Scalar>* routing;
  bool weighted;
  const ChunkView<Scalar>* chunks;
  std::int64_t chunk_count;
  Scalar* tokens;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t token, const Lanes& lanes) const {
    ChosenRows<Scalar> chosen;
    for_rows(token, [&](const Scalar* row, Wide<Scalar> score) { chosen.keep(row, score); });
    if (chosen.count <= ChosenRows<Scalar>::most)
      return sum_up(token, lanes, [&](std::int64_t c, auto size, Wide<Scalar>* sum) {
        chosen.template add<decltype(size)::value>(c, sum);
      });
    sum_up(token, lanes, [&](std::int64_t c, auto size, Wide<Scalar>* sum) {
      for_rows(token, [&](const Scalar* row, Wide<Scalar> score) {
        add_scaled<decltype(size)::value, Scalar>(sum, score, load_constant<decltype(size)::value>(row + c));
      });
    });
  }

 private:
  template <class Visit>
  DOVETAIL_BOTH void for_rows(std::int64_t token, Visit visit) const {
    entries.visit(token, [&](std::int64_t entry) {
      const auto place = static_cast<std::int64_t>(routing[3 * entry + 1]);
      if (place < 0) return;
      const Wide<Scalar> score = weighted ? routing[3 * entry + 2] : 1;
      for_copies(shape, chunks, chunk_count, place, [&](const Scalar* row) { visit(row, score); });
    });
  }
  // add(first column, how many, their sums)
  template <class Lanes, class AddRows>
  DOVETAIL_BOTH void sum_up(std::int64_t token, const Lanes& lanes, AddRows add) const {
    for_columns<Scalar>(lanes, shape.hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value;
      const std::int64_t at = token * shape.hidden + c;
      Wide<Scalar> sum[size] = {};
      if (base != nullptr) add_scaled<size, Scalar>(sum, 1, load_constant<size>(base + at));
      add(c, count, sum);
      Pack<size, Scalar> result;
      for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(sum[j]);
      store(tokens + at, result);
    });
  }
};

// An entry's: the token's gradient times its row; 0 where dropped. In double: gate gradients are differences of these.
template <class Scalar>
struct ScoreGradients {
  SlotShape shape;
  const Scalar* output_gradient;
  const Wide<Scalar>* routing;
  const ChunkView<Scalar>* chunks;
  std::int64_t chunk_count;
  Wide<Scalar>* score_gradient;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t entry, const Lanes& lanes) const {
    const auto token = static_cast<std::int64_t>(routing[3 * entry]),
               place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    const Scalar* const gradient = output_gradient + token * shape.hidden;
    double dot = 0;
    if (place >= 0)
      for_copies(shape, chunks, chunk_count, place, [&](const Scalar* row) {
        for_columns<Scalar>(lanes, shape.hidden, [&](std::int64_t c, auto count) {
          constexpr int size = decltype(count)::value;
          const Pack<size, Scalar> a = load_constant<size>(gradient + c), b = load_constant<size>(row + c);
          for (int j = 0; j < size; ++j) dot += product_in_double(a.at[j], b.at[j]);
        });
      });
    dot = lanes.sum(dot);
    if (lanes.index() == 0) score_gradient[entry] = static_cast<Wide<Scalar>>(dot);
  }
};

// The gradient of an entry's score: the sum of those of its row's copies; 0 where dropped. Rows are one number each.
template <class Number>
struct CollectScores {
  SlotShape shape;
  const Number* routing;
  const ChunkView<Number>* chunks;
  std::int64_t chunk_count;
  Number* score_gradient;
  DOVETAIL_BOTH void operator()(std::int64_t entry) const {
    const auto place = static_cast<std::int64_t>(routing[3 * entry + 1]);
    Number sum = 0;
    if (place >= 0) for_copies(shape, chunks, chunk_count, place, [&](const Number* d_score) { sum += *d_score; });
    score_gradient[entry] = sum;
  }
};

}  // namespace dovetail::exec
