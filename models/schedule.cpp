#include "models/schedule.hpp"

#include <fmt/format.h>

#include "models/errors.hpp"

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
    const Span steps = op.work.steps;
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

}  // namespace

void validate(const Schedule& s) {
  check_indices(s);
  const Ancestors ancestors(s);
  std::vector<std::vector<Access>> writers(s.tensors.size()), readers(s.tensors.size());
  const auto require_after = [&](const std::vector<Access>& earlier, const Access& now, TensorId t) {
    for (const Access& before : earlier)
      check(before.op == now.op || !before.overlaps(now) ||
                ancestors.ordered(before.op, static_cast<std::size_t>(now.op)),
            fmt::format("{} is not ordered after {} on {}", to_string(s.ops[static_cast<std::size_t>(now.op)]),
                        to_string(s.ops[static_cast<std::size_t>(before.op)]),
                        to_string(s.tensors[static_cast<std::size_t>(t)])));
  };
  for (OpId id = 0; static_cast<std::size_t>(id) < s.ops.size(); ++id) {
    const Op& op = s.ops[static_cast<std::size_t>(id)];
    for (TensorId t : s.reads_of(op)) {
      const auto at = static_cast<std::size_t>(t);
      check(s.tensors[at].persistent || !writers[at].empty(),
            fmt::format("{} reads {} before it is written", to_string(op), to_string(s.tensors[at])));
      require_after(writers[at], access_of(s, id, t), t);
      readers[at].push_back(access_of(s, id, t));
    }
    for (TensorId t : s.writes_of(op)) {
      const auto at = static_cast<std::size_t>(t);
      require_after(writers[at], access_of(s, id, t), t);
      require_after(readers[at], access_of(s, id, t), t);
      writers[at].push_back(access_of(s, id, t));
    }
  }
}

}  // namespace dovetail
