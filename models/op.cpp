#include "models/op.hpp"

#include <fmt/format.h>

#include "models/names.hpp"

namespace dovetail {
namespace {

std::string indexed(std::string_view prefix, std::string_view name, int layer, int chunk) {
  return chunk < 0 ? fmt::format("{}{}[{}]", prefix, name, layer)
                   : fmt::format("{}{}[{}].{}", prefix, name, layer, chunk);
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  return indexed(tensor.gradient ? "d_" : "", name_in(tensor_kind_names, tensor.kind), tensor.layer, tensor.chunk);
}

std::string to_string(const Op& op) {
  const bool mirrored = op.phase == Phase::Backward && op.kind != OpKind::DenseGradientAllReduce &&
                        op.kind != OpKind::ExpertGradientAllReduce;
  return indexed(mirrored ? "d_" : "", name_in(op_kind_names, op.kind), op.layer, op.chunk);
}

}  // namespace dovetail
