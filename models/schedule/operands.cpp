// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/operands.hpp"

#include <fmt/format.h>

#include <vector>

namespace dovetail {

std::string to_string(Role role) {
  std::vector<std::string> names;
  for (const bool gradient : {false, true})
    for (const auto& [name, kind] : tensor_kind_names)
      if (role.covers(kind, gradient)) names.push_back(fmt::format("{}{}", gradient ? "d_" : "", name));
  return fmt::format("{}", fmt::join(names, " or "));
}

std::vector<const Operand*> read_by(Half half, const Signature& signature) {
  std::vector<const Operand*> all;
  for (const Operand& o : signature.reads)
    if (half == Half::Both || o.share == Share::Both || (o.share == Share::Inputs) == (half == Half::Inputs))
      all.push_back(&o);
  if (half != Half::Weights) return all;
  for (const Operand& o : signature.writes)
    if (o.share == Share::Between || o.share == Share::BetweenAndWhole) all.push_back(&o);
  return all;
}

std::vector<const Operand*> written_by(Half half, const Signature& signature) {
  std::vector<const Operand*> all;
  for (const Operand& o : signature.writes)
    if (half == Half::Both ? o.share != Share::Between : (o.share == Share::Weights) == (half == Half::Weights))
      all.push_back(&o);
  return all;
}

}  // namespace dovetail
