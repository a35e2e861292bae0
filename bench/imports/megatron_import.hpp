// SPDX-License-Identifier: Apache-2.0
// Experiments from arguments of Megatron-LM, and from configurations of DeepSpeed.
#pragma once
#include "bench/imports/given_run.hpp"
#include "bench/imports/imported_run.hpp"
#include "models/base/json/json_file.hpp"

namespace dovetail::bench {

// If the launch or the request says how many GPUs there are, the experiment has a plan of every knob and runs as it is.
// Otherwise its batch is that of all GPUs, and a cluster is to be chosen. Throws InputError, mostly at an argument,
// for sizes that contradict each other or make no experiment.
ImportedRun import_megatron(const GivenRun& run, const ImportRequest& request);

// From DeepSpeed's JSON file, which says nothing of the model: the request names one.
ImportedRun import_deepspeed(const JsonFile& config, const ImportRequest& request);

}  // namespace dovetail::bench
