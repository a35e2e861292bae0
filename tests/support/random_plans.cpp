// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "models/base/errors.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/load.hpp"
#include "models/files/plan_json.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/program.hpp"
#include "models/price/calibration.hpp"
#include "models/price/plan_costs.hpp"
#include "models/question/capacity.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_program.hpp"

namespace dovetail::test {
namespace {

// Random cuts of each stage's dense gradients; slices that come before their gradients are refused by validate().
std::vector<GradientSlice> random_slices(Draw& draw, const Experiment& e, const Plan& plan) {
  const StageLayout layout = stage_layout(plan, e);
  const std::vector<std::int64_t> all = dense_elements(e, layout);
  std::vector<GradientSlice> slices;
  for (int stage = e.parallelism.pp - 1; stage >= 0; --stage) {
    const std::span<const int> layers = layout.layers_of(stage);
    std::int64_t left = 0;
    for (int layer : layers) left += all[static_cast<std::size_t>(layer)];
    for (std::size_t i = layers.size() - 1; i-- > 0;)
      for (Window window : {Window::Moe, Window::Dense}) {
        slices.push_back({window, layers[i], all[static_cast<std::size_t>(layers[i + 1])] / draw.between(2, 4)});
        left -= slices.back().elements;
      }
    slices.push_back({Window::Tail, layers.front(), left});
  }
  return slices;
}

// Hidden sizes divide over up to 4 ranks.
void add_dense_parts(Draw& draw, Model& model) {
  if (model.layers > 1 && draw.chance(30)) {
    model.first_dense = draw.between(0, model.layers - 1);
    model.moe_every = model.first_dense < 2 ? draw.between(1, 2) : 1;
    if (model.first_dense > 0 || model.moe_every > 1) model.dense_hidden = 4 * draw.between(1, 5);
  }
  if (draw.chance(30)) model.shared_experts = {draw.between(1, 2), 4 * draw.between(1, 3), false};
}

void add_routing(Draw& draw, Experiment& e) {
  Workload& w = e.workload;
  draw.knob(gate_kind_names, w.gate.kind);
  if (w.gate.kind == GateKind::ExpertChoice)  // an expert has no more than all tokens to choose
    w.capacity_factor = std::min(w.capacity_factor, static_cast<double>(e.model.experts) / w.top_k);
  if (!w.gate.token_choice()) return;
  w.gate.renormalise = draw.chance(25);
  w.gate.batch_prioritised = draw.chance(25);
  if (draw.chance(40)) w.routing.kind = draw.one_of({RoutingKind::Uniform, RoutingKind::Zipf, RoutingKind::Hot});
  if (draw.chance(20)) w.capacity_factor = draw.one_of({0.0, -1.0, -w.capacity_factor});
  resolve_capacity(e);
}

std::vector<double> usual_law(KernelKind kind) {
  std::vector<double> law;
  for (const LawParameter& parameter : law_of(kind).parameters) law.push_back(parameter.start);
  return law;
}

// Kernels by shape whose times bend and jump: between an eighth and eight times what their flops take.
void add_kernel_tables(Draw& draw, Calibration& c, DType dtype) {
  const SecondsPerFlop beta = find_gemm(c, dtype).beta;
  for (const auto& [name, kind] : std::span(computing_kernels).first<3>()) {
    if (draw.chance(30)) continue;
    std::vector<MeasuredKernel> points;
    for (int i = 0; i < 12; ++i) {
      const auto size = [&] { return std::int64_t{1} << draw.between(0, 5); };
      KernelShape shape{kind, {}};
      for (std::size_t at = 0; at < kernel_size_names(kind).size(); ++at) shape.size[at] = size();
      points.push_back({shape, std::pow(2.0, draw.between(-3, 3)) * (flops(shape) * beta)});
    }
    c.tables.emplace_back(kind, dtype, usual_law(kind), std::move(points));
  }
}

// The same of collectives.
void add_tables(Draw& draw, Experiment& e) {
  Calibration& c = e.calibration.edit();
  add_kernel_tables(draw, c, e.workload.dtype);
  const SecondsPerByte link = c.collectives.front().beta;
  for (const auto& [name, kind] : collective_kernels) {
    if (draw.chance(50)) continue;
    std::vector<MeasuredKernel> points;
    for (int i = 0; i < 8; ++i) {
      const std::int64_t bytes = std::int64_t{1} << draw.between(2, 16);
      const KernelShape shape = collective_shape(kind, std::int64_t{1} << draw.between(1, 3), bytes);
      points.push_back({shape, std::pow(2.0, draw.between(-3, 3)) * (Bytes(static_cast<double>(bytes)) * link)});
    }
    c.tables.emplace_back(kind, e.workload.dtype, usual_law(kind), std::move(points));
  }
}

// How attention and products run.
void add_kernels(Draw& draw, Experiment& e) {
  Workload& w = e.workload;
  if (draw.chance(30)) w.attention = AttentionKernel::Eager;
  w.causal = draw.chance(80);
  if (!draw.chance(30)) return;
  w.products = DType::Fp8;
  Calibration& c = e.calibration.edit();
  GemmCost cost = find_gemm(c, w.dtype);
  cost.dtype = DType::Fp8;
  cost.beta = cost.beta / draw.between(1, 3);
  c.gemms.push_back(std::move(cost));
  if (draw.chance(50)) add_kernel_tables(draw, c, DType::Fp8);
}

// Enough layers for two virtual stages on each rank, or stages of any lengths.
void add_pipeline(Draw& draw, Experiment& e) {
  const int pp = e.parallelism.pp;
  e.model.layers = e.workload.layers = 2 * pp + draw.between(0, 1);
  resolve_capacity(e);
  if (draw.chance(60)) return;
  std::string layout = "E";
  for (int stage = 0, left = e.workload.layers; stage < pp; ++stage) {
    const int layers = stage + 1 == pp ? left : draw.between(1, left - (pp - 1 - stage));
    layout += std::string(static_cast<std::size_t>(layers), 't') + (stage + 1 == pp ? "L" : "|");
    left -= layers;
  }
  e.parallelism.pipeline_layout = layout;
}

// A whole model that predicts further words.
void add_predictions(Draw& draw, Experiment& e) {
  if (e.workload.extent != Extent::Model || e.model.moe_every > 1) return;
  if (draw.chance(40)) e = with_predictions(std::move(e), draw.between(1, 2));
  resolve_capacity(e);
}

bool can_interleave(const Experiment& e) {
  const Parallelism& p = e.parallelism;
  return p.pp > 1 && p.pipeline_layout.empty() && e.workload.layers >= 2 * p.pp && e.workload.batch % p.pp == 0;
}

}  // namespace

double rounding_growth(const Experiment& e) {
  const int layers = e.workload.all_layers();
  return layers > 3 ? 100 : layers > 2 ? 2 : 1;
}

Experiment random_experiment(Random& random) {
  Draw draw(random);
  Experiment e = round_numbers(draw.between(1, 3));
  Parallelism& p = e.parallelism;
  p = {};
  p.mp = draw.one_of({1, 2, 2, 4});
  p.esp = draw.one_of({1, 2, p.mp});
  p.ep = draw.one_of({1, 2, 2, 4});
  while (p.esp * p.ep % p.mp != 0) p.esp = p.mp;
  if (draw.chance(25)) p.edp = 2;
  if (draw.chance(30)) p.pp = draw.between(1, e.workload.layers);
  p.dp = p.edp * p.ep * p.esp / p.mp;
  e.cluster.gpus_per_node = p.mp;
  e.cluster.nodes = p.pp * p.dp;
  e.model.attention = {4, draw.one_of({4, 4, 4}), 4};
  e.model.experts = 4 * draw.between(1, 2);
  e.model.top_k = e.workload.top_k = draw.between(1, 3);
  e.model.expert_kind = draw.one_of({ExpertKind::Ffn, ExpertKind::Gated});
  e.workload.batch = draw.one_of({1, 2, 4});
  e.workload.sequence = draw.one_of({8, 16, 24});
  e.workload.capacity_factor = draw.between(2, 16) / 8.0;
  if (draw.chance(50))
    for (LinkKind link : {LinkKind::Intra, LinkKind::Inter})
      for (const auto& [protocol, speed] : {std::pair{Protocol::Simple, 1.0}, {Protocol::LowLatency, .5}})
        e.calibration.edit().messages.push_back(
            {link, protocol, Seconds(speed * 1e-4), 10, BytesPerSecond(speed * 1e9), BytesPerSecond(speed * 5e8), {}});
  if (draw.chance(10)) e.workload.phases = Phases::ForwardOnly;
  add_routing(draw, e);
  add_dense_parts(draw, e.model);
  // From numbers of the experiment: kernels leave the draws after them as they were.
  Random own(static_cast<unsigned>(1000 * e.workload.capacity_factor) +
             7U * static_cast<unsigned>(e.workload.sequence) +
             131U * static_cast<unsigned>(e.model.experts + e.workload.layers + e.parallelism.dp));
  Draw tables(own);
  if (tables.chance(40)) add_tables(tables, e);
  if (tables.chance(30)) e.calibration.edit().host = HostCost{Seconds(tables.one_of({1e-5, 1e-4, 1e-3})), {}};
  add_kernels(tables, e);
  e.model.vocabulary = tables.between(3, 40);
  if (tables.chance(40)) e.workload.extent = tables.one_of({Extent::WholeLayers, Extent::Model});
  if (p.pp > 1 && tables.chance(60)) add_pipeline(tables, e);
  if (tables.chance(30)) e.model.attention.qk_norm = tables.one_of({QkNorm::Head, QkNorm::Width});
  e.model.tied_embeddings = tables.chance(50);
  if (e.workload.whole_layers() && tables.chance(50)) e.workload.clip_gradients = tables.one_of({0., .01, 100.});
  if (e.workload.gate.token_choice() && !e.workload.other_products() && tables.chance(25))
    e.workload.message_sizes = MessageSizes::Routed;
  add_predictions(tables, e);
  if (p.esp == p.mp && e.workload.mtp_layers == 0 && e.workload.message_sizes == MessageSizes::Padded &&
      tables.chance(40)) {
    p.sequence_parallel = false;
    resolve_capacity(e);
  }
  if (tables.chance(20)) e = with_latent_attention(std::move(e), tables.one_of({0, 7}));
  return e;
}

Experiment random_on_device(Random& random) {
  Experiment e = random_executable(random);
  e.workload.message_sizes = MessageSizes::Padded;
  if (e.parallelism.mp > 1 && e.model.attention.qk_norm == QkNorm::Width) e.model.attention.qk_norm = QkNorm::Head;
  return e;
}

Experiment random_executable(Random& random) {
  Experiment e = random_experiment(random);
  e.workload.attention = AttentionKernel::Flash;
  e.workload.causal = true;
  e.workload.products.reset();
  return e;
}

void weigh_bytes(Random& random, Experiment& e) {
  Draw draw(random);
  for (CollectiveCost& cost : e.calibration.edit().collectives)
    cost.beta = cost.beta * std::pow(10, draw.between(0, 5));
}

namespace {

// Two pipelines take the place of a V later; see with_two_pipelines().
void draw_schedule(Draw& draw, const Experiment& e, Plan& p) {
  if (can_interleave(e) && draw.chance(60)) {
    p.pipeline_schedule =
        draw.one_of({pipeline_schedule("interleaved"), pipeline_schedule("zb_v"), pipeline_schedule("dualpipe_v")});
  } else if (draw.chance(30)) {
    std::vector<PipelineSchedule> schedules;
    for (const auto& [name, schedule] : pipeline_schedule_names)
      if (pipelines_of(entry_of(schedule).shape) == 1) schedules.push_back(schedule);
    p.pipeline_schedule = schedules[draw.below(schedules.size())];
  }
}

// The plan with dualpipe in place of dualpipe_v, and with the only values that go with that.
Plan with_two_pipelines(Plan plan) {
  if (plan.pipeline_schedule != pipeline_schedule("dualpipe_v")) return plan;
  plan.pipeline_schedule = pipeline_schedule("dualpipe");
  plan.grad_sync = GradSync::After;
  plan.gradient_slices.clear();
  plan.parameter_gather = ParameterGather::AfterUpdate;
  return plan;
}

// Values for which any number would hardly ever be legal; the others are drawn by their type.
bool draw_specially(Draw& draw, std::string_view knob, const Experiment& e, Plan& p) {
  if (knob == "forward_degree") {
    if (draw.chance(70)) p.forward_degree = draw.between(1, 4);
  } else if (knob == "backward_degree") {
    p.backward_degree = draw.chance(50) ? p.forward_degree : draw.between(1, 4);
  } else if (knob == "backward_degrees") {
    if (draw.chance(15))
      for (int layer = 0; layer < e.workload.layers; ++layer) p.backward_degrees.push_back(draw.between(1, 4));
  } else if (knob == "delay_weight_gradient") {
    if (draw.chance(25)) p.delay_weight_gradient = delayed_weights_names[1 + draw.below(3)].second;  // not none
  } else if (knob == "shared_experts") {
    if (e.model.shared_experts.count > 0 && draw.chance(50)) p.shared_experts = SharedExperts::Overlapped;
  } else if ((knob == "restore" || knob == "buffers") && p.delay_weight_gradient != DelayedWeights::None &&
             draw.chance(80)) {
  } else if (knob == "pair_order") {
    if (p.scope == Scope::Batch) p.pair_order = pair_order_names[draw.below(pair_order_names.size())].second;
  } else if (knob == "peer_group") {
    if (draw.chance(50)) p.peer_group = draw.between(1, 4);
  } else if (knob == "all_to_all" && e.workload.message_sizes == MessageSizes::Routed && draw.chance(50)) {
    p.all_to_all = AllToAll::NodeDeduplicated;
  } else if (knob == "scores_at" && p.all_to_all == AllToAll::NodeDeduplicated && draw.chance(90)) {
    p.scores_at = ScoresAt::Experts;
  } else if (knob == "all_to_all_levels") {
    if (draw.chance(20)) p.all_to_all_levels = {2, draw.between(1, 2)};
  } else if (knob == "gradient_slices" || knob == "program" || knob == "one_connection") {  // at the end
  } else if (knob == "gradient_chunk_bytes") {
    if (p.grad_sync == GradSync::FixedChunks) p.gradient_chunk_bytes = draw.between(100, 2000);
  } else if (knob == "sharding_repeats") {
    if (p.expert_sharding == ExpertSharding::EpMp) p.sharding_repeats = draw.one_of({0, 0, 1, 2, 4});
  } else if (knob == "shadowed_experts") {
    if (draw.chance(20)) p.shadowed_experts = {draw.between(0, e.model.experts - 1)};
  } else if (knob == "micro_batches") {
    if (draw.chance(40)) p.micro_batches = draw.one_of({1, 2, 4});
    p.micro_batches *= std::max(1, e.parallelism.pp * p.pipeline().least_per_rank);
  } else if (knob == "pipeline_schedule") {
    draw_schedule(draw, e, p);
  } else if (knob == "pad_messages") {  // it has no say over others
    if (e.workload.message_sizes == MessageSizes::Routed) p.pad_messages = draw.chance(20);
  } else if (knob == "zero") {
    p.zero = draw.chance(40) ? 1 : 0;
  } else if (knob == "parameter_gather") {
    if (p.zero == 1 && draw.chance(50)) p.parameter_gather = ParameterGather::Ahead;
  } else if (knob == "virtual_stages") {
    if (p.pipeline().shape != StageShape::One || draw.chance(2)) p.virtual_stages = 2;
  } else {
    return false;
  }
  return true;
}

struct DrawByType {
  Draw& draw;
  Plan& plan;

