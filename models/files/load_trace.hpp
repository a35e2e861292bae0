// SPDX-License-Identifier: Apache-2.0
// Traces of training steps from JSON (data/schemas/trace.schema.json) or CSV: sizes, capacity factors, loads of
// experts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/question/routing_model.hpp"

namespace dovetail {

// Values that are not given are as in the workload.
struct TraceStep {
  std::optional<int> batch, sequence, top_k;
  std::optional<double> capacity_factor;
  std::vector<LoadTable> layers;  // columns are experts, or groups of consecutive experts of equal size; may be none
};

// A name in data/traces or a path. CSV has the header step,layer,rank,expert,tokens or step,layer,rank,peer,bytes; what
// it leaves out is 0. Every step of a JSON file gives something. Throws InputError at the place of what is wrong.
std::vector<TraceStep> load_trace(const std::string& name, FilesRead& files);

// With a column for each of `experts` experts. Throws InputError where the columns do not divide them.
std::vector<LoadTable> spread_over_experts(const std::vector<LoadTable>& layers, int experts);

}  // namespace dovetail
