#include "models/schedule/schedule.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "models/schedule/operand_check.hpp"

namespace dovetail {
namespace {

// Which earlier ops each op is ordered after, by dependencies and stream order: a bit matrix.
class Ancestors {
 public:
  explicit Ancestors(const Schedule& s) : words_((s.ops.size() + 63) / 64), bits_(s.ops.size() * words_) {
    std::vector<OpId> last(s.streams.size(), -1);
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      for (OpId before : s.dependencies_of(s.ops[i])) inherit(i, before);
      OpId& previous = last[static_cast<std::size_t>(s.ops[i].stream)];
      if (previous >= 0) inherit(i, previous);
      previous = static_cast<OpId>(i);
    }
  }
  bool ordered(OpId before, std::size_t after) const {
    const auto b = static_cast<std::size_t>(before);
    return (bits_[after * words_ + b / 64] >> (b % 64)) & 1;
  }

 private:
  void inherit(std::size_t op, OpId before) {
    const auto b = static_cast<std::size_t>(before);
    for (std::size_t w = 0; w < words_; ++w) bits_[op * words_ + w] |= bits_[b * words_ + w];
    bits_[op * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
  }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

struct Access {
  OpId op;
  RowRange part;  // of the tensor; the whole unless it is DenseGradients
  bool overlaps(const Access& o) const { return part.first < o.part.last && o.part.first < part.last; }
};

Access access_of(const Schedule& s, OpId id, TensorId tensor) {
  const Tensor& t = s.tensors[static_cast<std::size_t>(tensor)];
  const Op& op = s.ops[static_cast<std::size_t>(id)];
  if (t.kind == TensorKind::DenseGradients && op.phase == Phase::Backward) return {id, op.rows};
  return {id, {0, t.elements}};
}

void check_indices(const Schedule& s) {
  const auto inside = [](auto index, const auto& all) {
    return index >= 0 && static_cast<std::size_t>(index) < all.size();
  };
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    const Op& op = s.ops[i];
    check(inside(op.stream, s.streams), "op on a stream that does not exist");
    const Span steps = op.exchange() == nullptr ? Span{} : op.exchange()->steps;
    check(0 <= steps.first && steps.first <= steps.last && static_cast<std::size_t>(steps.last) <= s.steps.size(),
          "op does steps that do not exist");
    for (OpId before : s.dependencies_of(op))
      check(before >= 0 && static_cast<std::size_t>(before) < i, "dependency does not point backwards");
    for (TensorId t : s.reads_of(op)) check(inside(t, s.tensors), "op reads a tensor that does not exist");
    for (TensorId t : s.writes_of(op)) check(inside(t, s.tensors), "op writes a tensor that does not exist");
  }
  for (const Stream& stream : s.streams) check(inside(stream.rank_class, s.classes), "stream of no rank class");
  for (const Tensor& t : s.tensors) check(t.elements > 0, fmt::format("tensor {} has no elements", to_string(t)));
}

void check_classes(const Schedule& s) {
  for (const Op& op : s.ops) {
    const auto own = [&](TensorId t) { return s.tensors[static_cast<std::size_t>(t)].rank_class == s.class_of(op); };
    for (TensorId t : s.reads_of(op)) check(own(t), to_string(op) + " reads a tensor of another rank class");
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
  std::vector<bool> taken(s.tensors.size());
  for (std::size_t i = 0; i < s.tensors.size(); ++i) {
    const Tensor& t = s.tensors[i];
    if (t.buffer < 0) continue;
    const auto b = static_cast<std::size_t>(t.buffer);
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
    for (OpId id = 0; static_cast<std::size_t>(id) < s_.ops.size(); ++id) {
      const Op& op = s_.ops[static_cast<std::size_t>(id)];
      for (TensorId t : s_.reads_of(op)) read(id, t);
      for (TensorId t : s_.writes_of(op)) write(id, t);
    }
  }

 private:
  void read(OpId id, TensorId t) {
    const auto at = static_cast<std::size_t>(t);
    require(s_.tensors[at].persistent || !writers_[at].empty(), "{} reads {} before it is written", id, t);
    require(!gone_[at], "{} reads {} after its memory was taken over", id, t);
    require_after(writers_[at], id, t);
    readers_[at].push_back(access_of(s_, id, t));
  }

  void write(OpId id, TensorId t) {
    const auto at = static_cast<std::size_t>(t);
    require(!gone_[at], "{} writes {} after its memory was taken over", id, t);
    if (s_.tensors[at].buffer >= 0 && writers_[at].empty()) take_over(id, s_.tensors[at].buffer);
    require_after(writers_[at], id, t);
    require_after(readers_[at], id, t);
    writers_[at].push_back(access_of(s_, id, t));
  }

  // What came before that is ordered too: the previous occupant's first writer was checked against it.
  void take_over(OpId id, TensorId previous) {
    const auto at = static_cast<std::size_t>(previous);
    const bool in_place = !readers_[at].empty() && readers_[at].back().op == id;
    require(!writers_[at].empty() && !in_place, "{} takes over the memory of {} too early", id, previous);
    require_after(writers_[at], id, previous);
    require_after(readers_[at], id, previous);
    gone_[at] = true;
  }

  void require(bool condition, fmt::format_string<std::string, std::string> message, OpId id, TensorId t) const {
    if (!condition)
      check(false, fmt::format(message, to_string(s_.ops[static_cast<std::size_t>(id)]),
                               to_string(s_.tensors[static_cast<std::size_t>(t)])));
  }

  void require_after(const std::vector<Access>& earlier, OpId id, TensorId t) const {
    const Access now = access_of(s_, id, t);
    for (const Access& before : earlier)
      check(before.op == id || !before.overlaps(now) || ancestors_.ordered(before.op, static_cast<std::size_t>(id)),
            fmt::format("{} is not ordered after {} on {}", to_string(s_.ops[static_cast<std::size_t>(id)]),
                        to_string(s_.ops[static_cast<std::size_t>(before.op)]),
                        to_string(s_.tensors[static_cast<std::size_t>(t)])));
  }

  const Schedule& s_;
  const Ancestors ancestors_;
  std::vector<std::vector<Access>> writers_, readers_;  // by tensor
  std::vector<bool> gone_;                              // by tensor: another has taken over its memory
};

}  // namespace

int Schedule::class_of_rank(int rank) const {
  int first = 0;
  for (std::size_t c = 0; c < classes.size(); ++c)
    if (first += classes[c].ranks; rank < first) return static_cast<int>(c);
  throw InternalError(fmt::format("rank {} of {}", rank, first));
}

void validate(const Schedule& s) {
  check_indices(s);
  check_operands(s);
  check_classes(s);
  check_buffers(s);
  OrderCheck(s).run();
}

}  // namespace dovetail
