// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/halves.hpp"

#include <algorithm>
#include <string>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/operand_fit.hpp"

namespace dovetail {
namespace {

// The kind of the tensor whose gradient lies between the halves.
TensorKind kind_between(const Operand& operand) {
  const auto found = std::ranges::find_if(
      tensor_table, [&](const TensorEntry& entry) { return operand.role.covers(entry.kind, /*gradient=*/true); });
  check(found != tensor_table.end(), "what lies between halves is a gradient");
  return found->kind;
}

}  // namespace

bool has_halves(OpKind kind) {
  return std::ranges::any_of(entry_of(kind).signatures, [](const Signature& s) { return s.has_halves(); });
}

OpHalves halves_of(const IdVector<TensorId, Tensor>& tensors, OpKind kind, std::span<const TensorId> reads,
                   std::span<const TensorId> writes, const std::function<TensorId(TensorKind)>& add_between) {
  for (const Signature& signature : entry_of(kind).signatures) {
    if (!signature.has_halves()) continue;
    OpHalves halves;
    std::vector<TensorId> between;
    const auto read = fit_operands(read_by(Half::Both, signature), reads, tensors, [&](TensorId id, const Operand& o) {
      if (o.share != Share::Weights) halves.inputs.reads.push_back(id);
      if (o.share != Share::Inputs) halves.weights.reads.push_back(id);
    });
    const auto written =
        fit_operands(written_by(Half::Both, signature), writes, tensors, [&](TensorId id, const Operand& o) {
          (o.share == Share::Weights ? halves.weights : halves.inputs).writes.push_back(id);
          if (o.share == Share::BetweenAndWhole) between.push_back(id);
        });
    if (read || written) continue;
    for (const Operand& o : signature.writes) {
      if (o.share != Share::Between) continue;
      between.push_back(add_between(kind_between(o)));
      halves.inputs.writes.push_back(between.back());
    }
    halves.weights.reads.insert(halves.weights.reads.end(), between.begin(), between.end());
    return halves;
  }
  std::string text(name_in(op_kind_names, kind));
  text += " has no halves that read";
  for (const TensorId id : reads) text += " " + to_string(tensors[id]);
  text += " and write";
  for (const TensorId id : writes) text += " " + to_string(tensors[id]);
  throw InternalError(text);
}

}  // namespace dovetail
