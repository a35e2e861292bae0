// SPDX-License-Identifier: Apache-2.0
#include "exec/step/lasting_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/step/op_operands.hpp"
#include "exec/step/tensor_use.hpp"

namespace dovetail::exec {
namespace {

// The elements of a weight tensor that a rank updates, and where their state begins among its states.
struct UpdatedElements {
  TensorKind kind = {};
  int layer = 0;
  RowRange elements;
  std::int64_t state = 0;
  friend bool operator==(const UpdatedElements&, const UpdatedElements&) = default;
};

std::vector<UpdatedElements> updated_elements(const Experiment& e, const Schedule& s, int rank) {
  std::vector<UpdatedElements> all;
  for (const Op& op : s.ops) {
    if (op.kind != OpKind::Update || s.class_of(op) != s.class_of_rank(rank)) continue;
    for (const UpdatedPart& part : updated_parts({s, op}, rank % e.parallelism.stage_ranks()).all)
      all.push_back({s.tensors[part.weights].kind, s.tensors[part.weights].layer, part.elements, part.state});
  }
  return all;
}

// Whether a step begins with the shards of weights that the one before has updated, and gathers them (plan.zero with
// parameter_gather ahead).
bool gathers_first(const Schedule& s, int rank) {
  for (const Op& op : s.ops) {
    if (s.class_of(op) != s.class_of_rank(rank)) continue;
    const auto is_weights = [&](TensorId id) { return is_trained(s.tensors[id]); };
    if (std::ranges::any_of(s.writes_of(op), is_weights)) return op.kind != OpKind::Update;
  }
  return false;
}

std::vector<LastingName> kept_names(const Schedule& schedule, int rank) {
  std::vector<LastingName> names;
  for (const LastingTensor& tensor : kept_tensors(schedule, rank)) names.push_back(tensor.name);
  return names;
}

// The first tensor that only one of the two has, by its kind, layer and size.
std::string first_difference(const std::vector<LastingName>& first, const std::vector<LastingName>& second) {
  const auto [one, other] = std::ranges::mismatch(first, second);
  const auto text = [](const std::vector<LastingName>& names, auto at) {
    if (at == names.end()) return std::string("nothing more");
    Tensor named;
    named.kind = at->kind;
    named.layer = static_cast<std::int16_t>(at->layer);
    return fmt::format("{} with {} elements", to_string(named), at->elements);
  };
  return fmt::format("{} in place of {}", text(second, other), text(first, one));
}

}  // namespace

std::vector<LastingTensor> lasting_tensors(const Schedule& schedule, int rank) {
  std::vector<LastingTensor> all;
  for (const TensorId id : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[id];
    if (!t.persistent || t.rank_class != schedule.class_of_rank(rank)) continue;
    all.push_back({{t.kind, t.layer, t.micro_batch, t.expert, t.gradient, t.elements, 0}, id});
  }
  std::ranges::stable_sort(all, {}, &LastingTensor::name);
  for (std::size_t i = 1; i < all.size(); ++i) {
    LastingName alike = all[i - 1].name;
    alike.place = 0;
    if (alike == all[i].name) all[i].name.place = all[i - 1].name.place + 1;
  }
  return all;
}

std::vector<LastingTensor> kept_tensors(const Schedule& schedule, int rank) {
  std::vector<LastingTensor> kept = lasting_tensors(schedule, rank);
  std::erase_if(kept, [&](const LastingTensor& tensor) { return !is_trained(schedule.tensors[tensor.id]); });
  return kept;
}

std::optional<std::string> storage_difference(const Experiment& e, const Schedule& first, const Schedule& second) {
  if (first.micro_batches != second.micro_batches)
    return fmt::format("it has {} micro-batches in place of {}, and another batch for each", second.micro_batches,
                       first.micro_batches);
  for (int rank = 0; rank < e.cluster.gpus(); ++rank) {
    const std::vector<LastingName> one = kept_names(first, rank), other = kept_names(second, rank);
    if (one != other) return fmt::format("rank {} keeps {}", rank, first_difference(one, other));
    if (updated_elements(e, first, rank) != updated_elements(e, second, rank))
      return fmt::format("rank {} updates other weights, or has their optimizer states in another order", rank);
    if (gathers_first(first, rank) != gathers_first(second, rank))
      return "shards of weights are gathered at the start of its steps in place of the end, or the other way round";
  }
  return {};
}

}  // namespace dovetail::exec
