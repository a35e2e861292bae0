// SPDX-License-Identifier: Apache-2.0
#include "models/question/extension_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

std::int64_t at_least_one(const char* kind, const std::string& name, std::int64_t count) {
  if (count < 0) throw InputError(fmt::format("{} {}: states {} numbers, expected none or more", kind, name, count));
  return std::max<std::int64_t>(1, count);
}

class Requirements {
 public:
  Requirements(const char* kind, std::string name) : kind_(kind), name_(std::move(name)) {}
  void operator()(bool condition, const char* pointer, std::string_view why) const {
    if (!condition) throw InputError(Location{"", 0, 0, pointer}, fmt::format("{} {}: {}", kind_, name_, why));
  }

 private:
  const char* kind_;
  std::string name_;
};

void require_gate_extension(const Experiment& e) {
  const Requirements require("gate", e.extensions.gate->name());
  require(e.workload.gate == Gate{}, "/workload/gate", "takes the place of the workload's gate; expected its defaults");
  require(e.workload.routing.kind == RoutingKind::Router, "/workload/routing/kind",
          "makes the choices itself; expected router");
}

void require_expert_extension(const Experiment& e) {
  const Requirements require("expert", e.extensions.expert->name());
  require(e.parallelism.esp == 1 || e.extensions.expert->has_shards(), "/parallelism/esp",
          fmt::format("cannot be cut into {} shards; expected 1", e.parallelism.esp));
  require(e.workload.message_sizes == MessageSizes::Padded, "/workload/message_sizes",
          "is not built yet with routed messages; expected padded");
}

}  // namespace

GateSizes gate_sizes(const Experiment& e) {
  return {e.model.hidden, e.model.experts, e.workload.top_k};
}

ExpertSizes expert_sizes(const Experiment& e) {
  return {e.model.hidden, e.model.expert_hidden / e.parallelism.esp, e.parallelism.esp};
}

std::int64_t gate_parameters(const Experiment& e) {
  const CustomGate& gate = *e.extensions.gate;
  return at_least_one("gate", gate.name(), gate.parameters(gate_sizes(e)));
}
std::int64_t expert_parameters(const Experiment& e) {
  const CustomExpert& expert = *e.extensions.expert;
  return at_least_one("expert", expert.name(), expert.parameters(expert_sizes(e)));
}
std::int64_t expert_kept(const Experiment& e) {
  const CustomExpert& expert = *e.extensions.expert;
  return at_least_one("expert", expert.name(), expert.kept(expert_sizes(e)));
}

void require_extensions(const Experiment& e) {
  if (e.extensions.empty()) return;
  if (e.model.dense())
    throw InputError(Location{"", 0, 0, "/model/experts"},
                     fmt::format("{} has no MoE layer that could have {}", e.model.name, e.extensions.names()));
  if (e.extensions.gate != nullptr) require_gate_extension(e);
  if (e.extensions.expert != nullptr) require_expert_extension(e);
  if (e.extensions.order != nullptr)
    Requirements("order", e.extensions.order->name())(e.workload.message_sizes == MessageSizes::Padded,
                                                      "/workload/message_sizes",
                                                      "is not built yet with routed messages; expected padded");
}

}  // namespace dovetail
