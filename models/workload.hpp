// What one training step does with a model: how many tokens, which capacity, which number format.
#pragma once
#include <array>
#include <string_view>
#include <utility>

#include "models/dtype.hpp"

namespace dovetail {

enum class Phases { Training, ForwardOnly };
inline constexpr std::array<std::pair<std::string_view, Phases>, 2> phases_names{
    {{"training", Phases::Training}, {"forward_only", Phases::ForwardOnly}}};

struct Workload {
  int batch = 1;        // samples per model-parallel group
  int sequence = 1024;  // tokens per sample
  int layers = 0;       // layers of the model that are trained (the first ones)
  int top_k = 0;
  double capacity_factor = 1.2;  // f > 0: an expert takes at most ceil(k f T / E) tokens of each rank
  DType dtype = DType::Bf16;
  Phases phases = Phases::Training;
};

}  // namespace dovetail
