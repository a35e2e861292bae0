// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_device/tensor_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>

#include "exec/device/device_executor.hpp"
#include "exec/device/device_memory.hpp"
#include "exec/reference/reference.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/step/op_operands.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/blocks.hpp"
#include "tests/support/random_plans.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

// The first elements alone count.
double relative_difference(const Values& values, const Values& exact, std::size_t count) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(exact[i])) norm += exact[i] * exact[i];
    if (values[i] != exact[i]) difference += (values[i] - exact[i]) * (values[i] - exact[i]);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

// By tensor, the first op that writes it; none of those whose memory another tensor has in the end.
IdVector<TensorId, const Op*> writers(const Schedule& s) {
  const Blocks blocks = memory_blocks(s);
  IdVector<TensorId, const Op*> first(s.tensors.size());
  IdVector<BlockId, TensorId> last(blocks.all.size());
  for (const Op& op : s.ops)
    for (TensorId id : s.writes_of(op)) {
      if (first[id] == nullptr) first[id] = &op;
      last[blocks.of_tensor[id]] = id;
    }
  for (const TensorId id : s.tensors.ids())
    if (last[blocks.of_tensor[id]] != id) first[id] = nullptr;
  return first;
}

// Elements that are computed in double too: a state of Adam ends with master weights where weights are in bf16.
std::size_t compared_elements(const Schedule& s, TensorId id, const Op& writer, int rank) {
  const Tensor& t = s.tensors[id];
  if (t.kind != TensorKind::OptimizerState) return static_cast<std::size_t>(t.elements);
  return static_cast<std::size_t>(2 * updated_parts({s, writer}, rank % s.groups.stage_ranks()).total);
}

double share_of_limit(const TensorError& e) {
  const double share = e.device == 0 ? 0 : e.device / e.limit;
  return std::isnan(share) ? INFINITY : share;
}

std::string name_of(Stored stored) {
  return stored == Stored::Double ? "double" : stored == Stored::Float ? "float" : "bf16";
}

DType dtype_of(Stored stored) {
  return stored == Stored::Double ? DType::Fp64 : stored == Stored::Float ? DType::Fp32 : DType::Bf16;
}

struct ComparedStep {
  const Experiment& experiment;
  std::shared_ptr<const Schedule> schedule;
  ModelData data;
  DeviceSettings settings;

  std::unique_ptr<DeviceExecutor> run(ComputeDevice& device, Stored stored) {
    settings.scalar = stored;
    auto executor = make_device_executor(device, experiment, schedule, data, settings);
    executor->run_step(Poison::No);
    return executor;
  }
};

// The worst of a step, which is printed.
TensorError check_tensors_of_step(ComputeDevice& device, Experiment e, Stored stored) {
  e.workload.dtype = dtype_of(stored);
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan()));
  const auto host = make_loop_device();
  ComparedStep step{e, schedule, rounded(random_model_data(e, 3), stored), {}};
  step.settings.routing = compute_reference(e, step.data, rules_of(*schedule)).routing;
  const std::vector<TensorError> errors = tensor_errors(*schedule, stored, *step.run(device, stored),
                                                        *step.run(*host, stored), *step.run(*host, Stored::Double));
  const auto wrong = static_cast<std::size_t>(std::ranges::count_if(errors, &TensorError::too_large));
  const std::string list = list_errors(errors, std::clamp<std::size_t>(wrong, 1, 20));
  std::printf("%s, %zu tensors, %zu too far off\n%s", name_of(stored).c_str(), errors.size(), wrong, list.c_str());
  INFO(describe(e, Plan()) << name_of(stored) << "\n" << list);
  CHECK(wrong == 0);
  return errors.empty() ? TensorError() : errors.front();
}

}  // namespace

double error_limit(Stored stored, double host_error) {
  return stored == Stored::Double ? 1e-11 : 3 * host_error + (stored == Stored::Float ? 4 * 0x1p-23 : 0x1p-8);
}

std::vector<TensorError> tensor_errors(const Schedule& schedule, Stored stored, const RankValues& device,
                                       const RankValues& host, const RankValues& exact) {
  const IdVector<TensorId, const Op*> written_by = writers(schedule);
  const std::vector<int> ranks = device.ranks();
  std::vector<TensorError> errors;
  for (const TensorId id : schedule.tensors.ids())
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      const Tensor& t = schedule.tensors[id];
      if (written_by[id] == nullptr || t.rank_class != schedule.class_of_rank(ranks[local])) continue;
      const std::size_t count = compared_elements(schedule, id, *written_by[id], ranks[local]);
      const Values right = exact.values(local, id);
      TensorError e{to_string(*written_by[id]), to_string(t), ranks[local],
                    relative_difference(device.values(local, id), right, count),
                    relative_difference(host.values(local, id), right, count)};
      e.limit = error_limit(stored, e.host);
      errors.push_back(std::move(e));
    }
  std::ranges::stable_sort(errors, std::greater(), share_of_limit);
  return errors;
}

std::string list_errors(const std::vector<TensorError>& errors, std::size_t lines) {
  std::string list;
  for (const TensorError& e : errors) {
    if (lines-- == 0) break;
    list += fmt::format("  {} writes {} on rank {}: error {:.2g}, the host's {:.2g}, limit {:.2g}{}\n", e.op, e.tensor,
                        e.rank, e.device, e.host, e.limit, e.too_large() ? ", too far off" : "");
  }
  return list;
}

void check_tensors_on_device(ComputeDevice& device, int models) {
  constexpr std::array formats{Stored::Double, Stored::Float, Stored::Bf16};
  std::array<std::vector<TensorError>, formats.size()> worst;
  Random random(17);
  for (int run = 0; run < models;) {
    const Experiment e = random_on_device(random);
    // bf16: see check_systems_on_device
    if (refusal(Plan(), e) || e.parallelism.pp > 1 || e.workload.layers > 1 || e.workload.gate.cosine()) continue;
    for (std::size_t i = 0; i < formats.size(); ++i) worst[i].push_back(check_tensors_of_step(device, e, formats[i]));
    ++run;
  }
  for (std::size_t i = 0; i < formats.size(); ++i) {
    std::ranges::stable_sort(worst[i], std::greater(), share_of_limit);
    std::printf("%s, worst tensor of %d steps:\n%s", name_of(formats[i]).c_str(), models,
                list_errors(worst[i], 1).c_str());
  }
}

}  // namespace dovetail::test
