// SPDX-License-Identifier: Apache-2.0
// One point of the plan space: every knob of every published system. The meaning of each knob and value, and
// whether a builder exists for it, is said once, in knob_table.cpp. validate() (plan_rules.hpp) refuses the rest.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/enum_set.hpp"
#include "models/base/names.hpp"
#include "models/base/units.hpp"
#include "models/plan/communication.hpp"
#include "models/plan/listed_program.hpp"
#include "models/plan/program_names.hpp"

namespace dovetail {

struct Experiment;
class StageLayout;
struct Program;

enum class Scope { Layer, Moe, Block, Batch };
inline constexpr Names<Scope, 4> scope_names{
    {{"layer", Scope::Layer}, {"moe", Scope::Moe}, {"block", Scope::Block}, {"batch", Scope::Batch}}};

// The order in which a pair of micro-batches has the attention (F, backward: B) and the experts of a layer.
enum class PairOrder { Alternate, AttentionEarly, ExpertsFirst };
inline constexpr Names<PairOrder, 3> pair_order_names{{{"alternate", PairOrder::Alternate},
                                                       {"attention_early", PairOrder::AttentionEarly},
                                                       {"experts_first", PairOrder::ExpertsFirst}}};

// Gradients of weights that are made later than those of inputs.
enum class DelayedWeights { None, Expert, All, Fill };
inline constexpr Names<DelayedWeights, 4> delayed_weights_names{{{"none", DelayedWeights::None},
                                                                 {"expert", DelayedWeights::Expert},
                                                                 {"all", DelayedWeights::All},
                                                                 {"fill", DelayedWeights::Fill}}};

enum class Split { Capacity, Peers };
inline constexpr Names<Split, 2> split_names{{{"capacity", Split::Capacity}, {"peers", Split::Peers}}};

enum class Order { DispatchFirst, Alternate, ReadyFirst };
inline constexpr Names<Order, 3> order_names{
    {{"dispatch_first", Order::DispatchFirst}, {"alternate", Order::Alternate}, {"ready_first", Order::ReadyFirst}}};

enum class CommStreams { One, InterIntra, DispatchCombine, MpApart, ByGroup };
inline constexpr Names<CommStreams, 5> comm_streams_names{{{"one", CommStreams::One},
                                                           {"inter_intra", CommStreams::InterIntra},
                                                           {"dispatch_combine", CommStreams::DispatchCombine},
                                                           {"mp_apart", CommStreams::MpApart},
                                                           {"by_group", CommStreams::ByGroup}}};

enum class AllToAll { Linear, NaiveLocal, Hierarchical1d, TwoDimensional, NodeDeduplicated };
inline constexpr Names<AllToAll, 5> all_to_all_names{{{"linear", AllToAll::Linear},
                                                      {"naive_local", AllToAll::NaiveLocal},
                                                      {"hierarchical_1d", AllToAll::Hierarchical1d},
                                                      {"two_dimensional", AllToAll::TwoDimensional},
                                                      {"node_deduplicated", AllToAll::NodeDeduplicated}}};

enum class AllToAllImplementation { PointToPoint, Fused };
inline constexpr Names<AllToAllImplementation, 2> all_to_all_implementation_names{
    {{"p2p", AllToAllImplementation::PointToPoint}, {"fused", AllToAllImplementation::Fused}}};

enum class Encoding { Sparse, Dense };
inline constexpr Names<Encoding, 2> encoding_names{{{"sparse", Encoding::Sparse}, {"dense", Encoding::Dense}}};

enum class Wire { Same, Bf16, Fp8 };
inline constexpr Names<Wire, 3> wire_names{{{"same", Wire::Same}, {"bf16", Wire::Bf16}, {"fp8", Wire::Fp8}}};

// The op that multiplies rows by the scores of their choices.
enum class ScoresAt { Decode, Experts };
inline constexpr Names<ScoresAt, 2> scores_at_names{{{"decode", ScoresAt::Decode}, {"experts", ScoresAt::Experts}}};

enum class GradSync { After, WithDense, FixedChunks, Partitioned };
inline constexpr Names<GradSync, 4> grad_sync_names{{{"after", GradSync::After},
                                                     {"with_dense", GradSync::WithDense},
                                                     {"fixed_chunks", GradSync::FixedChunks},
                                                     {"partitioned", GradSync::Partitioned}}};

enum class Restore { Keep, S1, S2, S3, S4 };
inline constexpr Names<Restore, 5> restore_names{
    {{"keep", Restore::Keep}, {"s1", Restore::S1}, {"s2", Restore::S2}, {"s3", Restore::S3}, {"s4", Restore::S4}}};
constexpr bool offloads_input(Restore r) {
  return r == Restore::S1 || r == Restore::S3;
}
constexpr bool offloads_hidden(Restore r) {
  return r == Restore::S1 || r == Restore::S2;
}

enum class Buffers { PerChunk, Single, Double, DoubleHidden };
inline constexpr Names<Buffers, 4> buffers_names{{{"per_chunk", Buffers::PerChunk},
                                                  {"single", Buffers::Single},
                                                  {"double", Buffers::Double},
                                                  {"double_hidden", Buffers::DoubleHidden}}};
// How many chunks' rows have buffers; those after them take over their memory. 0: as many as there are chunks.
constexpr int ring_depth(Buffers b) {
  return b == Buffers::PerChunk ? 0 : b == Buffers::Single ? 1 : 2;
}
// The same of hidden rows.
constexpr int hidden_ring_depth(Buffers b) {
  return b == Buffers::PerChunk ? 0 : b == Buffers::DoubleHidden ? 2 : 1;
}

enum class ExpertSharding { Ep, EpDp, EpMp };
inline constexpr Names<ExpertSharding, 3> expert_sharding_names{
    {{"ep", ExpertSharding::Ep}, {"ep_dp", ExpertSharding::EpDp}, {"ep_mp", ExpertSharding::EpMp}}};

enum class Layout { ExpertMajor, RankMajor };
inline constexpr Names<Layout, 2> layout_names{
    {{"expert_major", Layout::ExpertMajor}, {"rank_major", Layout::RankMajor}}};

enum class ExpertKernel { Batched, Grouped };
inline constexpr Names<ExpertKernel, 2> expert_kernel_names{
    {{"batched", ExpertKernel::Batched}, {"grouped", ExpertKernel::Grouped}}};

enum class SharedExperts { Serial, Overlapped };
inline constexpr Names<SharedExperts, 2> shared_experts_names{
    {{"serial", SharedExperts::Serial}, {"overlapped", SharedExperts::Overlapped}}};

enum class Graphs { None, Attention, Router, All };
inline constexpr Names<Graphs, 4> graphs_names{
    {{"none", Graphs::None}, {"attention", Graphs::Attention}, {"router", Graphs::Router}, {"all", Graphs::All}}};

// The parts of a layer that the backward pass may compute again, with the names that Megatron-LM's recompute_modules
// have for most of them.
enum class Recompute { Full, Attention, UpProjections, MpGather, Norms, Activation, DenseFfn, SharedExperts, Moe };
inline constexpr Names<Recompute, 9> recompute_names{{{"full", Recompute::Full},
                                                      {"attention", Recompute::Attention},
                                                      {"mla_up_proj", Recompute::UpProjections},
                                                      {"mp_gather", Recompute::MpGather},
                                                      {"norms", Recompute::Norms},
                                                      {"activation", Recompute::Activation},
                                                      {"dense_ffn", Recompute::DenseFfn},
                                                      {"shared_experts", Recompute::SharedExperts},
                                                      {"moe", Recompute::Moe}}};

// With zero 1, the time at which ranks gather the weights that others have updated: when all are updated, or in the
// next step, where each layer's weights are gathered beside the forward pass of the layer before it.
enum class ParameterGather { AfterUpdate, Ahead };
inline constexpr Names<ParameterGather, 2> parameter_gather_names{
    {{"after_update", ParameterGather::AfterUpdate}, {"ahead", ParameterGather::Ahead}}};

// The time at which the backward pass reduces a slice of the dense gradients: beside a layer's MoE part (after its
// first all-to-alls), beside its attention, or after the last layer.
enum class Window { Moe, Dense, Tail };
inline constexpr Names<Window, 3> window_names{
    {{"moe", Window::Moe}, {"dense", Window::Dense}, {"tail", Window::Tail}}};

// Slices follow one another through the dense gradients in backward order (last layer first), those of the last
// pipeline stage first. With micro-batches they are reduced in the pass of the last one.
struct GradientSlice {
  Window window = Window::Tail;
  int layer = 0;              // of the window; Tail: the first layer of the pipeline stage
  std::int64_t elements = 0;  // > 0
  friend bool operator==(const GradientSlice&, const GradientSlice&) = default;
};

struct Plan {
  int forward_degree = 1;
  int backward_degree = 1;
  std::vector<int> backward_degrees;
  Scope scope = Scope::Layer;
  PairOrder pair_order = PairOrder::Alternate;
  DelayedWeights delay_weight_gradient = DelayedWeights::None;
  Split split = Split::Capacity;
  int peer_group = 4;
  Order order = Order::DispatchFirst;
  CommStreams comm_streams = CommStreams::One;
  AllToAll all_to_all = AllToAll::Linear;
  std::vector<int> all_to_all_levels;
  AllToAllImplementation all_to_all_implementation = AllToAllImplementation::PointToPoint;
  int comm_sms = 0;
  Protocol protocol = Protocol::Simple;
  bool pad_messages = false;
  Wire dispatch_wire = Wire::Same;
  Wire combine_wire = Wire::Same;
  Encoding encoding = Encoding::Sparse;
  ScoresAt scores_at = ScoresAt::Decode;
  GradSync grad_sync = GradSync::After;
  std::int64_t gradient_chunk_bytes = 30'000'000;  // Lina's
  std::vector<GradientSlice> gradient_slices;
  Restore restore = Restore::Keep;
  Buffers buffers = Buffers::PerChunk;
  ExpertSharding expert_sharding = ExpertSharding::Ep;
  int sharding_repeats = 0;
  std::vector<int> shadowed_experts;
  Layout layout = Layout::ExpertMajor;
  int row_tile = 0;
  ExpertKernel expert_kernel = ExpertKernel::Batched;
  SharedExperts shared_experts = SharedExperts::Serial;
  bool host_sync = false;
  bool one_connection = false;
  Graphs graphs = Graphs::None;
  PipelineSchedule pipeline_schedule = dovetail::pipeline_schedule("gpipe");
  ListedProgram program;
  int virtual_stages = 1;
  int micro_batches = 1;
  EnumSet<Recompute> recompute;
  int zero = 0;
  ParameterGather parameter_gather = ParameterGather::AfterUpdate;

