// SPDX-License-Identifier: Apache-2.0
// Encode and decode by the routing tensor and where the placement of rows puts each expert.
#include <algorithm>

#include "exec/device/device_op.hpp"
#include "exec/device/soft_bodies.hpp"

namespace dovetail::exec {
namespace {

SlotShape slot_shape(const LayerShape& s) {
  return {s.hidden, s.capacity, s.first_slot};
}

// Blocks of a chunk's experts (E, copies), -1 where there is none; and the other way round.
struct BlockTables {
  std::int64_t copies = 1;
  std::vector<std::int32_t> blocks;        // by expert and copy
  std::vector<std::int32_t> block_expert;  // by block; -1: nobody's
};
BlockTables block_tables(const LayerShape& s, const Tensor& chunk) {
  BlockTables tables;
  tables.copies = s.placement.repeats;
  tables.blocks.assign(static_cast<std::size_t>(s.experts * tables.copies), -1);
  tables.block_expert.assign(static_cast<std::size_t>(chunk.elements / (chunk.rows.size() * s.hidden)), -1);
  for (std::int64_t expert = 0; expert < s.experts; ++expert) {
    std::int64_t copy = 0;
    const auto take = [&](std::int64_t block) {
      tables.blocks[static_cast<std::size_t>(expert * tables.copies + copy++)] = static_cast<std::int32_t>(block);
      tables.block_expert[static_cast<std::size_t>(block)] = static_cast<std::int32_t>(expert);
    };
    if (chunk.expert < 0)
      s.placement.for_each_block(expert, chunk.peers, take);
    else if (chunk.expert == expert)
      take(0);
  }
  return tables;
}

template <class Item>
struct Views {
  const ChunkView<Item>* chunks;
  std::int64_t count;
};
template <class Item, class Scalar>
Views<Item> read_chunks(const DeviceOp<Scalar>& op, const LayerShape& s, Role role) {
  std::vector<ChunkView<Item>> views;
  for (TensorId chunk : op.all_reads(role)) {
    const Tensor& t = op.tensor(chunk);
    const BlockTables tables = block_tables(s, t);
    views.push_back(
        {t.rows.first, t.rows.last, op.template data<Item>(chunk), op.out.table(tables.blocks), tables.copies});
  }
  return {op.out.table(views), std::ssize(views)};
}

// By slot: the entry of the routing that has it, or -1.
template <class Scalar>
const std::int32_t* slot_entries(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing) {
  const LayerShape& s = op.shape;
  auto* const slot_entry = op.out.template scratch<std::int32_t>(s.slots());
  op.out.fill(slot_entry, 0xff, s.slots() * static_cast<std::int64_t>(sizeof(std::int32_t)));  // -1
  op.out.launch(s.routing_entries(), InvertRouting<Wide<Scalar>>{routing, slot_entry});
  return slot_entry;
}

// Fills the chunks that an op writes with rows of `tokens`.
template <class Scalar>
void fill_chunks(const DeviceOp<Scalar>& op, const Scalar* tokens, const Wide<Scalar>* routing,
                 const std::int32_t* slot_entry, bool weighted, Role chunks) {
  const LayerShape& s = op.shape;
  for (TensorId chunk : op.all_writes(chunks)) {
    const Tensor& t = op.tensor(chunk);
    const BlockTables tables = block_tables(s, t);
    op.out.launch(t.elements / s.hidden,
                  FillSlots<Scalar>{slot_shape(s), tokens, routing, slot_entry, op.out.table(tables.block_expert),
                                    weighted, t.rows.first, t.rows.size(), op.data(chunk)});
  }
}

template <class Scalar>
void fill_scores(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing, const std::int32_t* slot_entry) {
  const LayerShape numbers = with_numbers(op.shape);
  for (TensorId chunk : op.all_writes(TensorKind::EncodedScores)) {
    const Tensor& t = op.tensor(chunk);
    const BlockTables tables = block_tables(numbers, t);
    op.out.launch(t.elements,
                  FillScores<Wide<Scalar>>{slot_shape(numbers), routing, slot_entry, op.out.table(tables.block_expert),
                                           t.rows.first, t.rows.size(), op.template data<Wide<Scalar>>(chunk)});
  }
}

template <class Scalar>
void encode_forward(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing) {
  const std::int32_t* const slot_entry = slot_entries(op, routing);
  fill_chunks(op, read_tokens(op, roles::moe_input), routing, slot_entry, false,
              TensorKind::Encoded | TensorKind::ShadowInput);
  fill_scores(op, routing, slot_entry);
}

template <class Scalar>
void encode_backward(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing) {
  const Views<Scalar> d_encoded = read_chunks<Scalar>(op, op.shape, gradient_of(roles::expert_input));
  op.out.launch(op.shape.tokens, CollectSlots<Scalar>{slot_shape(op.shape), token_entries(op, routing), nullptr,
                                                      routing, false, d_encoded.chunks, d_encoded.count,
                                                      write_tokens(op, gradient_of(roles::moe_input))});
  const TensorId d_scores = op.find_write(TensorKind::ScoreGradient);
  if (!d_scores.exists()) return;
  const LayerShape numbers = with_numbers(op.shape);
  const Views<Wide<Scalar>> parts = read_chunks<Wide<Scalar>>(op, numbers, gradient_of(roles::row_scores));
  op.out.launch(op.shape.routing_entries(),
                CollectScores<Wide<Scalar>>{slot_shape(numbers), routing, parts.chunks, parts.count,
                                            op.template data<Wide<Scalar>>(d_scores)});
}

template <class Scalar>
void decode_backward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  Scalar* const gradient = write_tokens(op, TensorKind::OutputGradient);
  record_gradient_sum(op, gradient);
  const auto* const routing = op.template read<Wide<Scalar>>(TensorKind::Routing);
  const bool weighted = op.schedule.scores_at == ScoresAt::Decode;
  if (weighted) {
    const Views<Scalar> combined = read_chunks<Scalar>(op, s, roles::to_decode);
    op.out.launch(s.routing_entries(),
                  ScoreGradients<Scalar>{slot_shape(s), gradient, routing, combined.chunks, combined.count,
                                         op.template write<Wide<Scalar>>(TensorKind::ScoreGradient)});
  }
  fill_chunks<Scalar>(op, gradient, routing, slot_entries(op, routing), weighted,
                      gradient_of(TensorKind::Combined | TensorKind::ShadowOutput));
}

}  // namespace

