// SPDX-License-Identifier: Apache-2.0
#include "models/price/calibration_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "models/base/names.hpp"
#include "models/question/peak_fields.hpp"

namespace dovetail {
namespace {

constexpr auto of_collectives =
    "n of beta is, in bytes: `all_to_all`: sent per rank, its own part included; `all_gather`: the gathered buffer; "
    "`reduce_scatter`: the buffer before scattering; `all_reduce`, `broadcast`, `reduce`: the buffer; `send`: the "
    "message "
    "between pipeline stages. Without `broadcast`, `reduce` or `send` these are assumed to cost as `all_gather`, "
    "`reduce_scatter` or `all_to_all` of as many bytes.";

// Kernels of trainings that are priced by others.
constexpr Names<KernelKind, 4> training_kernels{{{"weight_gradient", KernelKind::WeightGradient},
                                                 {"attention_backward", KernelKind::AttentionBackward},
                                                 {"experts", KernelKind::Experts},
                                                 {"expert_gradients", KernelKind::ExpertGradients}}};

template <class Cost>
Field provenance() {
  return field::part<&Cost::provenance>("provenance", "Where the numbers come from.").must();
}

template <class Cost>
Field outside() {
  return field::part<&Cost::outside>("outside",
                                     "What a fit to few sizes does not tell, of another calibration. It goes with "
                                     "`provenance.fit`.")
      .else_taken("as of all sizes")
      .template written_where<Cost>([](const Cost& cost) { return cost.outside.alpha || cost.outside.beta; });
}

template <class Cost>
Field alpha(std::string_view help) {
  return field::quantity<&Cost::alpha>("alpha", help, /*positive=*/false).must();
}

template <class PerUnit>
FieldTable outside_fields(std::string_view unit) {
  return FieldTable::of<Outside<PerUnit>>(
      "Outside", "What a fit to few sizes does not tell, of another calibration.",
      {
          field::quantity<&Outside<PerUnit>::alpha>("alpha",
                                                    "The time to which that of sizes below the smallest falls.",
                                                    /*positive=*/false)
              .else_taken("alpha of the fit"),
          field::quantity<&Outside<PerUnit>::beta>("beta",
                                                   fmt::format("Time for each {} beyond the largest size.", unit))
              .else_taken("beta of the fit"),
      });
}

// The third kind of an entry of interference, and its speed.
Field third_kind() {
  Field field =
      field::described("c", field::choice_of(interference_class_names),
                       "A third kind: the speeds hold while all three run, and add up to at least what two of "
                       "them keep beside each other.")
          .else_taken("none");
  field.get = [](const void* owner) -> FieldValue {
    const auto& c = static_cast<const Interference*>(owner)->c;
    return c ? FieldValue(std::string(name_in(interference_class_names, c->kind))) : FieldValue();
  };
  field.set = [](void* owner, const FieldValue& value) {
    auto& c = static_cast<Interference*>(owner)->c;
    c = KeptSpeed{field::value_named<InterferenceClass>(interference_class_names, value), c ? c->speed : 1};
  };
  return field;
}

Field third_speed(NumberField share) {
  Field field = field::described("c_speed", share, "Share of its own speed that c keeps.")
                    .in("ratio")
                    .else_taken("none")
                    .where<Interference>([](const Interference& entry) { return entry.c.has_value(); },
                                         "given, but no third kind \"c\"");
  field.required = true;
  field.get = [](const void* owner) -> FieldValue {
    const auto& c = static_cast<const Interference*>(owner)->c;
    return c ? FieldValue(c->speed) : FieldValue();
  };
  field.set = [](void* owner, const FieldValue& value) {
    auto& c = static_cast<Interference*>(owner)->c;
    if (c) c->speed = std::get<double>(value);
  };
  return field;
}

}  // namespace

template <>
const FieldTable& fields_of<Outside<SecondsPerByte>>() {
  static const FieldTable table = outside_fields<SecondsPerByte>("byte");
  return table;
}

template <>
const FieldTable& fields_of<Outside<SecondsPerFlop>>() {
  static const FieldTable table = outside_fields<SecondsPerFlop>("flop");
  return table;
}

template <>
const FieldTable& fields_of<Hardware>() {
  static const FieldTable table = FieldTable::of<Hardware>(
      "Hardware", "The rates of the hardware that the costs were made on.",
      {
          field::inside<Hardware>("peak", peak_fields<Hardware>, "Datasheet rates, which bound products and attention.")
              .must(),
          field::quantity<&Hardware::memory_bandwidth>("memory_bandwidth", "Bounds kernels of device memory.").must(),
          field::quantity<&Hardware::node_bandwidth>("node_bandwidth",
                                                     "Of a GPU and direction; bounds links inside a node.")
              .must(),
          field::quantity<&Hardware::card_share>("nic_bandwidth_per_gpu",
                                                 "A GPU's share of the network cards of its node, in one direction; "
                                                 "bounds links between nodes.")
              .must(),
      });
  return table;
}

template <>
const FieldTable& fields_of<Latency>() {
  static const FieldTable table = FieldTable::of<Latency>(
      "Latency", "What a group adds to alpha, by its messages that wait for each other.",
      {
          field::choice<&Latency::hops>(
              "hops", hops_names,
              "With r ranks on n nodes. `ring`: inside (r - n) + between (n - 1). `tree`: inside "
              "(r / n - 1) + between log2(n). `direct`: inside (r / n - 1) + between (r - r / n). "
              "A send takes one message.")
              .must(),
          field::quantity<&Latency::inside>("inside", "Of a message to the same node.", /*positive=*/false).must(),
          field::quantity<&Latency::between>("between", "Of a message to another node.", /*positive=*/false).must(),
      });
  return table;
}

template <>
const FieldTable& fields_of<CollectiveCost>() {
  static const FieldTable table = FieldTable::of<CollectiveCost>(
      "Collective", "The cost of one collective on one kind of link.",
      {
          field::choice<&CollectiveCost::collective>("collective", std::span(collective_names).subspan(1),
                                                     of_collectives)
              .must(),
          field::choice<&CollectiveCost::link>("link", link_kind_names,
                                               "Links inside a node (`intra`), or the network between nodes (`inter`).")
              .must(),
          field::whole<&CollectiveCost::gpus>("gpus", 2, 1'000'000'000,
                                              "GPUs on the nodes that the group spans, when measured (with "
                                              "`members_per_node`: the members of the group). "
                                              "Costs in between are interpolated.")
              .else_taken("any number; with `members_per_node` the limit of many nodes")
              .unless_usual(),
          field::whole<&CollectiveCost::members_per_node>(
              "members_per_node", 1, 1'000'000,
              "For a cost between nodes: how many members of the group were on each node when it was measured. Other "
              "groups are priced by the bytes that pass a GPU's network cards.")
              .else_taken("the cost holds wherever a group lies")
              .unless_usual(),
          alpha<CollectiveCost>("Time of an empty message."),
          field::part<&CollectiveCost::latency>(
              "latency",
              "What a group adds to alpha, by its messages that wait for each other. Not "
              "beside `gpus`, whose alpha is that of the group.")
              .else_taken("alpha holds for every group"),
          field::quantity<&CollectiveCost::beta>("beta", "Time for each byte of n.", /*positive=*/false).must(),
          outside<CollectiveCost>(),
          provenance<CollectiveCost>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<GemmCost>() {
  static const FieldTable table = FieldTable::of<GemmCost>(
      "Products", "Matrix multiplication in one number format.",
      {
          field::choice<&GemmCost::dtype>(
              "dtype", dtype_names,
              "Number format. A product in fp8 takes its left factor in the workload's format "
              "and casts it; the right one is fp8 already.")
              .must(),
          alpha<GemmCost>("Time of a launch."),
          field::quantity<&GemmCost::beta>("beta", "Time for each operation, two to a multiply-add.").must(),
          outside<GemmCost>(),
          provenance<GemmCost>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<TrainingKernel>() {
  static const FieldTable table = FieldTable::of<TrainingKernel>(
      "Kernel of training", "A kernel of trainings that nobody measured by itself on this device.",
      {
          field::choice<&TrainingKernel::kernel>("kernel", training_kernels,
                                                 "`weight_gradient`: by gemm. `attention_backward`: by the rate of "
                                                 "attention, at 2.5 times its work. `experts` "
                                                 "and `expert_gradients`: by experts or grouped products.")
              .must(),
          field::number<&TrainingKernel::times>("times", {.least = 1, .most = 100},
                                                "How many times as long as the kernel that does as much.")
              .must()
              .in("ratio"),
          provenance<TrainingKernel>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<SustainedRate>() {
  static const FieldTable table = FieldTable::of<SustainedRate>(
      "Sustained", "The rate of products of one format that the device keeps up while a training runs.",
      {
          field::choice<&SustainedRate::dtype>("dtype", dtype_names, "The number format.").must(),
          field::quantity<&SustainedRate::burst>("burst",
                                                 "Of large products in short measurements, as tables have them.")
              .must(),
          field::quantity<&SustainedRate::rate>("rate", "The rate that it keeps up.").must(),
          field::flag<&SustainedRate::always>("always",
                                              "Whether it holds for steps that do not last too, because the library is "
                                              "slower than that of the tables.")
              .unless_usual(),
          provenance<SustainedRate>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<MemoryCost>() {
  static const FieldTable table = FieldTable::of<MemoryCost>(
      "Memory", "The time of n bytes.",
      {
          alpha<MemoryCost>("Time of a launch."),
          field::quantity<&MemoryCost::beta>("beta", "Time for each byte of n.", /*positive=*/false).must(),
          outside<MemoryCost>(),
          provenance<MemoryCost>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<CacheRate>() {
  static const FieldTable table = FieldTable::of<CacheRate>(
      "Cache", "The L2 cache that all multiprocessors share.",
      {
          field::quantity<&CacheRate::bandwidth>("bandwidth", "To all multiprocessors together.").must(),
          provenance<CacheRate>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<MessageCost>() {
  static const FieldTable table = FieldTable::of<MessageCost>(
      "Messages", "All-to-alls by their messages, on one kind of link in one protocol.",
      {
          field::choice<&MessageCost::link>("link", link_kind_names,
                                            "Links inside a node (`intra`), or the network between nodes (`inter`).")
              .must(),
          field::choice<&MessageCost::protocol>(
              "protocol", std::span(protocol_names).first(2),
              "How messages are sent. `low_latency`: sooner there, at a lower bandwidth."),
          field::quantity<&MessageCost::per_message>("per_message", "Time of an empty message to the only peer.",
                                                     /*positive=*/false)
              .must(),
          field::quantity<&MessageCost::bandwidth>("bandwidth",
                                                   "Of a GPU in one direction, while all GPUs of its node send.")
              .must(),
          provenance<MessageCost>(),
          field::number<&MessageCost::connections>("connections", {.least = 1},
                                                   "Peers at which a message costs twice that.")
              .else_taken("any number")
              .unless_usual(),
          field::quantity<&MessageCost::peer_bandwidth>("peer_bandwidth", "Of the connection to one peer.")
              .else_taken("as bandwidth")
              .unless_usual(),
      });
  return table;
}

template <>
const FieldTable& fields_of<WorkRates>() {
  static const FieldTable table = FieldTable::of<WorkRates>(
      "Rates", "Time by what kernels do, whatever gemms, tables and memory say.",
      {
          field::quantity<&WorkRates::products>("products", "Of matrix products.", /*positive=*/false).must(),
          field::quantity<&WorkRates::attention>("attention", "Of attention.", /*positive=*/false).must(),
          field::quantity<&WorkRates::outputs>("outputs", "Of what products write.", /*positive=*/false).must(),
          field::quantity<&WorkRates::memory>("memory", "Of what other kernels read and write.", /*positive=*/false)
              .must(),
      });
  return table;
}

template <>
const FieldTable& fields_of<KernelCost>() {
  const auto by_factor = [](const KernelCost& cost) { return !cost.rates; };
  static const FieldTable table = FieldTable::of<KernelCost>(
      "Kernels of an op", "Kernels of one kind of op, measured by themselves.",
      {
          field::choice<&KernelCost::op>("op", op_kind_names,
                                         "Kind of op, as in a timeline (`models/schedule/operands.md`).")
              .must(),
          field::choice<&KernelCost::phase>("phase", phase_names, "Pass.").must(),
          alpha<KernelCost>("Time of the launches."),
          field::part<&KernelCost::rates>("rates",
                                          "Time by what the kernels do, whatever gemms, tables and memory say.")
              .else_taken("`factor`"),
          field::number<&KernelCost::factor>("factor", {.least = 0, .most = 1e6},
                                             "By how much longer its work takes than gemms and memory say.")
              .must()
              .in("ratio")
              .where<KernelCost>(by_factor, "beside rates, expected one of both"),
          provenance<KernelCost>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<Interference>() {
  constexpr NumberField share{.least = 0, .most = 1, .above = true};
  static const FieldTable table = FieldTable::of<Interference>(
      "Interference",
      "How much operations of two kinds slow each other while both run, or those of three while all run.",
      {
          field::choice<&Interference::a>(
              "a", interference_class_names,
              "One kind: kernels (`compute`), traffic between nodes (`inter`), traffic inside a "
              "node (`intra`), copies to the host (`copy`).")
              .must(),
          field::choice<&Interference::b>("b", interference_class_names, "The other kind.").must(),
          field::number<&Interference::a_speed>("a_speed", share, "Share of its own speed that a keeps beside b.")
              .must()
              .in("ratio"),
          field::number<&Interference::b_speed>(
              "b_speed", share, "Share of its own speed that b keeps beside a; with a_speed at least 1.")
              .must()
              .in("ratio"),
          third_kind(),
          third_speed(share),
          field::choice<&Interference::all_to_all>(
              "all_to_all", all_to_all_names,
              "The entry is of all-to-alls of this algorithm, and takes the place of "
              "the entry that holds for all.")
              .else_taken("all"),
          field::choice<&Interference::messages>(
              "messages", std::span(protocol_names).first(2),
              "The entry is of all-to-alls with these messages, and takes the place of "
              "the entry that holds for all.")
              .else_taken("all"),
          provenance<Interference>(),
      });
  return table;
}

template <>
const FieldTable& fields_of<HostCost>() {
  static const FieldTable table = FieldTable::of<HostCost>(
      "Host", "The host of an eager framework, which launches kernels one by one.",
      {
          field::quantity<&HostCost::launch>(
              "launch", "Time to launch one kernel. A framework's own work for its ops comes on top.",
              /*positive=*/false)
              .must(),
          field::number<&HostCost::pace>(
              "pace", {.least = 1e-3, .most = 1e3},
              "How long a framework's work takes on this host, by its time on the processor of "
              "its profile.")
              .in("ratio"),
          provenance<HostCost>(),
      });
  return table;
}

namespace {

std::vector<Field> costs_of_exchanges_and_products() {
  return {
      field::text<&Calibration::name>("name", {}, "Shown in reports; of a shipped file, its file name.").must(),
      field::text<&Calibration::source>("source", {.may_be_empty = true}, "Where the numbers come from as a whole."),
      field::part<&Calibration::hardware>("hardware",
                                          "The rates of the hardware that the costs were made on, as in a cluster. On "
                                          "other hardware each beta is divided "
                                          "by the ratio of the rates that bound it. Alphas stay. Rates changed by "
                                          "`calibration.…=` stay as set; all others "
                                          "follow, those of the same entry too.")
          .only_in(FieldPlace::Inputs)
          .else_taken("not known: nothing is adapted"),
      field::described("measurement", OtherField{"#/definitions/measurement", "object"},
                       "How the file was measured, as in the provenance of results; costs do not depend on it.")
          .only_in(FieldPlace::Inputs)
          .else_taken("not told"),
      field::parts<&Calibration::collectives>(
          "collectives", "One entry for each collective, kind of link and (where it matters) number of GPUs.")
          .must(),
      field::parts<&Calibration::gemms>("gemms", "Matrix multiplication, one entry for each number format.", 1).must(),
      field::part<&Calibration::memory>(
          "memory", "Kernels bound by device memory (encode, decode, optimizer); n is the bytes read plus written.")
          .must(),
      field::parts<&Calibration::interference>("interference", "Kinds without an entry do not slow each other."),
      field::part<&Calibration::host>("host", "The host of an eager framework, which launches kernels one by one.")
          .else_taken("launches take it no time, or are part of the other costs"),
  };
}

std::vector<Field> other_costs() {
  return {
      field::part<&Calibration::strided_copy>(
          "strided_copy",
          "Copies of many short pieces (between the exchanges of an all-to-all); n is the bytes read plus written.")
          .else_taken("as memory"),
      field::part<&Calibration::l2_cache>(
          "l2_cache",
          "The L2 cache that all multiprocessors share. Right factors that products read "
          "again come from it if they fit (`device.l2_cache` of the cluster).")
          .else_taken("from memory each time"),
      field::described(
          "tables", OtherField{"#/definitions/tables", "kernel_tables.schema.json"},
          "Kernels by their shapes, one table for each kind and number format; see below. Kernels that no "
          "table knows take what `gemms` say of their flops. `dovetail calibrate --measurements` makes these.")
          .else_taken("none"),
      field::parts<&Calibration::training>("training",
                                           "Kernels of a training that nobody measured by themselves on this device.")
          .only_in(FieldPlace::Inputs),
      field::parts<&Calibration::sustained>(
          "sustained",
          "Rates of products that the device keeps up while a training runs, below those of short measurements.")
          .only_in(FieldPlace::Inputs),
      field::parts<&Calibration::messages>(
          "messages",
          "All-to-alls by their messages, in place of alpha and beta: m messages to p peers, n bytes in all, take m * "
          "per_message * (1 + p / connections) + max(n / bandwidth, n / p / peer_bandwidth). One entry for each kind "
          "of "
          "link and protocol.")
          .written_where<Calibration>([](const Calibration& c) { return !c.messages.empty(); }),
      field::parts<&Calibration::kernels>(
          "kernels",
          "Kernels of kinds of op measured by themselves: alpha, and factor times what "
          "gemms and memory say of their work. Kinds without an entry take what those say.")
          .written_where<Calibration>([](const Calibration& c) { return !c.kernels.empty(); }),
      field::part<&Calibration::copy>("copy",
                                      "Copies between device memory and pinned host memory, in one direction; n is the "
                                      "bytes copied. Only plans that offload need it.")
          .else_taken("not known"),
  };
}

}  // namespace

template <>
const FieldTable& fields_of<Calibration>() {
  static const FieldTable table = [] {
    std::vector<Field> fields = costs_of_exchanges_and_products();
    std::ranges::move(other_costs(), std::back_inserter(fields));
    return FieldTable::of<Calibration>(
        "Calibration", "Costs of operations on a cluster, t = alpha + n * beta, each with where it comes from.",
        std::move(fields));
  }();
  return table;
}

}  // namespace dovetail
