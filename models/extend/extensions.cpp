// SPDX-License-Identifier: Apache-2.0
#include "models/extend/extensions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

template <class ByName, class Part>
void add_part(ByName& known, std::string_view kind, std::shared_ptr<const Part> part) {
  std::string name = part->name();
  if (name.empty()) throw InputError(fmt::format("{}: a registered one needs a name", kind));
  if (!known.try_emplace(name, std::move(part)).second)
    throw InputError(fmt::format("{} {}: another one of this name is registered", kind, name));
}

template <class ByName>
typename ByName::mapped_type chosen(const ByName& known, std::string_view kind, const std::string& name) {
  if (name.empty()) return nullptr;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, part] : known) names.push_back(other);
  throw InputError(fmt::format("{} {}: nobody has registered it; registered: {}", kind, name,
                               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

template <class Part>
void append_name(std::string_view kind, const std::shared_ptr<const Part>& part, std::string& names) {
  if (part != nullptr) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", kind, part->name());
}

constexpr std::string_view gate_kind = "gate", order_kind = "order", expert_kind = "expert",
                           all_to_all_kind = "all-to-all";

}  // namespace

double CustomGate::deviation(const GateSizes& sizes, std::int64_t) const {
  return 1 / std::sqrt(static_cast<double>(sizes.hidden));
}

double CustomExpert::deviation(const ExpertSizes& sizes, std::int64_t) const {
  return 1 / std::sqrt(static_cast<double>(sizes.hidden));
}

bool Extensions::empty() const {
  return gate == nullptr && order == nullptr && expert == nullptr && all_to_all == nullptr;
}

std::string Extensions::names() const {
  std::string names;
  append_name(gate_kind, gate, names);
  append_name(order_kind, order, names);
  append_name(expert_kind, expert, names);
  append_name(all_to_all_kind, all_to_all, names);
  return names;
}

std::string Extensions::note() const {
  if (empty()) return "";
  return names() + ": of this program's own; predictions take the work that they state";
}

void ExtensionRegistry::add(std::shared_ptr<const CustomGate> gate) {
  add_part(gates_, gate_kind, std::move(gate));
}
void ExtensionRegistry::add(std::shared_ptr<const CustomOrder> order) {
  add_part(orders_, order_kind, std::move(order));
}
void ExtensionRegistry::add(std::shared_ptr<const CustomExpert> expert) {
  add_part(experts_, expert_kind, std::move(expert));
}
void ExtensionRegistry::add(std::shared_ptr<const CustomAllToAll> all_to_all) {
  add_part(all_to_alls_, all_to_all_kind, std::move(all_to_all));
}

Extensions ExtensionRegistry::choose(const ExtensionNames& names) const {
  return {chosen(gates_, gate_kind, names.gate), chosen(orders_, order_kind, names.order),
          chosen(experts_, expert_kind, names.expert), chosen(all_to_alls_, all_to_all_kind, names.all_to_all)};
}

}  // namespace dovetail