template <class Scalar>
void record_gradient_sum(const DeviceOp<Scalar>& op, Scalar* to) {
  const std::int64_t size = op.shape.tokens * op.shape.hidden;
  const Scalar* so_far = nullptr;
  for (TensorId part : op.all_reads(roles::d_output)) {
    const Scalar* const from = tokens_of(op, part);
    if (so_far != nullptr) record_sum<Scalar>(op.out, so_far, from, to, size);
    so_far = so_far == nullptr ? from : to;
  }
  if (so_far != to) op.out.copy(to, so_far, size * static_cast<std::int64_t>(sizeof(Scalar)));
}

template <class Scalar>
TokenEntries token_entries(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing) {
  const LayerShape& s = op.shape;
  if (s.gate.kind != GateKind::ExpertChoice) return {s.top_k};
  auto* const table = op.out.template scratch<std::int32_t>(s.tokens * s.experts);
  op.out.fill(table, 0xff, s.tokens * s.experts * static_cast<std::int64_t>(sizeof(std::int32_t)));  // -1
  op.out.launch(s.routing_entries(), TableOfEntries<Wide<Scalar>>{s.experts, s.capacity, routing, table});
  return {s.experts, table};
}

template <class Scalar>
void record_encode(DeviceOp<Scalar>& op) {
  if (op.find_read(TensorKind::RoutingMask).exists()) return record_dense_encode(op);
  const auto* const routing = op.template read<Wide<Scalar>>(TensorKind::Routing);
  op.op.phase == Phase::Forward ? encode_forward(op, routing) : encode_backward(op, routing);
}

template <class Scalar>
void record_decode(DeviceOp<Scalar>& op) {
  if (op.find_read(TensorKind::CombineWeights).exists()) return record_dense_decode(op);
  if (op.op.phase == Phase::Backward) return decode_backward(op);
  const auto* const routing = op.template read<Wide<Scalar>>(TensorKind::Routing);
  const Views<Scalar> combined = read_chunks<Scalar>(op, op.shape, roles::to_decode);
  op.out.launch(op.shape.tokens, CollectSlots<Scalar>{slot_shape(op.shape), token_entries(op, routing),
                                                      read_tokens(op, TensorKind::MoeInput), routing,
                                                      op.schedule.scores_at == ScoresAt::Decode, combined.chunks,
                                                      combined.count, write_tokens(op, TensorKind::LayerInput)});
}

template TokenEntries token_entries(const DeviceOp<double>&, const double*);
template TokenEntries token_entries(const DeviceOp<float>&, const float*);
template TokenEntries token_entries(const DeviceOp<Bf16>&, const float*);
template void record_gradient_sum(const DeviceOp<double>&, double*);
template void record_gradient_sum(const DeviceOp<float>&, float*);
template void record_gradient_sum(const DeviceOp<Bf16>&, Bf16*);
DOVETAIL_FOR_DEVICE(record_encode);
DOVETAIL_FOR_DEVICE(record_decode);

}  // namespace dovetail::exec
