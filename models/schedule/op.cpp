#include "models/schedule/op.hpp"

#include <fmt/format.h>

#include "models/base/names.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

// Names a thing of one place of the model: "x[layer]", then "#expert", ".chunk", "/step" and "@micro_batch" where there
// are any.
template <class Item>
std::string indexed(std::string_view prefix, std::string_view name, const Item& item) {
  std::string text = fmt::format("{}{}[{}]", prefix, name, item.layer);
  if (item.expert >= 0) text += fmt::format("#{}", item.expert);
  if (item.chunk >= 0) text += fmt::format(".{}", item.chunk);
  if (item.step >= 0) text += fmt::format("/{}", item.step);
  if (item.micro_batch > 0) text += fmt::format("@{}", item.micro_batch);
  return text;
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  const std::string text = indexed(tensor.gradient ? "d_" : "", name_in(tensor_kind_names, tensor.kind), tensor);
  return tensor.place == Place::Host ? text + " on the host" : text;
}

Bytes Op::memory_traffic() const {
  if (const KernelWork* k = kernel()) return k->memory_traffic;
  return exchange() == nullptr ? Bytes() : exchange()->copy_traffic;
}

std::string to_string(const Op& op) {
  const bool mirrored = op.phase == Phase::Backward && !entry_of(op.kind).stands_alone;
  return indexed(mirrored ? "d_" : "", name_in(op_kind_names, op.kind), op);
}

}  // namespace dovetail
