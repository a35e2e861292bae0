// SPDX-License-Identifier: Apache-2.0
// The table itself. Its entries and their values are checked by the compiler.
#include "models/plan/knob_table.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr int most_chunks = 65'536, most_ranks = 1'048'576, most_stages = 10'000, most_micro_batches = 1'000'000;

// The sentence for a value.
template <class Enum>
struct Said {
  Enum value;
  std::string_view help;
  bool built = true;
};

// Every name needs its sentence: with one too many or one too few it does not compile.
template <auto Member, class Enum, std::size_t N>
constexpr ChoiceKnob choice_of(const std::array<std::pair<std::string_view, Enum>, N>& names,
                               std::span<const Said<Enum>, N> said) {
  ChoiceKnob knob{{},
                  N,
                  [](const Plan& plan) { return static_cast<int>(plan.*Member); },
                  [](Plan& plan, int value) { plan.*Member = static_cast<Enum>(value); }};
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i].second != said[i].value) throw InternalError("the sentences of a knob are in another order");
    knob.stored[i] = {names[i].first, static_cast<int>(said[i].value), said[i].help, said[i].built};
  }
  return knob;
}
template <auto Member, class Enum, std::size_t N>
constexpr ChoiceKnob choice(const std::array<std::pair<std::string_view, Enum>, N>& names,
                            const Said<Enum> (&said)[N]) {
  return choice_of<Member, Enum, N>(names, said);
}

template <auto Member, class Enum, std::size_t N>
constexpr SetKnob set_of(const std::array<std::pair<std::string_view, Enum>, N>& names, const Said<Enum> (&said)[N]) {
  SetKnob knob{{},
               N,
               [](const Plan& plan) { return (plan.*Member).bits(); },
               [](Plan& plan, std::uint32_t bits) { plan.*Member = EnumSet<Enum>::of_bits(bits); }};
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i].second != said[i].value) throw InternalError("the sentences of a knob are in another order");
    knob.stored[i] = {names[i].first, static_cast<int>(said[i].value), said[i].help, said[i].built};
  }
  return knob;
}

constexpr Said<Wire> said_of_wires[]{{Wire::Same, "They are sent as the activations are."},
                                     {Wire::Bf16, "They are sent as bf16."},
                                     {Wire::Fp8, "They are sent as fp8 (e4m3), each row with an fp32 scale."}};

constexpr auto said_of_programs = [] {
  std::array<Said<PipelineSchedule>, named_programs.size()> said{};
  for (std::size_t i = 0; i < said.size(); ++i) said[i] = {pipeline_schedule_names[i].second, named_programs[i].help};
  return said;
}();

using enum KnobClass;
using enum KnobSearch;

