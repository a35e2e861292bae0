// Bodies of encode and decode: tokens to the capacity rows of their experts, and back. A routing (entries, 3) is as in
// models/schedule/operands.md.
#pragma once
#include "exec/device/launch.hpp"

namespace dovetail::exec {

// What all of them know of a layer.
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
    const std::int64_t expert = block_expert[row / rows], slot = first + row % rows - shape.first_slot;
    const std::int64_t entry = expert < 0 ? -1 : slot_entry[expert * shape.capacity + slot];
    const Wide<Scalar> score = entry < 0 ? 0 : weighted ? routing[3 * entry + 2] : 1;
    const Scalar* const from = tokens + (entry < 0 ? 0 : static_cast<std::int64_t>(routing[3 * entry])) * shape.hidden;
    Scalar* const to = chunk + row * shape.hidden;
    for_columns<Scalar>(lanes, shape.hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value;
      Pack<size, Scalar> values{};
      if (entry >= 0) values = load<size>(from + c);
      for (int j = 0; j < size; ++j) {
        if (entry < 0)
          values.at[j] = narrow<Scalar>(0);
        else if (weighted)
          values.at[j] = narrow<Scalar>(score * wide(values.at[j]));
      }
      store<size>(to + c, values);
    });
  }
};

// visit(row) for each copy of a place's row that the chunks hold.
template <class Scalar, class Visit>
DOVETAIL_BOTH void for_copies(const SlotShape& shape, const ChunkView<Scalar>* chunks, std::int64_t chunk_count,
                              std::int64_t place, Visit visit) {
  const std::int64_t expert = place / shape.capacity, slot = place % shape.capacity + shape.first_slot;
  for (std::int64_t i = 0; i < chunk_count; ++i) {
    const ChunkView<Scalar>& chunk = chunks[i];
    if (slot < chunk.first || slot >= chunk.last) continue;
    for (std::int64_t copy = 0; copy < chunk.copies; ++copy) {
      const std::int64_t block = chunk.blocks[expert * chunk.copies + copy];
      if (block >= 0) visit(chunk.data + (block * (chunk.last - chunk.first) + slot - chunk.first) * shape.hidden);
    }
  }
}

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
    for_columns<Scalar>(lanes, shape.hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value;
      Wide<Scalar> sum[size];
      for (int j = 0; j < size; ++j) sum[j] = base == nullptr ? 0 : wide(base[token * shape.hidden + c + j]);
      entries.visit(token, [&](std::int64_t entry) {
        const auto place = static_cast<std::int64_t>(routing[3 * entry + 1]);
        if (place < 0) return;
        const Wide<Scalar> score = weighted ? routing[3 * entry + 2] : 1;
        for_copies(shape, chunks, chunk_count, place, [&](const Scalar* row) {
          const Pack<size, Scalar> values = load<size>(row + c);
          for (int j = 0; j < size; ++j) sum[j] += score * wide(values.at[j]);
        });
      });
      Pack<size, Scalar> result;
      for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(sum[j]);
      store<size>(tokens + token * shape.hidden + c, result);
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
    double dot = 0;
    if (place >= 0)
      for_copies(shape, chunks, chunk_count, place, [&](const Scalar* row) {
        for (std::int64_t c = lanes.index(); c < shape.hidden; c += lanes.count())
          dot += static_cast<double>(wide(output_gradient[token * shape.hidden + c])) * wide(row[c]);
      });
    dot = lanes.sum(dot);
    if (lanes.index() == 0) score_gradient[entry] = static_cast<Wide<Scalar>>(dot);
  }
};

}  // namespace dovetail::exec