  void operator()(const ChoiceKnob& choice) const {
    if (!draw.chance(30)) return;
    const KnobValue& value = choice.values()[draw.below(choice.count)];
    if (value.built || draw.chance(10)) choice.set(plan, value.value);
  }
  void operator()(const FlagKnob& flag) const { plan.*flag.member = draw.chance(25); }
  void operator()(const CountKnob& count) const {
    if (draw.chance(20)) plan.*count.member = draw.between(count.least, std::min(count.most, count.least + 4));
  }
  void operator()(const CountsKnob& list) const {
    if (draw.chance(20)) plan.*list.member = {draw.between(list.least, std::min(list.most, list.least + 4))};
  }
  void operator()(const SetKnob& set) const {
    if (!draw.chance(35)) return;
    std::uint32_t bits = 0;
    const int most = draw.between(1, 3);
    for (int i = 0; i < most; ++i) {
      const KnobValue& value = set.values()[draw.below(set.count)];
      if (value.built || draw.chance(10)) bits |= std::uint32_t{1} << static_cast<unsigned>(value.value);
    }
    set.set(plan, bits);
  }
  template <class Type>
  void operator()(const Type&) const {
    throw InternalError("a knob of this type needs a way of its own to be drawn");
  }
};

// Makes the plan one whose micro-batches overlap.
void make_pairs(Draw& draw, const Experiment& e, Plan& p) {
  p.forward_degree = p.backward_degree = 1;
  p.backward_degrees.clear();
  p.split = Split::Capacity;
  p.host_sync = false;
  if (!p.pipeline().pairs) p.pipeline_schedule = pipeline_schedule("1f1b");
  if (can_interleave(e) && draw.chance(60))
    p.pipeline_schedule =
        draw.one_of({pipeline_schedule("interleaved"), pipeline_schedule("dualpipe_v"), pipeline_schedule("dualpipe")});
  const NamedProgram& program = p.pipeline();
  p.virtual_stages = program.shape == StageShape::One ? 1 : 2;
  p.micro_batches = draw.between(1, 2) * std::max(2, e.parallelism.pp * std::max(1, program.least_per_rank));
}

}  // namespace

Plan random_plan(Random& random, const Experiment& e, std::span<const Knob> table) {
  Draw draw(random);
  Plan p;
  for (const Knob& knob : table)
    if (const bool drawable = knob.built || draw.chance(2); drawable && !draw_specially(draw, knob.name, e, p))
      std::visit(DrawByType{draw, p}, knob.type);
  if (p.delay_weight_gradient == DelayedWeights::Fill && p.order == Order::ReadyFirst) p.order = Order::DispatchFirst;
  if (p.scope == Scope::Batch) make_pairs(draw, e, p);
  if (draw.chance(10) && (e.parallelism.pp > 1 || p.virtual_stages == 1)) list_program(random, e, p);
  if (p.grad_sync == GradSync::Partitioned && e.parallelism.pp * p.virtual_stages <= e.workload.layers &&
      (p.virtual_stages == 1 || e.parallelism.pipeline_layout.empty()))
    p.gradient_slices = random_slices(draw, e, p);
  return p;
}

void list_program(Random& random, const Experiment& e, Plan& plan) {
  plan.program = random_program(random, plan, e.parallelism.pp);
  plan.pipeline_schedule = pipeline_schedule("listed");
}

std::optional<std::string> refusal(const Plan& plan, const Experiment& experiment) {
  try {
    validate(plan, experiment);
    require_costs(plan, experiment);
    return std::nullopt;
  } catch (const InputError& error) {
    return error.what();
  }
}

Plan random_legal_plan(Random& random, const Experiment& experiment) {
  for (int attempt = 0; attempt < 20'000; ++attempt)
    if (Plan plan = random_plan(random, experiment); !refusal(plan, experiment)) {
      // Without a draw, so that seeds have the plans that they had before these.
      const std::size_t number = std::hash<std::string>()(describe(experiment, plan));
      plan.one_connection = number % 8 == 0;
      const Plan both_ways = with_two_pipelines(plan);
      return number % 3 != 0 && !refusal(both_ways, experiment) ? both_ways : plan;
    }
  throw InternalError("no legal plan among 20,000 draws for " + describe(experiment, Plan{}));
}

Plan shipped_plan(const std::string& system) {
  FilesRead files;
  Plan plan = load_system(system, files).plan;
  if (plan.grad_sync == GradSync::Partitioned) plan.grad_sync = GradSync::WithDense;
  return plan;
}

bool needs_micro_batches(const Plan& plan) {
  return plan.scope == Scope::Batch || plan.pipeline().halves;
}

void fill_pipeline(Plan& plan, Experiment& e) {
  if (!needs_micro_batches(plan)) return;
  plan.micro_batches = 2 * e.parallelism.pp;
  e.workload.batch *= plan.micro_batches;
  e.workload.router_loads.clear();
  resolve_capacity(e);
}

void cut_rows(Plan& plan, int degree) {
  if (plan.scope != Scope::Layer && plan.scope != Scope::Batch && plan.split == Split::Capacity)
    plan.forward_degree = plan.backward_degree = degree;
}

std::string describe(const Experiment& e, const Plan& plan) {
  nlohmann::ordered_json changed = nlohmann::ordered_json::object();
  for (const Knob& knob : knobs())
    if (!has_default(knob, plan)) changed[std::string(knob.name)] = value_json(knob, plan);
  return fmt::format("plan {} of {} {} experts {} top_k {} {}", changed.dump(), to_json(e.workload).dump(),
                     to_json(e.parallelism).dump(), e.model.experts, e.workload.top_k,
                     e.model.expert_kind == ExpertKind::Gated ? "gated" : "ffn");
}

}  // namespace dovetail::test
