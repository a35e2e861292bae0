// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the runtime: how they return errors.
#pragma once
#include <cuda_runtime_api.h>

#include "tests/paper_gpu/streams.hpp"

namespace paper {

// The same, noted as the last error of the thread.
cudaError_t returned(cudaError_t error);
cudaError_t returned(Verdict verdict);

}  // namespace paper
