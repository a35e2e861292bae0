// SPDX-License-Identifier: Apache-2.0
// Tutel's single MoE layer: what each of its parts gains over Fairseq, the layout of the experts' rows, and memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/support.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"

namespace dovetail::bench {
namespace {

// The fastest of algorithm and degree.
Seconds adaptive(const Experiment& e, Plan plan) {
  constexpr std::array degrees{1, 2, 4, 8};
  plan.scope = Scope::Moe;
  std::vector<Plan> plans;
  for (AllToAll algorithm : {AllToAll::Linear, AllToAll::TwoDimensional}) {
    plan.all_to_all = algorithm;
    const std::vector<Plan> some = in_degrees(e, plan, degrees);
    plans.insert(plans.end(), some.begin(), some.end());
  }
  return fastest(e, plans);
}

// In the paper's order: sparse kernels, the adaptive choice, rows by expert.
void add_steps(const Experiment& e, Plan plan, Recomputed& result) {
  const std::string gpus = fmt::format("{} GPUs: ", e.cluster.gpus());
  const Seconds fairseq = moe_time(e, plan);
  plan.encoding = Encoding::Sparse;
  Plan other = plan;
  other.all_to_all = AllToAll::TwoDimensional;
  const Seconds kernels = moe_time(e, plan), pipelined = adaptive(e, plan);
  result.values[gpus + "2DH all-to-all over linear"] = kernels / moe_time(e, other);
  plan.layout = Layout::ExpertMajor;
  const Seconds all = adaptive(e, plan);
  result.values[gpus + "Fairseq"] = milliseconds(fairseq);
  result.values[gpus + "kernels"] = fairseq / kernels;
  result.values[gpus + "adaptive pipelining"] = kernels / pipelined;
  result.values[gpus + "flexible all-to-all"] = pipelined / all;
  result.values[gpus + "total"] = fairseq / all;
}

// The products of an expert's two matrices, forward.
Seconds expert_products(const Experiment& e, Layout layout) {
  Plan plan;
  plan.layout = layout;
  const PricedSchedule priced = price_moe(e, plan);
  for (const OpId i : priced.duration.ids())
    if (priced.schedule->ops[i].kind == OpKind::Expert) return priced.duration[i];
  check(false, "a layer without experts");
  return Seconds(0);
}

Seconds encode_and_decode(const Experiment& e, Plan plan, Encoding encoding) {
  plan.encoding = encoding;
  const PricedSchedule priced = price_moe(e, plan);
  Seconds time(0);
  for (const OpId i : priced.duration.ids()) {
    const OpKind kind = priced.schedule->ops[i].kind;
    if (kind == OpKind::Encode || kind == OpKind::Decode) time += priced.duration[i];
  }
  return time;
}

}  // namespace

Recomputed tutel_fig23(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const System fairseq = load_system("fairseq", files);
  Recomputed result;
  for (int gpus : read_integer_axis(settings.at("gpus"))) {
    LayerSizes sizes;
    sizes.gpus = gpus;
    add_steps(moe_layer(base, read_sizes(settings.at("layer"), sizes)), fairseq.plan, result);
  }
  return result;
}

Recomputed tutel_fig24(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const System fairseq = load_system("fairseq", files);
  Recomputed result;
  for (int tokens : read_integer_axis(settings.at("tokens"))) {
    LayerSizes sizes;
    sizes.tokens = tokens;
    const Experiment e = moe_layer(base, read_sizes(settings.at("layer"), sizes));
    result.values[fmt::format("{} tokens: dense over sparse", tokens)] =
        encode_and_decode(e, fairseq.plan, Encoding::Dense) / encode_and_decode(e, fairseq.plan, Encoding::Sparse);
  }
  return result;
}

Recomputed tutel_layout(const JsonReader& settings, FilesRead& files) {
  const Experiment e = moe_layer(read_experiment(settings.at("experiment"), files), read_sizes(settings.at("layer")));
  Experiment uncached = e;
  uncached.cluster.device.l2_cache = {};
  const double apart = milliseconds(expert_products(e, Layout::RankMajor)),
               from_memory = milliseconds(expert_products(uncached, Layout::RankMajor)),
               together = milliseconds(expert_products(e, Layout::ExpertMajor));
  Recomputed result;
  result.values["rank_major"] = apart;
  result.values["rank_major, weights from memory each time"] = from_memory;
  result.values["expert_major"] = together;
  result.values["rank_major over the published expert_major"] = apart / settings.number("expert_major_ms");
  result.values["rank_major over expert_major"] = apart / together;
  result.values["one product: rank_major"] = apart / 2;
  result.values["one product: expert_major"] = together / 2;
  return result;
}

namespace {

// GiB by number of tokens: the arena, and what the framework takes outside of tensors.
std::vector<double> memory(const Experiment& base, const Plan& plan, const JsonReader& settings) {
  const double outside = settings.at("outside").at("gibibytes").number();
  std::vector<double> memory;
  for (int tokens : read_integer_axis(settings.at("tokens"))) {
    LayerSizes sizes;
    sizes.tokens = tokens;
    const Bytes arena = arena_of(moe_layer(base, read_sizes(settings.at("layer"), sizes)), plan);
    memory.push_back(arena.value() / gibibyte + outside);
  }
  return memory;
}

}  // namespace

Recomputed tutel_table4(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  Experiment whole = base;
  whole.workload.dtype = DType::Fp32;
  const std::vector<int> tokens = read_integer_axis(settings.at("tokens"));
  Recomputed result;
  for (const auto& [name, id] : {std::pair{"Fairseq", "fairseq"}, {"Tutel", "tutel"}}) {
    const Plan plan = load_system(id, files).plan;
    const std::vector<double> half = memory(base, plan, settings), full = memory(whole, plan, settings);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      result.values[fmt::format("{}, {} tokens", name, tokens[i])] = half[i];
    const std::string growth = fmt::format("{}, from the fewest to the most tokens", name);
    result.values[growth] = half.back() - half.front();
    result.values[growth + ", in fp32"] = full.back() - full.front();
  }
  return result;
}

}  // namespace dovetail::bench
