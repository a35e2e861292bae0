// SPDX-License-Identifier: Apache-2.0
#include "exec/host/machine_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "models/base/errors.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec {
namespace {

// Bytes that random_model_data() makes, and compute_reference() once more: all weights and all inputs and outputs.
double data_bytes(const Experiment& e, bool check_numerics) {
  double elements = 0;
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    const LayerVolumes v = layer_volumes(e, layer);
    elements += static_cast<double>(v.dense_parameters) * e.parallelism.mp + static_cast<double>(v.router_parameters) +
                static_cast<double>(v.expert_parameters) * e.parallelism.ep * e.parallelism.esp;
  }
  const LayerVolumes v = layer_volumes(e);
  elements += 2 * static_cast<double>(v.tokens * v.hidden) * e.parallelism.token_ranks();
  return elements * sizeof(double) * (check_numerics ? 2 : 1);
}

}  // namespace

void require_memory(const Experiment& e, int ranks, Bytes tensors, double processes, bool check_numerics) {
  const double bytes = tensors.value() + data_bytes(e, check_numerics) * processes;
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > .8 * memory)
    throw InputError(
        fmt::format("{} ranks need {:.1f} GB in all, but this machine has {:.1f} GB: run fewer ranks or "
                    "a smaller model",
                    ranks, bytes / 1e9, memory / 1e9));
}

}  // namespace dovetail::exec
