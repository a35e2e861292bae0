#include "models/experiment.hpp"

#include <fmt/format.h>

#include <cmath>

#include "models/errors.hpp"
#include "models/volumes.hpp"

namespace dovetail {
namespace {

void require(bool condition, std::string_view pointer, const std::string& message) {
  if (!condition) throw InputError(Location{"", 0, 0, std::string(pointer)}, message);
}

}  // namespace

void validate(const Experiment& e) {
  const Workload& w = e.workload;
  validate(e.parallelism, e.cluster, e.model);
  require(w.batch >= 1, "/workload/batch", fmt::format("{}, expected at least 1", w.batch));
  require(w.sequence >= 1, "/workload/sequence", fmt::format("{}, expected at least 1", w.sequence));
  require(w.layers >= 1 && w.layers <= e.model.layers, "/workload/layers",
          fmt::format("{}, expected 1 to {} (the layers of {})", w.layers, e.model.layers, e.model.name));
  require(w.top_k >= 1 && w.top_k <= e.model.experts, "/workload/top_k",
          fmt::format("{}, expected 1 to {} (the experts of {})", w.top_k, e.model.experts, e.model.name));
  require(std::isfinite(w.capacity_factor) && w.capacity_factor > 0, "/workload/capacity_factor",
          fmt::format("{}, expected a number above 0 (0 and negative factors are not built yet)", w.capacity_factor));
  const std::int64_t tokens = std::int64_t{w.batch} * w.sequence;
  require(tokens <= (std::int64_t{1} << 40), "/workload/sequence",
          fmt::format("batch {} x sequence {} is more than 2^40 tokens", w.batch, w.sequence));
  require(tokens % e.parallelism.mp == 0, "/workload/sequence",
          fmt::format("batch {} x sequence {} = {} tokens do not divide over mp {} ranks", w.batch, w.sequence, tokens,
                      e.parallelism.mp));
  const LayerVolumes v = layer_volumes(e);
  require(
      v.capacity >= 1 && v.capacity <= w.top_k * v.tokens * e.model.experts, "/workload/capacity_factor",
      fmt::format("{} gives each expert {} rows of the {} tokens of a rank", w.capacity_factor, v.capacity, v.tokens));
}

}  // namespace dovetail
