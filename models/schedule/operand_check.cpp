// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/operand_check.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "models/schedule/op_table.hpp"
#include "models/schedule/operand_fit.hpp"

namespace dovetail {
namespace {

// How far the operands of an op fit a signature, and what the first that does not is.
struct Misfit {
  std::size_t fitting = 0;
  std::string text;
};

class OperandCheck {
 public:
  OperandCheck(const Schedule& schedule, const Op& op) : s_(schedule), op_(op) {}

  // The signature that fits furthest, of those of the pass, is the one that the op was meant to have.
  std::optional<std::string> fault() const {
    std::optional<Misfit> closest;
    for (const Signature& signature : entry_of(op_.kind).signatures) {
      if (signature.phase != op_.phase || (op_.half != Half::Both && !signature.has_halves())) continue;
      const std::optional<Misfit> found = misfit(signature);
      if (!found) return size_fault();
      if (!closest || found->fitting > closest->fitting) closest = found;
    }
    if (!closest)
      return fmt::format("{} has no {} pass{}", to_string(op_), name_in(phase_names, op_.phase),
                         op_.half == Half::Both ? "" : " in halves");
    return closest->text;
  }

 private:
  const Tensor& tensor(TensorId id) const { return s_.tensors[id]; }

  std::optional<Misfit> misfit(const Signature& signature) const {
    const auto reads = s_.reads_of(op_);
    if (const auto found = misfit(read_by(op_.half, signature), reads, "read")) return found;
    std::optional<Misfit> found = misfit(written_by(op_.half, signature), s_.writes_of(op_), "write");
    if (found) found->fitting += reads.size() + 1;
    return found;
  }

  std::optional<Misfit> misfit(std::span<const Operand* const> expected, std::span<const TensorId> ids,
                               std::string_view verb) const {
    const auto found = fit_operands(expected, ids, s_.tensors, [](TensorId, const Operand&) {});
    if (!found) return std::nullopt;
    const auto [at, operand] = *found;
    if (operand == nullptr)
      return Misfit{at, fmt::format("{} {}s {}, which is no operand of it there", to_string(op_), verb,
                                    to_string(tensor(ids[at])))};
    if (at == ids.size())
      return Misfit{at, fmt::format("{} does not {} {}", to_string(op_), verb, to_string(operand->role))};
    return Misfit{at, fmt::format("{} {}s {} in the place of {}", to_string(op_), verb, to_string(tensor(ids[at])),
                                  to_string(operand->role))};
  }

  // Tensors of one shape have one size where they belong to the same rows.
  std::optional<std::string> size_fault() const {
    std::vector<TensorId> ids;
    for (const auto& list : {s_.reads_of(op_), s_.writes_of(op_)}) ids.insert(ids.end(), list.begin(), list.end());
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Tensor &a = tensor(ids[j]), &b = tensor(ids[i]);
        if (alike(a, b) && a.elements != b.elements)
          return fmt::format("{}: {} has {} elements and {} has {}, but both are {}", to_string(op_), to_string(a),
                             a.elements, to_string(b), b.elements, entry_of(a.kind).shape);
      }
    return std::nullopt;
  }

  static bool alike(const Tensor& a, const Tensor& b) {
    const std::string_view shape = entry_of(a.kind).shape;
    return !shape.empty() && shape == entry_of(b.kind).shape && a.chunk == b.chunk && a.expert == b.expert &&
           a.rows == b.rows && a.peers == b.peers;
  }

  const Schedule& s_;
  const Op& op_;
};

}  // namespace

std::optional<std::string> operand_fault(const Schedule& schedule, const Op& op) {
  return OperandCheck(schedule, op).fault();
}

}  // namespace dovetail