  int backward_degree_of(int layer) const {
    return backward_degrees.empty() ? backward_degree : backward_degrees[static_cast<std::size_t>(layer)];
  }
  // A named one in place of its own.
  void follow(PipelineSchedule named) {
    pipeline_schedule = named;
    program = {};
  }
  // Its ops have an order that their costs decide, which is made for the whole step.
  bool is_ordered_by_costs() const {
    return order == Order::ReadyFirst || delay_weight_gradient == DelayedWeights::Fill;
  }
  bool lists_program() const { return pipeline_schedule == dovetail::pipeline_schedule("listed"); }
  // How its schedule lies on the ranks: as the table has it, or as the listed program does.
  const NamedProgram& pipeline() const { return lists_program() ? program.entry() : entry_of(pipeline_schedule); }
  Turns turns() const { return scope == Scope::Batch ? Turns::Paired : Turns::Apart; }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// The slices that a plan's grad_sync stands for, in backward order, of each pipeline stage; those of two that hold the
// same layers once. `elements`: dense gradients of each layer.
std::vector<GradientSlice> gradient_slices(const Plan& plan, std::span<const std::int64_t> elements, Bytes element,
                                           const StageLayout& layout);

// The program of so many pipeline ranks, with the plan's own micro-batches and virtual stages.
Program program_of(const Plan& plan, int ranks);

// The layers that the stages of the experiment have where its pipeline follows the plan.
StageLayout stage_layout(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
