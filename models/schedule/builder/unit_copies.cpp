// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/unit_copies.hpp"

#include <algorithm>

namespace dovetail::builder {

UnitCopies::UnitCopies(StepContext& c)
    : c_(c), kept_(static_cast<std::size_t>(unit_kinds * c.stages() * c.plan().virtual_stages)) {}

UnitCopies::Begin UnitCopies::begin() const {
  const Schedule& s = c_.writer().so_far();
  return {TensorId(s.tensors.size()), OpId(s.ops.size())};
}

std::size_t UnitCopies::place_of(const Unit& unit) const {
  return static_cast<std::size_t>(unit_kinds * unit.stage) + static_cast<std::size_t>(unit.kind);
}

void UnitCopies::keep(const Unit& unit, Begin first) {
  kept_[place_of(unit)] = static_cast<int>(units_.size());
  units_.push_back({first, begin(), std::vector<Begin>(static_cast<std::size_t>(c_.plan().micro_batches))});
}

void UnitCopies::copy(const Unit& unit) {
  unit_ = static_cast<std::size_t>(kept_[place_of(unit)]);
  micro_batch_ = unit.micro_batch;
  Original& original = units_[unit_];
  const Begin first = original.copies[static_cast<std::size_t>(micro_batch_)] = begin();
  add_tensors(original);
  for (OpId op = original.first.op; op < original.end.op; ++op) add_op(op);
  c_.writer().note_copies({first.op, original.first.op, original.end.op - original.first.op});
}

// The tensor or op that the micro-batch has in the place of this one.
template <class Key>
Key UnitCopies::there(Key id, Key Begin::*key) const {
  const auto is_of = [&](const Original& unit) { return id >= unit.first.*key && id < unit.end.*key; };
  const Original* unit = &units_[unit_];
  if (!is_of(*unit)) {
    const auto after = std::ranges::upper_bound(units_, id, {}, [key](const Original& u) { return u.first.*key; });
    if (after == units_.begin() || !is_of(*(after - 1))) return id;
    unit = &*(after - 1);
  }
  return Key(unit->copies[static_cast<std::size_t>(micro_batch_)].*key + (id - unit->first.*key));
}

void UnitCopies::add_tensors(const Original& original) {
  for (TensorId t = original.first.tensor; t < original.end.tensor; ++t) {
    Tensor tensor = c_.writer().tensor(t);
    tensor.micro_batch = static_cast<std::int16_t>(micro_batch_);
    if (tensor.buffer.exists()) tensor.buffer = there(tensor.buffer, &Begin::tensor);
    c_.writer().add_tensor(tensor);
  }
}

void UnitCopies::add_op(OpId original) {
  ScheduleWriter& writer = c_.writer();
  const Schedule& s = writer.so_far();
  const auto replace = [&](std::span<const TensorId> ids, TensorIds& by) {
    by.clear();
    for (const TensorId id : ids) by.push_back(there(id, &Begin::tensor));
  };
  replace(s.reads_of(s.ops[original]), reads_);
  replace(s.writes_of(s.ops[original]), writes_);
  writer.add_like(original, micro_batch_, reads_, writes_, there(writer.asked_after(original), &Begin::op));
}

}  // namespace dovetail::builder
