// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/mpipemoe_layers.hpp"

#include <fmt/format.h>

#include "models/price/calibration.hpp"

namespace dovetail::bench {

Experiment mpipemoe_layer(const Experiment& base, const std::string& model, int tokens, FilesRead& files) {
  const Model sizes = load_model(model, files);
  LayerSizes layer;
  layer.gpus = base.cluster.gpus();
  layer.tokens = tokens;
  layer.hidden = sizes.hidden;
  layer.expert_hidden = sizes.expert_hidden;
  layer.experts = sizes.experts;
  layer.top_k = sizes.top_k;
  return moe_layer(base, layer);
}

std::vector<MpipemoeLayer> mpipemoe_layers(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  std::vector<MpipemoeLayer> layers;
  for (const std::string& model : read_strings(settings.at("models")))
    for (int tokens : read_integer_axis(settings.at("tokens")))
      layers.push_back({fmt::format("{}, {} tokens", model, tokens), mpipemoe_layer(base, model, tokens, files)});
  return layers;
}

// The calibration with fp32 products at this rate, whatever their shape.
Calibration without_tensor_cores(Calibration calibration, double tflops) {
  std::erase_if(calibration.tables, [](const KernelTable& table) {
    return table.kind() == KernelKind::Gemm && table.dtype() == DType::Fp32;
  });
  for (GemmCost& cost : calibration.gemms)
    if (cost.dtype == DType::Fp32) cost.beta = SecondsPerFlop(1 / (tflops * 1e12));
  return calibration;
}

}  // namespace dovetail::bench
