// SPDX-License-Identifier: Apache-2.0
#include "models/question/fields.hpp"

namespace dovetail {
namespace {

constexpr int most_ranks = 1'000'000'000;

template <auto Member>
Field group(std::string_view name, std::string_view help, std::string_view otherwise) {
  return field::whole<Member>(name, 1, most_ranks, help).in("ranks").else_taken(otherwise);
}

constexpr auto layout_help =
    "What each stage holds, as Megatron-LM writes it: in `Et*2|(tt|)*5t|tL`, E is the embedding, t a layer, L the "
    "output "
    "head, and | the border of two stages; `*n` repeats the item, or the group in parentheses, before it. There are "
    "`pp` "
    "stages, or `pp` x `plan.virtual_stages`; stage s + i pp belongs to the ranks of stage s. m is a layer of "
    "multi-token "
    "prediction, which is on the stage of the output head here. Each rank needs a layer.";

constexpr auto sequence_help =
    "Whether each rank of mp has a share of the tokens between the parts that these ranks share (norms, gates, "
    "exchanges "
    "of rows). `false`: all repeat that work on all tokens of the group, sums over mp are all-reduces in place of "
    "gathers "
    "and scatters, each rank dispatches all rows, and `esp` must equal `mp`. It is not built with multi-token "
    "prediction, "
    "routed messages, and sharding of experts other than `ep`.";

}  // namespace

template <>
const FieldTable& fields_of<Parallelism>() {
  static const FieldTable table = FieldTable::of<Parallelism>(
      "Parallelism", "Group sizes in ranks: pp dp mp = GPUs and pp edp ep esp = GPUs.",
      {
          group<&Parallelism::dp>("dp", "Replicas of the dense part.", "GPUs / (pp mp)"),
          group<&Parallelism::mp>("mp", "Ranks that share attention.", "as the cluster's `groups` say; a note says so"),
          group<&Parallelism::ep>("ep", "Ranks that exchange tokens.", "gcd(experts, GPUs / (pp esp))"),
          group<&Parallelism::esp>("esp", "Ranks that share one expert's hidden size.",
                                   "as the cluster's `groups` say; a note says so"),
          group<&Parallelism::pp>("pp", "Pipeline stages.", "1"),
          group<&Parallelism::edp>("edp", "Replicas of the experts.", "GPUs / (pp ep esp)"),
          field::flag<&Parallelism::sequence_parallel>("sequence_parallel", sequence_help)
              .else_taken("as the system does it, which for all but deepspeed_moe is `true`"),
          field::text<&Parallelism::pipeline_layout>("pipeline_layout", {}, layout_help)
              .else_taken("equal runs of layers")
              .unless_usual(),
          field::described(
              "cp", WholeField{1, most_ranks},
              "Ranks that divide the positions of each sample (context parallelism). Not built yet: more than 1 is "
              "refused.")
              .in("ranks")
              .only_in(FieldPlace::Inputs)
              .else_taken("1"),
          field::described(
              "count_per_node", WholeField{-most_ranks, most_experts},
              "Tutel's placement, instead of `ep`, `esp` and `edp`. x > 0: x experts on each GPU. x < 0: each "
              "expert split over -x GPUs. The model's number of experts follows from it.")
              .only_in(FieldPlace::Inputs)
              .else_taken("by the groups"),
      });
  return table;
}

template <>
const FieldTable& fields_of<SpeedEvent>() {
  static const FieldTable table = FieldTable::of<SpeedEvent>(
      "Event", "A resource that is slower for a while.",
      {
          field::quantity<&SpeedEvent::at>("at", "Since the start of the step.", /*positive=*/false).must(),
          field::quantity<&SpeedEvent::until>("until", "The end of it.", /*positive=*/false).else_taken("for good"),
          field::text<&SpeedEvent::resource>(
              "resource", {},
              "`compute`, `inter`, `intra` or `copy`; in a described network also a link (`nic "
              "up`) or `device memory`. It is meant on every rank, or with `#n`, as results list "
              "it, on one class of ranks.")
              .must(),
          field::number<&SpeedEvent::speed>("speed", {.least = least_speed, .most = 1},
                                            "The share of its own speed that it keeps.")
              .must()
              .in("share"),
      });
  return table;
}

}  // namespace dovetail
