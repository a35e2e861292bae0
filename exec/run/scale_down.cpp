// SPDX-License-Identifier: Apache-2.0
#include "exec/run/scale_down.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "exec/step/layer_shape.hpp"
#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"

namespace dovetail::exec {
namespace {

constexpr int usual_head_size = 32;

int head_size_of(const HostScale& scale) {
  if (scale.head_size == 0) return std::min(usual_head_size, scale.hidden);
  if (scale.head_size > scale.hidden)
    throw InputError(fmt::format("head_size is {}, expected at most the {} elements of a token (hidden)",
                                 scale.head_size, scale.hidden));
  return scale.head_size;
}

void require_positive(std::string_view name, int value) {
  if (value < 1) throw InputError(fmt::format("{} is {}, expected at least 1", name, value));
}

// With as many heads, whose values have the scale's head size. The other sizes are in the big model's ratio to these.
// Low ranks are in that to `hidden`, but no smaller than a value: norms over very few elements lose digits of
// gradients.
Attention scaled_latent(const Model& model, const HostScale& scale, int heads) {
  const Attention& big = model.attention;
  const auto scaled = [](std::int64_t size, int to, int from) {
    return size == 0 ? 0 : static_cast<int>(std::max<std::int64_t>(1, size * to / from));
  };
  Attention small;
  small.kind = AttentionKind::Latent;
  small.heads = small.kv_heads = heads;
  small.value_size = head_size_of(scale);
  small.nope_size = scaled(big.nope_size, small.value_size, big.value_size);
  small.rope_size = (scaled(big.rope_size, small.value_size, big.value_size) + 1) / 2 * 2;  // pairs are turned
  small.head_size = small.nope_size + small.rope_size;
  if (big.q_rank > 0) small.q_rank = std::max(small.value_size, scaled(big.q_rank, scale.hidden, model.hidden));
  small.kv_rank = std::max(small.value_size, scaled(big.kv_rank, scale.hidden, model.hidden));
  return small;
}

// Heads that fill `hidden` and divide over mp ranks; key heads in the big model's ratio.
Attention scaled_attention(const Model& model, const HostScale& scale, int mp) {
  const Attention& big = model.attention;
  Attention small;
  small.qk_norm = big.qk_norm;
  small.head_size = head_size_of(scale);
  const int per_rank = std::max(1, scale.hidden / (small.head_size * mp));
  small.heads = per_rank * mp;
  if (big.kind == AttentionKind::Latent) return scaled_latent(model, scale, small.heads);
  int ratio = std::clamp(big.heads / std::max(1, big.kv_heads), 1, per_rank);
  while (per_rank % ratio != 0) --ratio;
  small.kv_heads = small.heads / ratio;
  return small;
}

// Dense layers and shared experts become as wide as the experts; one layer at least stays MoE, unless none was.
void scale_dense_parts(Model& m) {
  if (m.dense()) {
    m.first_dense = m.layers;
    m.dense_hidden = m.expert_hidden;
    m.expert_hidden = 0;
    return;
  }
  m.first_dense = std::min(m.first_dense, m.layers - 1);
  m.moe_every = std::min(m.moe_every, m.layers);
  if (m.first_moe() >= m.layers) m.moe_every = 1;
  m.dense_hidden = m.first_dense > 0 || m.moe_every > 1 ? m.expert_hidden : 0;
  if (m.shared_experts.count > 0) m.shared_experts.hidden = m.expert_hidden;
}

// Fewer experts: those that share a remainder become one.
void scale_routing(Experiment& e) {
  if (e.model.dense()) return;
  RoutingModel& r = e.workload.routing;
  const auto experts = static_cast<std::size_t>(e.model.experts);
  e.model.router.groups = e.model.router.top_groups = 1;  // of other experts; executed routers ask for none
  r.hot_expert %= e.model.experts;
  for (LoadTable& table : r.layers)
    for (std::vector<double>& row : table) {
      std::vector<double> folded(experts);
      for (std::size_t i = 0; i < row.size(); ++i) folded[i % experts] += row[i];
      row = std::move(folded);
    }
  resolve_capacity(e);
}

// Groups that the scale names; the others fill up the ranks around them.
void give_groups(const HostScale& scale, int ranks, const Model& model, Parallelism& p) {
  if (scale.mp == 0 && scale.esp == 0 && scale.ep == 0) return;
  if (model.dense() && (scale.esp > 1 || scale.ep > 1))
    throw InputError(fmt::format("esp {} and ep {}, but {} has no experts", scale.esp, scale.ep, model.name));
  if (scale.mp > 0) p.mp = scale.mp;
  if (scale.esp > 0) p.esp = scale.esp;
  p.ep = scale.ep > 0 ? scale.ep : model.dense() ? 1 : std::gcd(model.experts, std::max(1, ranks / p.esp));
  p.dp = std::max(1, ranks / p.mp);
  p.edp = std::max(1, ranks / p.esp / p.ep);
}

// Groups inside a node are as large as it, or of one rank where they are in the original.
Parallelism scaled_parallelism(const Parallelism& big, const Cluster& stage, const Model& model,
                               const HostScale& scale) {
  Parallelism p = default_parallelism(stage, model);
  const int ranks = stage.gpus();
  if (big.mp == 1) p.mp = 1;
  if (big.esp == 1) {
    p.esp = 1;
    p.ep = model.dense() ? 1 : std::gcd(model.experts, ranks);
    p.edp = ranks / p.ep;
  }
  p.dp = ranks / p.mp;
  give_groups(scale, ranks, model, p);
  p.sequence_parallel = big.sequence_parallel;
  if (p.repeats_tokens() && !model.dense()) {
    p.esp = p.mp;
    p.ep = std::gcd(model.experts, ranks / p.esp);
    p.edp = ranks / p.esp / p.ep;
  }
  return p;
}

}  // namespace

Experiment scaled_for_host(const Experiment& big, const HostScale& scale) {
  require_positive("nodes", scale.nodes);
  const int stages = big.parallelism.pp, nodes = scale.nodes * stages;
  if (scale.ranks < nodes || scale.ranks % nodes != 0)
    throw InputError(fmt::format("{} ranks, expected a multiple of {}: they stand for {} nodes{}", scale.ranks, nodes,
                                 nodes, stages == 1 ? "" : fmt::format(" of {} pipeline stages", stages)));
  Experiment e = big;
  e.workload.attention = AttentionKernel::Flash;
  require_executable(e);
  if (big.model.dense() && scale.experts > 0)
    throw InputError(fmt::format("{} experts, but {} has none", scale.experts, big.model.name));
  require_positive("layers", scale.layers);
  require_positive("hidden", scale.hidden);
  require_positive("expert_hidden", scale.expert_hidden);
  require_positive("tokens_per_rank", scale.tokens_per_rank);
  if (scale.head_size != 0) require_positive("head_size", scale.head_size);
  const int gpus = scale.ranks / nodes;
  e.cluster.nodes = nodes;
  e.cluster.gpus_per_node = gpus;
  e.cluster.nic_bandwidth = e.cluster.nic_bandwidth * gpus / big.cluster.gpus_per_node;  // each has as much as before
  e.cluster.network.reset();   // of other nodes than these; ranks here are held to calibrated times alone
  e.overlap = Overlap::Ideal;  // held ops last their own time whatever runs beside them
  e.model.layers = e.workload.layers = scale.layers;
  if (big.model.vocabulary > 0)  // smaller as a token is
    e.model.vocabulary = std::max(gpus, static_cast<int>(std::int64_t{big.model.vocabulary} * scale.hidden /
                                                         std::max(scale.hidden, big.model.hidden)));
  e.model.hidden = scale.hidden;
  e.model.expert_hidden = (scale.expert_hidden + gpus - 1) / gpus * gpus;
  if (!e.model.dense()) e.model.experts = scale.experts > 0 ? scale.experts : scale.ranks;
  e.model.attention = scaled_attention(big.model, scale, gpus);
  e.workload.top_k = e.model.top_k = std::min(scale.top_k > 0 ? scale.top_k : big.workload.top_k, e.model.experts);
  Cluster stage = e.cluster;
  stage.nodes = scale.nodes;
  e.parallelism = scaled_parallelism(big.parallelism, stage, e.model, scale);
  e.parallelism.pp = stages;
  const int tokens = scale.tokens_per_rank * e.parallelism.mp;
  if (scale.sequence > 0 && tokens % scale.sequence != 0)
    throw InputError(
        fmt::format("{} tokens, expected a multiple of the {} of a sample (sequence)", tokens, scale.sequence));
  e.workload.batch = scale.sequence > 0 ? tokens / scale.sequence : std::gcd(big.workload.batch, tokens);
  e.workload.sequence = tokens / e.workload.batch;
  if (e.workload.dtype != DType::Fp64) e.workload.dtype = DType::Fp32;  // what CPUs compute in
  if (e.calibration->host) e.calibration.edit().host.reset();
  e.framework = {};  // a run trains by itself
  scale_dense_parts(e.model);
  scale_routing(e);
  validate(e);
  return e;
}

bool pad_for_device(Experiment& experiment) {
  Workload& w = experiment.workload;
  if (w.message_sizes != MessageSizes::Routed) return false;
  w.message_sizes = MessageSizes::Padded;
  if (w.capacity_factor == 0) w.capacity_factor = 1.2;
  return true;
}

}  // namespace dovetail::exec
