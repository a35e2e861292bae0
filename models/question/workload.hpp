// The work of one training step on a model: how many tokens, which capacity, which number format.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/question/gate.hpp"
#include "models/question/routing_model.hpp"

namespace dovetail {

enum class Phases { Training, ForwardOnly };
inline constexpr std::array<std::pair<std::string_view, Phases>, 2> phases_names{
    {{"training", Phases::Training}, {"forward_only", Phases::ForwardOnly}}};

// Padded: every message has room for the whole capacity. Routed: messages and experts' rows are as many as are chosen.
enum class MessageSizes { Padded, Routed };
inline constexpr std::array<std::pair<std::string_view, MessageSizes>, 2> message_sizes_names{
    {{"padded", MessageSizes::Padded}, {"routed", MessageSizes::Routed}}};

// The largest load of one rank in one expert, over all layers and micro-batches of a step in so many of them.
struct RouterLoad {
  int micro_batches = 1;
  std::int64_t largest = 0;
};

struct Workload {
  int batch = 1;        // samples per model-parallel group
  int sequence = 1024;  // tokens per sample
  int layers = 0;       // layers of the model that are trained (the first ones)
  int top_k = 0;
  // f > 0: an expert takes at most ceil(k f T / E) tokens of each rank. f = 0: as many as drops nothing this step.
  // f < 0: the same, capped at |f|.
  double capacity_factor = 1.2;
  DType dtype = DType::Bf16;
  Phases phases = Phases::Training;
  std::int64_t capacity_rows = 0;  // C where f <= 0: one number for all layers of the step, see resolve_capacity
  Gate gate = {};
  RoutingModel routing = {};
  int step = 0;  // of the routing trace
  MessageSizes message_sizes = MessageSizes::Padded;
  std::vector<RouterLoad> router_loads = {};  // where a router has really run; else its loads are modelled
};

}  // namespace dovetail
