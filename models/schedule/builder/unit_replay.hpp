// SPDX-License-Identifier: Apache-2.0
// A step is units replayed. Each unit is recorded once, in a schedule of its own order, and the step has them in the
// order of its program. One of the micro-batches that are alike is recorded, their example: the others have the same
// ops, on tensors of the same kinds. Tensors and ops of the example's units are replaced by those that the other
// micro-batch has in their place. All others belong to no micro-batch, as weights and their gradients do.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "models/plan/program.hpp"
#include "models/schedule/builder/pairing.hpp"
#include "models/schedule/schedule_writer.hpp"

namespace dovetail::builder {

// By micro-batch: the one that is recorded for it, which may be itself. The first pass through a stage may gather
// weights and the last one reduces gradients, so that the micro-batches of these are like no other.
std::vector<int> examples(const std::vector<Unit>& units, int micro_batches);

class UnitReplay {
 public:
  UnitReplay(const ScheduleWriter& recording, std::vector<int> example_of)
      : recording_(recording), example_of_(std::move(example_of)) {}

  bool is_recorded(const Unit& unit) const { return example_of_[index(unit.micro_batch)] == unit.micro_batch; }
  // All that has been recorded since the last call is this unit, or of no unit. The latter is replayed at this place.
  void keep(const Unit& unit);
  void keep_loose();
  // Replays a unit here, or two beside each other, merged. They may be recorded later.
  void play(const Unit& unit) { turns_.push_back({unit, {}}); }
  void play(const Unit& forward, const Unit& backward) { turns_.push_back({forward, backward}); }

  // Whether the step is the recording itself: every micro-batch has been recorded, and none is beside another.
  bool is_as_recorded() const;
  // The step, once all is recorded.
  ScheduleWriter step(std::size_t expected_ops, const Pairing& pairing);

 private:
  // A unit as it was recorded, or what belongs to none.
  struct Piece {
    std::optional<Unit> unit;
    TensorId first_tensor, end_tensor;
    OpId first_op, end_op;
    std::vector<TensorId> tensors = {};  // the first of its copies in the step, by micro-batch
    std::vector<std::size_t> ops = {};   // the same in places_
  };
  struct Turn {
    Unit unit;
    std::optional<Unit> beside;
    int loose = -1;  // this piece instead
  };
  // The ops of a turn, each of one of its pieces.
  struct Order {
    std::vector<OpId> ops;
    OpId played;  // in the step, the first time
  };
  using Pieces = std::pair<int, int>;  // -1: one alone

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int add_piece(const std::optional<Unit>& unit);
  int piece_of(const Unit& unit) const;
  Order& order_of(Pieces pieces, const Pairing& pairing);
  void play(const Turn& turn, const Pairing& pairing, ScheduleWriter& step);
  void add_tensors(int piece, int micro_batch, ScheduleWriter& step);
  void add_op(OpId original, int micro_batch, ScheduleWriter& step);
  std::size_t copy_of(const Piece& piece, int micro_batch) const;
  TensorId there(TensorId id, int micro_batch) const;
  OpId there(OpId id, int micro_batch) const;

  const ScheduleWriter& recording_;
  const std::vector<int> example_of_;
  std::vector<Piece> pieces_;  // in the order in which they were recorded
  std::vector<Turn> turns_;
  std::map<std::pair<int, int>, std::vector<int>> units_;  // pieces by micro-batch, of a stage and kind
  IdVector<TensorId, int> piece_of_tensor_;
  IdVector<OpId, int> piece_of_op_;
  std::map<Pieces, Order> orders_;
  std::vector<OpId> places_;  // of ops, in the step
  std::vector<TensorId> reads_, writes_;
};

}  // namespace dovetail::builder
