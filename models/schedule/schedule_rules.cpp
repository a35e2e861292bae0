// SPDX-License-Identifier: Apache-2.0
// The rules that every schedule keeps, checked by validate().
#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "models/schedule/operand_check.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {
namespace {

// The earlier ops that each op is ordered after, by dependencies and stream order: a bit matrix.
class Ancestors {
 public:
  explicit Ancestors(const Schedule& s) : words_((s.ops.size() + 63) / 64), bits_(s.ops.size() * words_) {
    s.for_each_edge([this](OpId before, OpId op) { inherit(op, before); });
  }
  bool ordered(OpId before, OpId after) const {
    const auto b = static_cast<std::size_t>(before);
    return (bits_[row(after) + b / 64] >> (b % 64)) & 1;
  }

 private:
  std::size_t row(OpId op) const { return static_cast<std::size_t>(op) * words_; }
  void inherit(OpId op, OpId before) {
    const auto b = static_cast<std::size_t>(before);
    for (std::size_t w = 0; w < words_; ++w) bits_[row(op) + w] |= bits_[row(before) + w];
    bits_[row(op) + b / 64] |= std::uint64_t{1} << (b % 64);
  }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

struct Access {
  OpId op;
  RowRange part;  // of the tensor; the whole unless it is gradients that ops share
};

Access access_of(const Schedule& s, OpId id, TensorId tensor) {
  const Tensor& t = s.tensors[tensor];
  const Op& op = s.ops[id];
  const bool in_ranges = t.kind == TensorKind::DenseGradients || t.kind == TensorKind::ReplicatedGradients;
  if (in_ranges && op.phase == Phase::Backward && op.gradients.size() > 0) return {id, op.gradients};
  return {id, {0, t.elements}};
}

void check_indices(const Schedule& s) {
  const auto inside = [](auto index, const auto& all) {
    return index >= 0 && static_cast<std::size_t>(index) < all.size();
  };
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    check(inside(op.stream, s.streams), "op on a stream that does not exist");
    const Span steps = op.exchange() == nullptr ? Span{} : op.exchange()->steps;
    check(0 <= steps.first && steps.first <= steps.last && static_cast<std::size_t>(steps.last) <= s.steps.size(),
          "op does steps that do not exist");
    const Span kernels = op.kernel() == nullptr ? Span{} : op.kernel()->kernels;
    check(0 <= kernels.first && kernels.first <= kernels.last &&
              static_cast<std::size_t>(kernels.last) <= s.kernels.size(),
          "op has kernels that do not exist");
    for (OpId before : s.dependencies_of(op))
      check(before.exists() && before < i, "dependency does not point backwards");
    for (TensorId t : s.reads_of(op)) check(inside(t, s.tensors), "op reads a tensor that does not exist");
    for (TensorId t : s.writes_of(op)) check(inside(t, s.tensors), "op writes a tensor that does not exist");
  }
  for (const Stream& stream : s.streams) check(inside(stream.rank_class, s.classes), "stream of no rank class");
  for (const Tensor& t : s.tensors) check(t.elements > 0, fmt::format("tensor {} has no elements", to_string(t)));
}

void check_classes(const Schedule& s) {
  for (const Op& op : s.ops) {
    const auto own = [&](TensorId t) { return s.tensors[t].rank_class == s.class_of(op); };
    for (TensorId t : s.reads_of(op))
      check(own(t) || s.joins_stages(op), to_string(op) + " reads a tensor of another rank class");
    for (TensorId t : s.writes_of(op))
      check(own(t) != (op.kind == OpKind::StageSend), to_string(op) + " writes a tensor of the wrong rank class");
  }
}

void check_operands(const Schedule& s) {
  for (const Op& op : s.ops)
    if (const auto fault = operand_fault(s, op)) check(false, *fault);
}

// A tensor's memory is taken over once at most, in the same place, by a tensor that does not last.
void check_buffers(const Schedule& s) {
  IdVector<TensorId, bool> taken(s.tensors.size());
  for (const TensorId i : s.tensors.ids()) {
    const Tensor& t = s.tensors[i];
    const TensorId b = t.buffer;
    if (!b.exists()) continue;
    check(b < i && !taken[b] && !t.persistent && !s.tensors[b].persistent && t.place == s.tensors[b].place,
          fmt::format("{} takes over memory that it cannot have", to_string(t)));
    taken[b] = true;
  }
}

// Goes through the ops in program order and checks each access against all earlier ones that it conflicts with.
class OrderCheck {
 public:
  explicit OrderCheck(const Schedule& s)
      : s_(s), ancestors_(s), writers_(s.tensors.size()), readers_(s.tensors.size()), gone_(s.tensors.size()) {}

  void run() {
    for (const OpId id : s_.ops.ids()) {
      const Op& op = s_.ops[id];
      for (TensorId t : s_.reads_of(op)) read(id, t);
      for (TensorId t : s_.writes_of(op)) write(id, t);
    }
  }

 private:
  void read(OpId id, TensorId t) {
    require(s_.tensors[t].persistent || !writers_[t].empty(), "{} reads {} before it is written", id, t);
    require(!gone_[t], "{} reads {} after its memory was taken over", id, t);
    require_after(writers_[t], id, t);
    readers_[t].push_back(access_of(s_, id, t));
  }

  void write(OpId id, TensorId t) {
    require(!gone_[t], "{} writes {} after its memory was taken over", id, t);
    if (s_.tensors[t].buffer.exists() && writers_[t].empty()) take_over(id, s_.tensors[t].buffer);
    require_after(writers_[t], id, t);
    require_after(readers_[t], id, t);
    writers_[t].push_back(access_of(s_, id, t));
  }

  // Earlier occupants are ordered too: the previous occupant's first writer was checked against it.
  void take_over(OpId id, TensorId previous) {
    const bool in_place = !readers_[previous].empty() && readers_[previous].back().op == id;
    require(!writers_[previous].empty() && !in_place, "{} takes over the memory of {} too early", id, previous);
    require_after(writers_[previous], id, previous);
    require_after(readers_[previous], id, previous);
    gone_[previous] = true;
  }

  void require(bool condition, fmt::format_string<std::string, std::string> message, OpId id, TensorId t) const {
    if (!condition) check(false, fmt::format(message, to_string(s_.ops[id]), to_string(s_.tensors[t])));
  }

  void require_after(const std::vector<Access>& earlier, OpId id, TensorId t) const {
    const Access now = access_of(s_, id, t);
    for (const Access& before : earlier)
      check(before.op == id || !before.part.overlaps(now.part) || ancestors_.ordered(before.op, id),
            fmt::format("{} is not ordered after {} on {}", to_string(s_.ops[id]), to_string(s_.ops[before.op]),
                        to_string(s_.tensors[t])));
  }

  const Schedule& s_;
  const Ancestors ancestors_;
  IdVector<TensorId, std::vector<Access>> writers_, readers_;
  IdVector<TensorId, bool> gone_;  // another has taken over its memory
};

}  // namespace

void validate(const Schedule& s) {
  check_indices(s);
  check_operands(s);
  check_classes(s);
  check_buffers(s);
  OrderCheck(s).run();
}

}  // namespace dovetail
