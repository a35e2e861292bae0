// SPDX-License-Identifier: Apache-2.0
#include "models/question/parallelism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/question/parameters.hpp"

namespace dovetail {
namespace {

// The hidden sizes of dense feed-forward parts: 0 where a model has none.
std::array<std::int64_t, 2> ffn_sizes(const Model& model) {
  return {model.dense_hidden, model.ffn_hidden(model.first_moe())};
}

// Heads are padded where mp does not divide them; hidden sizes are not.
bool shares_dense_part(const Model& model, int mp) {
  return mp <= model.attention.kv_heads &&
         std::ranges::all_of(ffn_sizes(model), [mp](std::int64_t size) { return size % mp == 0; });
}

int default_mp(int gpus_per_node, const Model& model) {
  if (shares_dense_part(model, gpus_per_node)) return gpus_per_node;
  int mp = 1;
  while (gpus_per_node % (2 * mp) == 0 && shares_dense_part(model, 2 * mp)) mp *= 2;
  return mp;
}

template <class... Args>
void require(bool condition, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!condition) throw InputError(Location{"", 0, 0, "/parallelism"}, fmt::format(message, args...));
}

std::vector<int> divisors_up_to(int number, int most) {
  std::vector<int> all;
  for (int d = 1; d <= most; ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

// The same about one size, with the largest smaller one that divides the same and the ranks of a stage.
template <class... Args>
void require_divisor(const char* name, int size, std::int64_t of, const Parallelism& p,
                     fmt::format_string<const Args&...> message, const Args&... args) {
  if (of % size == 0) return;
  int other = size;
  while (of % other != 0 || p.stage_ranks() % other != 0) --other;
  throw InputError(Location{"", 0, 0, fmt::format("/parallelism/{}", name)},
                   fmt::format("{} {} does not divide {}; {} would", name, size, fmt::format(message, args...), other));
}

}  // namespace

int usual_ep(const Model& model, const Cluster& cluster, int groups, int esp) {
  const int most = model.dense() ? 1 : std::gcd(model.experts, groups), node = cluster.gpus_per_node;
  for (int ep = most; ep > 1; --ep)
    if (most % ep == 0 && (node % (ep * esp) == 0 || ep * esp % node == 0)) return ep;
  return node % esp == 0 ? 1 : most;
}

Parallelism default_parallelism(const Cluster& cluster, const Model& model) {
  Parallelism p;
  p.mp = default_mp(cluster.gpus_per_node, model);
  p.esp = model.dense() ? 1 : std::gcd(cluster.gpus_per_node, model.expert_hidden);
  p.dp = cluster.gpus() / p.mp;
  p.ep = usual_ep(model, cluster, cluster.gpus() / p.esp, p.esp);
  p.edp = cluster.gpus() / p.esp / p.ep;
  return p;
}

Parallelism trained_parallelism(const Cluster& cluster, const Model& model, const GivenGroups& given) {
  constexpr double state_bytes = 2 + 4 + 12;  // bf16 weights, fp32 gradients, and fp32 weights and two moments of Adam
  const Parameters all = parameters(model);
  const auto experts = static_cast<double>(all.routed_experts), dense = static_cast<double>(all.total()) - experts;
  const double enough = cluster.device.memory.value() * 2 / 3;
  const int node = cluster.gpus_per_node, ranks = std::max(1, cluster.gpus() / given.pp);
  const int most_esp = model.dense() ? 1 : std::gcd(node, model.expert_hidden);
  Parallelism best;
  double least = std::numeric_limits<double>::infinity();
  for (const int esp : given.esp > 0 ? std::vector{given.esp} : divisors_up_to(most_esp, node))
    for (const int mp : divisors_up_to(node, node)) {
      if (least <= enough) break;
      if (!shares_dense_part(model, mp)) continue;
      const int ep = given.ep > 0 ? given.ep : usual_ep(model, cluster, std::max(1, ranks / esp), esp);
      const double state = state_bytes / given.pp * (dense / mp + experts / ep / esp);
      if (state >= least) continue;
      least = state;
      best = {.dp = ranks / mp, .mp = mp, .ep = ep, .esp = esp, .pp = given.pp, .edp = ranks / esp / ep};
    }
  return best;
}

void validate(const Parallelism& p, const Cluster& cluster, const Model& model) {
  for (const auto& [name, size] :
       {std::pair{"dp", p.dp}, {"mp", p.mp}, {"ep", p.ep}, {"esp", p.esp}, {"pp", p.pp}, {"edp", p.edp}})
    require(size >= 1, "{} is {}, expected at least 1", name, size);
  const int gpus = cluster.gpus();
  // Exact where they equal the GPUs, and never past the end of a whole number.
  const double dense = 1.0 * p.pp * p.dp * p.mp;
  const double experts = 1.0 * p.pp * p.edp * p.ep * p.esp;
  require(dense == gpus, "pp {} x dp {} x mp {} = {:.0f} ranks, but the cluster has {} GPUs ({} x {})", p.pp, p.dp,
          p.mp, dense, gpus, cluster.nodes, cluster.gpus_per_node);
  require(experts == gpus, "pp {} x edp {} x ep {} x esp {} = {:.0f} ranks, but the cluster has {} GPUs", p.pp, p.edp,
          p.ep, p.esp, experts, gpus);
  require(!model.dense() || (p.ep == 1 && p.esp == 1), "ep {} and esp {}, but {} has no experts", p.ep, p.esp,
          model.name);
  require_divisor("ep", p.ep, model.experts, p, "the model's {} experts", model.experts);
  require_divisor("esp", p.esp, model.expert_hidden, p, "the expert hidden size {}", model.expert_hidden);
  require(!p.repeats_tokens() || model.dense() || p.esp == p.mp,
          "without sequence_parallel the {} ranks of mp have the same tokens, which the shards of experts need to have "
          "too; expected esp {}, not {}",
          p.mp, p.mp, p.esp);
  const Attention& a = model.attention;
  require(a.heads % a.kv_heads == 0, "the model's {} attention heads are not a multiple of its {} key/value heads",
          a.heads, a.kv_heads);
  require(p.mp <= a.kv_heads || (p.mp % a.kv_heads == 0 && p.mp <= a.heads),
          "mp {} cannot repeat the model's {} key/value heads equally often, each for some of the {} heads", p.mp,
          a.kv_heads, a.heads);
  for (std::int64_t size : ffn_sizes(model))
    require_divisor("mp", p.mp, size, p, "the hidden size {} of the model's dense feed-forward part or shared experts",
                    size);
}

Subgroup group_comb(const Parallelism& p, GroupKind kind) {
  switch (kind) {
    case GroupKind::Mp:
      return {1, p.mp};
    case GroupKind::Dp:
      return {p.mp, p.dp};
    case GroupKind::Esp:
      return {1, p.esp};
    case GroupKind::Ep:
      return {p.esp, p.ep};
    case GroupKind::Edp:
      return {p.esp * p.ep, p.edp};
    case GroupKind::Pp:
      return {p.stage_ranks(), p.pp};
    case GroupKind::World:
      return {1, p.stage_ranks() * p.pp};
  }
  throw InternalError("group kind");
}

std::vector<int> group_members(const Parallelism& parallelism, GroupKind kind, int rank) {
  const Subgroup c = group_comb(parallelism, kind);
  const int block = c.size * c.stride;
  const int first = rank / block * block + rank % c.stride;
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(c.size));
  for (int i = 0; i < c.size; ++i) members.push_back(first + i * c.stride);
  return members;
}

int group_size(const Parallelism& parallelism, GroupKind kind) {
  return group_comb(parallelism, kind).size;
}

GroupShape group_shape(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster) {
  const Subgroup c = group_comb(parallelism, kind);
  // The group is that of rank 0. Strides up to a node's GPUs leave out no node between the first and the last.
  const int last = (c.size - 1) * c.stride / cluster.gpus_per_node;
  return {c.size, c.stride < cluster.gpus_per_node ? last + 1 : c.size};
}

int ranks_per_node(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster) {
  return members_per_node(group_comb(parallelism, kind), cluster.gpus_per_node);
}

int members_per_node(Subgroup subgroup, int ranks_per_node) {
  const int block = subgroup.stride * subgroup.size;
  if (subgroup.stride >= ranks_per_node) return 1;
  if (ranks_per_node % block == 0) return subgroup.size;
  return ranks_per_node % subgroup.stride == 0 && block % ranks_per_node == 0 ? ranks_per_node / subgroup.stride : 0;
}

}  // namespace dovetail
