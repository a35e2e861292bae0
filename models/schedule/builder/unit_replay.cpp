// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/unit_replay.hpp"

#include <algorithm>
#include <set>

namespace dovetail::builder {

std::vector<int> examples(const std::vector<Unit>& units, int micro_batches) {
  using Pass = std::pair<int, UnitKind>;
  std::map<Pass, std::pair<int, int>> ends;  // micro-batches of the first and last pass
  std::vector<std::set<Pass>> passes(static_cast<std::size_t>(micro_batches));
  for (const Unit& unit : units) {
    const Pass pass{unit.stage, unit.kind};
    ends.try_emplace(pass, unit.micro_batch, unit.micro_batch).first->second.second = unit.micro_batch;
    passes[static_cast<std::size_t>(unit.micro_batch)].insert(pass);
  }
  std::set<int> apart;
  for (const auto& [pass, of] : ends) apart.insert({of.first, of.second});
  std::map<std::set<Pass>, int> found;
  std::vector<int> example_of;
  for (int i = 0; i < micro_batches; ++i)
    example_of.push_back(apart.contains(i) ? i
                                           : found.try_emplace(passes[static_cast<std::size_t>(i)], i).first->second);
  return example_of;
}

int UnitReplay::add_piece(const std::optional<Unit>& unit) {
  const Schedule& s = recording_.so_far();
  const Piece begin = pieces_.empty() ? Piece{{}, TensorId(0), TensorId(0), OpId(0), OpId(0)} : pieces_.back();
  const TensorId end_tensor(s.tensors.size());
  const OpId end_op(s.ops.size());
  if (!unit && begin.end_tensor == end_tensor && begin.end_op == end_op) return -1;
  const std::size_t copies = unit ? example_of_.size() : 1;
  pieces_.push_back({unit, begin.end_tensor, end_tensor, begin.end_op, end_op, std::vector<TensorId>(copies),
                     std::vector<std::size_t>(copies)});
  const int piece = static_cast<int>(pieces_.size()) - 1;
  piece_of_tensor_.resize(s.tensors.size(), piece);
  piece_of_op_.resize(s.ops.size(), piece);
  return piece;
}

void UnitReplay::keep(const Unit& unit) {
  std::vector<int>& by_micro_batch = units_[{unit.stage, static_cast<int>(unit.kind)}];
  by_micro_batch.resize(example_of_.size(), -1);
  by_micro_batch[index(unit.micro_batch)] = add_piece(unit);
}

void UnitReplay::keep_loose() {
  if (const int piece = add_piece({}); piece >= 0) turns_.push_back({{}, {}, piece});
}

bool UnitReplay::is_as_recorded() const {
  for (std::size_t i = 0; i < example_of_.size(); ++i)
    if (index(example_of_[i]) != i) return false;
  return std::ranges::none_of(turns_, [](const Turn& turn) { return turn.beside.has_value(); });
}

ScheduleWriter UnitReplay::step(std::size_t expected_ops, const Pairing& pairing) {
  ScheduleWriter step = recording_.without_ops(expected_ops);
  places_.reserve(expected_ops);
  for (const Turn& turn : turns_) play(turn, pairing, step);
  return step;
}

int UnitReplay::piece_of(const Unit& unit) const {
  return units_.at({unit.stage, static_cast<int>(unit.kind)})[index(example_of_[index(unit.micro_batch)])];
}

UnitReplay::Order& UnitReplay::order_of(Pieces pieces, const Pairing& pairing) {
  const auto [place, added] = orders_.try_emplace(pieces);
  Order& order = place->second;
  if (!added) return order;
  const Piece& one = pieces_[index(pieces.first)];
  if (pieces.second >= 0) {
    const Piece& other = pieces_[index(pieces.second)];
    const UnitOps forward{one.unit->stage, one.first_op, one.end_op},
        backward{other.unit->stage, other.first_op, other.end_op};
    order.ops = pairing.merged(recording_.so_far(), forward, backward);
  } else {
    for (OpId id = one.first_op; id < one.end_op; ++id) order.ops.push_back(id);
  }
  return order;
}

void UnitReplay::play(const Turn& turn, const Pairing& pairing, ScheduleWriter& step) {
  const Pieces pieces{turn.loose >= 0 ? turn.loose : piece_of(turn.unit), turn.beside ? piece_of(*turn.beside) : -1};
  const int one = turn.loose >= 0 ? 0 : turn.unit.micro_batch, other = turn.beside ? turn.beside->micro_batch : -1;
  add_tensors(pieces.first, one, step);
  if (turn.beside) add_tensors(pieces.second, other, step);
  Order& order = order_of(pieces, pairing);
  const OpId first(step.so_far().ops.size());
  for (const OpId id : order.ops) add_op(id, piece_of_op_[id] == pieces.first ? one : other, step);
  if (order.played.exists())
    step.note_copies({first, order.played, static_cast<std::int32_t>(order.ops.size())});
  else
    order.played = first;
}

// The copy of a piece that a unit of this micro-batch means.
std::size_t UnitReplay::copy_of(const Piece& piece, int micro_batch) const {
  if (!piece.unit) return 0;
  const int recorded = piece.unit->micro_batch;
  return index(example_of_[index(micro_batch)] == recorded ? micro_batch : recorded);
}

TensorId UnitReplay::there(TensorId id, int micro_batch) const {
  if (!id.exists()) return id;
  const Piece& piece = pieces_[index(piece_of_tensor_[id])];
  return TensorId(piece.tensors[copy_of(piece, micro_batch)] + (id - piece.first_tensor));
}

OpId UnitReplay::there(OpId id, int micro_batch) const {
  if (!id.exists()) return id;
  const Piece& piece = pieces_[index(piece_of_op_[id])];
  return places_[piece.ops[copy_of(piece, micro_batch)] + static_cast<std::size_t>(id - piece.first_op)];
}

// With room for the places of its ops.
void UnitReplay::add_tensors(int number, int micro_batch, ScheduleWriter& step) {
  Piece& piece = pieces_[index(number)];
  const std::size_t copy = piece.unit ? index(micro_batch) : 0;
  piece.tensors[copy] = TensorId(step.so_far().tensors.size());
  piece.ops[copy] = places_.size();
  places_.resize(places_.size() + static_cast<std::size_t>(piece.end_op - piece.first_op));
  for (TensorId t = piece.first_tensor; t < piece.end_tensor; ++t) {
    Tensor tensor = recording_.tensor(t);
    if (piece.unit && tensor.micro_batch == piece.unit->micro_batch)
      tensor.micro_batch = static_cast<std::int16_t>(micro_batch);
    tensor.buffer = there(tensor.buffer, micro_batch);
    step.add_tensor(tensor);
  }
}

void UnitReplay::add_op(OpId original, int micro_batch, ScheduleWriter& step) {
  const Schedule& s = recording_.so_far();
  const Op& op = s.ops[original];
  const auto replace = [&](std::span<const TensorId> ids, std::vector<TensorId>& by) {
    by.clear();
    for (const TensorId id : ids) by.push_back(there(id, micro_batch));
  };
  replace(s.reads_of(op), reads_);
  replace(s.writes_of(op), writes_);
  const Piece& piece = pieces_[index(piece_of_op_[original])];
  const bool own = piece.unit && op.micro_batch == piece.unit->micro_batch;
  const OpId added = step.add_again(recording_, original, own ? micro_batch : op.micro_batch, reads_, writes_,
                                    there(recording_.asked_after(original), micro_batch));
  places_[piece.ops[copy_of(piece, micro_batch)] + static_cast<std::size_t>(original - piece.first_op)] = added;
}

}  // namespace dovetail::builder
