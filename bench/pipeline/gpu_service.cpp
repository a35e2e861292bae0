// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/gpu_service.hpp"

#include "bench/cli/interrupt.hpp"

namespace dovetail::bench {

exec::GpuService& gpu_service() {
  static exec::GpuService service(Writing::poll);
  return service;
}

}  // namespace dovetail::bench
