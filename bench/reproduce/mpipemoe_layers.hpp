// SPDX-License-Identifier: Apache-2.0
// The layers that MPipeMoE measures: its Table III in several batch sizes, and its systems as plans for them.
#pragma once
#include <string>
#include <vector>

#include "bench/reproduce/moe_layer.hpp"

namespace dovetail {
struct Calibration;
}

namespace dovetail::bench {

struct MpipemoeLayer {
  std::string name;  // "moe-gpt3-s, 4096 tokens"
  Experiment experiment;
};

// {"experiment": ..., "models": [names], "tokens": [of a GPU]}: every pair of the two lists, on all GPUs of the
// cluster.
std::vector<MpipemoeLayer> mpipemoe_layers(const JsonReader& settings, FilesRead& files);
Experiment mpipemoe_layer(const Experiment& base, const std::string& model, int tokens, FilesRead& files);

// The calibration with fp32 products at this rate, whatever their shape.
Calibration without_tensor_cores(Calibration calibration, double tflops);

}  // namespace dovetail::bench
