// SPDX-License-Identifier: Apache-2.0
// Functions that hosts and kernels on GPUs share.
#pragma once

#ifdef __CUDACC__
#define DOVETAIL_BOTH __host__ __device__
#else
#define DOVETAIL_BOTH
#endif