constexpr std::array table{
    Knob{.name = "forward_degree",
         .type = CountKnob{&Plan::forward_degree, 1, most_chunks},
         .group = Degrees,
         .search = Together,
         .searched_as = "degrees",
         .holds_rows = false,
         .help = "The rows of the experts are cut into so many chunks in the forward pass."},
    Knob{.name = "backward_degree",
         .type = CountKnob{&Plan::backward_degree, 1, most_chunks},
         .group = Degrees,
         .search = Together,
         .holds_rows = false,
         .help = "The rows of the experts are cut into so many chunks in the backward pass."},
    Knob{.name = "backward_degrees",
         .type = CountsKnob{&Plan::backward_degrees, 1, most_chunks},
         .group = Degrees,
         .search = Together,
         .holds_rows = false,
         .help = "Layers may have different backward degrees: one number for each layer. With an empty list all layers "
                 "have backward_degree."},
    Knob{.name = "scope",
         .type = choice<&Plan::scope>(
             scope_names, {{Scope::Layer, "Nothing overlaps."},
                           {Scope::Moe, "Dispatch, expert computation and combine overlap, chunk by chunk."},
                           {Scope::Block,
                            "Attention is cut into chunks too: chunks of tokens, each with its share of the capacity."},
                           {Scope::Batch,
                            "The forward pass of a micro-batch runs beside the backward pass of another (Megatron-LM's "
                            "overlap of expert parallelism, DeepSeek's DualPipe)."}}),
         .group = Arrangement,
         .search = Together,
         .searched_as = "scopes",
         .holds_rows = true,
         .help = "The scope says what may overlap."},
    Knob{.name = "pair_order",
         .type = choice<&Plan::pair_order>(
             pair_order_names,
             {{PairOrder::Alternate,
               "Forward attention, backward experts, forward experts, backward attention (Megatron-LM, DualPipe)."},
              {PairOrder::AttentionEarly,
               "Backward attention comes before the forward experts, which frees memory early (Megatron-LM's early "
               "attention release)."},
              {PairOrder::ExpertsFirst,
               "Backward experts, forward attention, backward attention, forward experts: each exchange runs beside "
               "the computation after the next one."}}),
         .group = Arrangement,
         .search = Kept,
         .holds_rows = true,
         .help = "With scope batch, a layer of each micro-batch takes turns with one of the other in this order."},
    Knob{
        .name = "delay_weight_gradient",
        .type = choice<&Plan::delay_weight_gradient>(
            delayed_weights_names,
            {{DelayedWeights::None, "Each op makes the gradients of its inputs and of its weights."},
             {DelayedWeights::Expert,
              "Those of the experts' weights are made while the gradients of their inputs are on their way back."},
             {DelayedWeights::All,
              "Those of attention's weights too, while the gradients for the experts of the layer before are on their "
              "way to them, and in a stage's first layer after what the stage before waits for."},
             {DelayedWeights::Fill, "They fill the times for which computation would wait, by their costs (Lancet)."}}),
        .group = Arrangement,
        .search = Kept,
        .holds_rows = true,
        .help = "Gradients of weights may be made later than those of inputs, which others wait for."},
    Knob{.name = "split",
         .type = choice<&Plan::split>(split_names,
                                      {{Split::Capacity, "A chunk takes some rows of every expert."},
                                       {Split::Peers, "A chunk takes all rows of a group of ranks (FasterMoE)."}}),
         .group = Arrangement,
         .search = Together,
         .searched_as = "splits",
         .holds_rows = true,
         .help = "The split says what a chunk takes."},
    Knob{.name = "peer_group",
         .type = CountKnob{&Plan::peer_group, 1, most_ranks},
         .group = Arrangement,
         .search = Together,
         .holds_rows = false,
         .help = "With split peers, so many ranks form a group. There are as many chunks as groups, and the degrees "
                 "stay 1."},
    Knob{.name = "order",
         .type = choice<&Plan::order>(
             order_names, {{Order::DispatchFirst, "All chunks are sent before any of them comes back."},
                           {Order::Alternate, "One chunk is sent ahead; then a chunk comes back for each one sent."},
                           {Order::ReadyFirst, "The chunk that is ready first, by the modelled costs, goes first."}}),
         .group = Arrangement,
         .search = Alone,
         .searched_as = "orders",
         .holds_rows = false,
         .help = "The order is that of chunks on a communication stream."},
    Knob{.name = "comm_streams",
         .type = choice<&Plan::comm_streams>(
             comm_streams_names,
             {{CommStreams::One, "All communication is on one stream."},
              {CommStreams::InterIntra,
               "All-to-alls and all-reduces are on one stream, gathers and scatters inside a node on another (FSMoE)."},
              {CommStreams::DispatchCombine, "Dispatch and combine have a communicator each (MPipeMoE)."},
              {CommStreams::MpApart,
               "Model-parallel collectives outside the experts are on a stream of their own, so that gradients can be "
               "reduced beside them; all else is on one (the baselines of FSMoE)."},
              {CommStreams::ByGroup,
               "Each kind of group has a communicator: exchanges of the experts, model-parallel collectives outside "
               "them, gradients and weights of the dense part, and those of the experts (Megatron-LM)."}}),
         .group = Arrangement,
         .search = Together,
         .searched_as = "streams",
         .holds_rows = false,
         .help = "Communication runs on one stream or on several, which share the links."},
    Knob{.name = "all_to_all",
         .type = choice<&Plan::all_to_all>(
             all_to_all_names,
             {{AllToAll::Linear, "Every rank sends a message to every other rank."},
              {AllToAll::NaiveLocal, "Ranks of a node swap blocks first, in many short messages (Tutel)."},
              {AllToAll::Hierarchical1d, "One leader of each node sends for the whole node (Hetu)."},
              {AllToAll::TwoDimensional, "As naive_local, but blocks are first copied next to each other (Tutel 2DH)."},
              {AllToAll::NodeDeduplicated,
               "A token is sent to a node once, and there to each rank once, however many of their experts it has "
               "chosen; the results are summed on their way back (DeepEP)."}}),
         .group = Volumes,
         .search = Together,
         .searched_as = "all-to-alls",
         .holds_rows = false,
         .help = "The algorithm takes rows to the ranks of their experts and back."},
    Knob{.name = "all_to_all_levels",
         .type = CountsKnob{&Plan::all_to_all_levels, 1, most_ranks},
         .group = Volumes,
         .search = Together,
         .holds_rows = false,
         .help =
             "These are the sizes of the levels of an all-to-all in steps, innermost first. With an empty list they "
             "are ranks per node and nodes; hierarchical_1d has leaders of the first level only."},
    Knob{.name = "all_to_all_implementation",
         .type = choice<&Plan::all_to_all_implementation>(
             all_to_all_implementation_names,
             {{AllToAllImplementation::PointToPoint, "Its steps are operations one after another."},
              {AllToAllImplementation::Fused, "Its steps are one kernel without barriers inside."}}),
         .group = Volumes,
         .search = Together,
         .holds_rows = false,
         .help = "An all-to-all in steps is one operation or several."},
    Knob{.name = "comm_sms",
         .type = CountKnob{&Plan::comm_sms, 0, 1024},
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "These are the multiprocessors that the kernels of a node_deduplicated all-to-all run on; products "
                 "beside communication have the others. With 0 the kernels have 20, as DeepEP's, and products keep "
                 "the speed that the calibration says."},
    Knob{.name = "protocol",
         .type = choice<&Plan::protocol>(protocol_names,
                                         {{Protocol::Simple, "Large messages are fast."},
                                          {Protocol::LowLatency, "Small messages are fast."},
                                          {Protocol::BySize, "Each operation takes whichever costs less."}}),
         .group = Volumes,
         .search = Together,
         .holds_rows = false,
         .help = "Messages are sent by this protocol."},
    Knob{.name = "pad_messages",
         .type = FlagKnob{&Plan::pad_messages},
         .group = Volumes,
         .search = Kept,
         .holds_rows = true,
         .help =
             "Messages have room for the whole capacity and experts compute all of it, where workload.message_sizes "
             "routed would let them be as large as what is chosen. No token is dropped by it."},
    Knob{.name = "dispatch_wire",
         .type = choice<&Plan::dispatch_wire>(wire_names, said_of_wires),
         .group = Numerics,
         .search = Kept,
         .holds_rows = false,
         .help = "Dispatched rows, and (but for node_deduplicated) their gradients on the way back, are sent in this "
                 "number format unless the "
                 "activations are as small."},
    Knob{.name = "combine_wire",
         .type = choice<&Plan::combine_wire>(wire_names, said_of_wires),
         .group = Numerics,
         .search = Kept,
         .holds_rows = false,
         .help = "Combined rows, and their gradients on the way back, are sent in this number format unless the "
                 "activations are as small."},
    Knob{.name = "encoding",
         .type = choice<&Plan::encoding>(
             encoding_names, {{Encoding::Sparse, "They are copied there (Tutel)."},
                              {Encoding::Dense, "They are multiplied with masks of ones and zeros (GShard)."}}),
         .group = Volumes,
         .search = Alone,
         .searched_as = "encodings",
         .holds_rows = true,
         .help = "Tokens get to the rows of their experts in one of two ways."},
    Knob{
        .name = "scores_at",
        .type = choice<&Plan::scores_at>(
            scores_at_names, {{ScoresAt::Decode,
                               "Rows that come back are multiplied when they are added up, and kept for the gradient."},
                              {ScoresAt::Experts,
                               "Scores are sent after the rows, in an exchange of their own, and multiply the "
                               "activated rows; rows that come back are not kept (Megatron-LM)."}}),
        .group = Volumes,
        .search = Kept,
        .holds_rows = true,
        .help = "This says which operation multiplies rows by the scores of the gate."},
    Knob{.name = "grad_sync",
         .type = choice<&Plan::grad_sync>(
             grad_sync_names,
             {{GradSync::After, "They are reduced after the backward pass."},
              {GradSync::WithDense, "They are reduced beside the parts outside the experts of earlier layers."},
              {GradSync::FixedChunks, "They are reduced in chunks of fixed size, as soon as these exist (Lina)."},
              {GradSync::Partitioned, "They are reduced in slices that a planner chooses (FSMoE)."}}),
         .group = Gradients,
         .search = Together,
         .searched_as = "gradient slices",
         .holds_rows = false,
         .help = "The dense gradients are reduced at this time. Those of replicated experts are reduced beside the "
                 "attention of their layer with with_dense and fixed_chunks, and after the backward pass otherwise."},
    Knob{.name = "gradient_chunk_bytes",
         .type = BytesKnob{&Plan::gradient_chunk_bytes},
         .group = Gradients,
         .search = Kept,
         .holds_rows = false,
         .help = "With grad_sync fixed_chunks, a chunk has so many bytes."},
    Knob{.name = "gradient_slices",
         .type = SlicesKnob{&Plan::gradient_slices},
         .group = Gradients,
         .search = Together,
         .holds_rows = false,
         .help = "With grad_sync partitioned, these are the slices in backward order. They add up to all dense "
                 "gradients."},
    Knob{.name = "restore",
         .type = choice<&Plan::restore>(
             restore_names, {{Restore::Keep, "They are kept on the device."},
                             {Restore::S1, "Both come back from the host's memory."},
                             {Restore::S2, "Inputs are sent again; hidden rows come back from the host's memory."},
                             {Restore::S3, "Inputs come back from the host's memory; hidden rows are computed again."},
                             {Restore::S4, "Inputs are sent again; hidden rows are computed again."}}),
         .group = Memory,
         .search = Together,
         .searched_as = "restoring",
         .holds_rows = true,
         .help = "The backward pass gets the inputs and hidden rows of the experts in this way (MPipeMoE table II)."},
    Knob{.name = "buffers",
         .type = choice<&Plan::buffers>(
             buffers_names, {{Buffers::PerChunk, "Every chunk has its own memory."},
                             {Buffers::Single, "All chunks share the memory of one chunk."},
                             {Buffers::Double, "All chunks share the memory of two chunks (hidden rows: of one)."},
                             {Buffers::DoubleHidden, "All chunks share the memory of two chunks, hidden rows too."}}),
         .group = Memory,
         .search = Together,
         .holds_rows = true,
         .help = "Rows of chunks have memory of their own, or take over that of earlier chunks."},
    Knob{.name = "expert_sharding",
         .type = choice<&Plan::expert_sharding>(
             expert_sharding_names,
             {{ExpertSharding::Ep, "Each shard of an expert stays on its rank, and ranks gather the rows."},
              {ExpertSharding::EpDp, "Ranks gather the shards of the weights (Tutel's P1)."},
              {ExpertSharding::EpMp, "Tokens are repeated to the shards (Tutel's P2)."}}),
         .group = Volumes,
         .search = Together,
         .searched_as = "shardings",
         .holds_rows = true,
         .help = "Where several ranks share an expert (esp above 1), its rows and its weights meet in this way."},
    Knob{.name = "sharding_repeats",
         .type = CountKnob{&Plan::sharding_repeats, 0, most_ranks},
         .group = Volumes,
         .search = Together,
         .holds_rows = true,
         .help = "With expert_sharding ep_mp, tokens are repeated to so many shards of an expert, a divisor of esp; "
                 "weights are gathered within the others. 0 stands for all shards."},
    Knob{.name = "shadowed_experts",
         .type = CountsKnob{&Plan::shadowed_experts, 0, most_ranks},
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "These experts are broadcast to all ranks in each step, in ascending order (FasterMoE)."},
    Knob{.name = "layout",
         .type = choice<&Plan::layout>(layout_names,
                                       {{Layout::ExpertMajor, "Each expert has one matrix product for all its rows."},
                                        {Layout::RankMajor, "Each expert has one for the rows of each rank."}}),
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "The layout is the order of the dispatched rows."},
    Knob{.name = "row_tile",
         .type = CountKnob{&Plan::row_tile, 0, most_ranks},
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "The rows of each matrix product of experts are rounded up to a multiple of it. With 0 they are not."},
    Knob{.name = "expert_kernel",
         .type = choice<&Plan::expert_kernel>(
             expert_kernel_names, {{ExpertKernel::Batched, "All experts are computed with equally many rows."},
                                   {ExpertKernel::Grouped,
                                    "Each expert is computed with its own rows, as one product "
                                    "(dropless training). Where messages are padded, all experts have equally many."}}),
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "The kernel of the experts pads their rows or does not."},
    Knob{.name = "shared_experts",
         .type = choice<&Plan::shared_experts>(
             shared_experts_names,
             {{SharedExperts::Serial, "They run after the other experts."},
              {SharedExperts::Overlapped, "They run while the rows of the others are on their way."}}),
         .group = Arrangement,
         .search = Kept,
         .holds_rows = false,
         .help = "Shared experts run at this time."},
    Knob{.name = "host_sync",
         .type = FlagKnob{&Plan::host_sync},
         .group = Arrangement,
         .search = Kept,
         .holds_rows = false,
         .help = "The host waits before and after the experts of a layer (AMPipe's published code). Each wait costs a "
                 "launch: the GEMM alpha of the calibration, or the host's time where it gives one."},
    Knob{.name = "one_connection",
         .type = FlagKnob{&Plan::one_connection},
         .group = Arrangement,
         .search = Kept,
         .holds_rows = false,
         .help = "The device takes the kernels of all streams from one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1): "
                 "none begins before those have begun that were issued before it."},
    Knob{.name = "graphs",
         .type = choice<&Plan::graphs>(
             graphs_names, {{Graphs::None, "Every kernel is launched by itself."},
                            {Graphs::Attention, "Attention is captured."},
                            {Graphs::Router, "Attention is captured, and the gate with it."},
                            {Graphs::All, "The whole step is captured, which needs the same sizes in each step."}}),
         .group = Arrangement,
         .search = Kept,
         .holds_rows = false,
         .help = "Operations that follow one another in captured graphs (CUDA graphs) cost the host one launch in all. "
                 "It matters where the calibration gives the host's time; searches leave it alone, because all would "
                 "never be slower."},
    Knob{.name = "pipeline_schedule",
         .type = choice_of<&Plan::pipeline_schedule, PipelineSchedule, named_programs.size()>(pipeline_schedule_names,
                                                                                              said_of_programs),
         .group = Pipeline,
         .search = Together,
         .holds_rows = true,
         .help = "Micro-batches go through the pipeline stages (parallelism.pp) in this order."},
    Knob{.name = "program",
         .type = ProgramKnob{&Plan::program},
         .group = Pipeline,
         .search = Kept,
         .holds_rows = true,
         .help = "With pipeline_schedule listed, the order of units on each pipeline rank, in a line for each: a list "
                 "of lines, or the path of a file that has them. A unit is its stage, F, B, I or W, and its "
                 "micro-batch, such as 0F3; (1F4;2B0) are two beside each other, and commas or blanks lie between "
                 "slots, as in the files that PyTorch writes of its pipeline schedules. I and W are the gradients of "
                 "inputs and of weights, B is both."},
    Knob{.name = "virtual_stages",
         .type = CountKnob{&Plan::virtual_stages, 1, most_stages},
         .group = Pipeline,
         .search = Kept,
         .holds_rows = true,
         .help = "With pipeline_schedule interleaved, each rank has so many pipeline stages, at least 2: micro-batches "
                 "pass all ranks so often, in groups of as many as there are ranks in the pipeline. With zb_v, "
                 "dualpipe_v and dualpipe there are 2."},
    Knob{.name = "micro_batches",
         .type = CountKnob{&Plan::micro_batches, 1, most_micro_batches},
         .group = Pipeline,
         .search = Together,
         .holds_rows = true,
         .help = "The batch is cut into so many equal parts, which go through the pipeline stages one after another."},
    Knob{.name = "recompute",
         .type = set_of<&Plan::recompute>(
             recompute_names,
             {{Recompute::Full, "Each layer keeps its input alone and runs its whole forward pass again."},
              {Recompute::Attention, "The heads' sums and softmax statistics are made from the projections."},
              {Recompute::UpProjections, "Queries, keys and values of latent attention are made from its low ranks."},
              {Recompute::MpGather,
               "Tokens that the mp ranks have gathered are gathered again, and each rank keeps its own (as "
               "Megatron-LM's "
               "sequence parallelism does without being asked)."},
              {Recompute::Norms, "The results of norms are, where the workload has norms."},
              {Recompute::Activation, "The activated hidden rows of gated experts and feed-forward parts are."},
              {Recompute::DenseFfn, "The feed-forward parts of dense layers run again."},
              {Recompute::SharedExperts, "Shared experts run again."},
              {Recompute::Moe, "Gate, exchanges and experts, shared ones too, run again."}}),
         .group = Memory,
         .search = Kept,
         .holds_rows = true,
         .help = "These parts of each layer are computed again in the backward pass, right before they are needed, "
                 "instead of being kept (Megatron-LM's recompute_granularity and recompute_modules)."},
    Knob{.name = "zero",
         .type = CountKnob{&Plan::zero, 0, 1},
         .group = Volumes,
         .search = Kept,
         .holds_rows = false,
         .help = "This is the ZeRO stage. With 1 the ranks that have the same weights share the optimizer's work: "
                 "gradients are reduce-scattered, each rank updates its shard of the weights and keeps the states of "
                 "that shard alone, and updated weights are gathered."},
    Knob{.name = "parameter_gather",
         .type = choice<&Plan::parameter_gather>(
             parameter_gather_names, {{ParameterGather::AfterUpdate, "They are gathered when all are updated."},
                                      {ParameterGather::Ahead,
                                       "The next step gathers those of a layer beside the forward pass of the layer "
                                       "before it."}}),
         .group = Gradients,
         .search = Kept,
         .holds_rows = false,
         .help = "With zero 1, weights that other ranks have updated are gathered at this time."},
};

// How many members Plan has, counted by the compiler.
struct AnyMember {
  template <class T>
  operator T() const;
};
template <class T, class... Members>
constexpr std::size_t members_of() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; })
    return members_of<T, Members..., AnyMember>();
  else
    return sizeof...(Members);
}
static_assert(table.size() == members_of<Plan>(), "each member of Plan needs its entry in this table, and no other");

}  // namespace

std::span<const Knob> knobs() {
  return table;
}

}  // namespace dovetail
