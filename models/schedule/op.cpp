// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/op.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

// "name[layer]", then "#expert", ".chunk", "/step" and "@micro_batch" where there are any.
std::string indexed(std::string_view prefix, std::string_view name, const StepPlace& place) {
  std::string text = fmt::format("{}{}[{}]", prefix, name, place.layer);
  if (place.expert >= 0) text += fmt::format("#{}", place.expert);
  if (place.chunk >= 0) text += fmt::format(".{}", place.chunk);
  if (place.step >= 0) text += fmt::format("/{}", place.step);
  if (place.micro_batch > 0) text += fmt::format("@{}", place.micro_batch);
  return text;
}

}  // namespace

PlaceRange::PlaceRange(RowRange range)
    : first(static_cast<std::int32_t>(range.first)), last(static_cast<std::int32_t>(range.last)) {
  if (first != range.first || last != range.last)
    throw InputError(fmt::format("{} rows of an expert, expected fewer than 2,147,483,648", range.last));
}

std::string to_string(const Tensor& tensor) {
  const std::string text = indexed(tensor.recomputed ? "r_"
                                   : tensor.gradient ? "d_"
                                                     : "",
                                   name_in(tensor_kind_names, tensor.kind), tensor);
  return tensor.place == Place::Host ? text + " on the host" : text;
}

Bytes Op::memory_traffic() const {
  if (const KernelWork* k = kernel()) return k->memory_traffic;
  return exchange() == nullptr ? Bytes() : exchange()->copy_traffic;
}

std::string to_string(const Op& op) {
  const bool mirrored = op.phase == Phase::Backward && !entry_of(op.kind).stands_alone;
  const std::string_view prefix = op.recomputed              ? "r_"
                                  : !mirrored                ? ""
                                  : op.half == Half::Inputs  ? "di_"
                                  : op.half == Half::Weights ? "dw_"
                                                             : "d_";
  return indexed(prefix, name_in(op_kind_names, op.kind), op);
}

}  // namespace dovetail
