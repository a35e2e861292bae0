// SPDX-License-Identifier: Apache-2.0
// The sizes that an experiment is brought down to where it really runs: options and what is said about it.
#pragma once
#include <CLI/App.hpp>

#include "bench/pipeline/evaluate.hpp"
#include "exec/run/scale_down.hpp"

namespace dovetail::bench {

// --ranks, --rank-nodes, --layers, --experts, --hidden, --expert-hidden, --head-size, --tokens, under the heading
// `group`.
void add_scale_options(CLI::App& app, const char* group, exec::HostScale& scale);

// The question in the size of this machine, with notes of its own. Hosts compute in fp32; GPUs in the question's format
// and with padded messages.
void scale_down(Question& question, const exec::HostScale& scale, int seed, bool on_gpu = false);

}  // namespace dovetail::bench
