// FSMoE's table 2: what each operation of one layer takes, forward and backward together.
#include <fmt/format.h>

#include <array>

#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"

namespace dovetail::bench {
namespace {

// The ESP collectives swap in the backward pass: what was gathered is scattered.
struct Row {
  const char* name;
  std::array<OpKind, 2> kinds;
  Collective collective = Collective::None;  // None: any

  bool covers(const Op& op) const {
    return (op.kind == kinds[0] || op.kind == kinds[1]) &&
           (collective == Collective::None || op.collective() == collective);
  }
};
constexpr std::array rows{
    Row{"all-to-all", {OpKind::Dispatch, OpKind::Combine}},
    Row{"all-gather", {OpKind::EspAllGather, OpKind::EspReduceScatter}, Collective::AllGather},
    Row{"reduce-scatter", {OpKind::EspAllGather, OpKind::EspReduceScatter}, Collective::ReduceScatter},
    Row{"experts", {OpKind::Expert, OpKind::Expert}},
    Row{"all-reduce", {OpKind::DenseGradientAllReduce, OpKind::DenseGradientAllReduce}},
    Row{"attention", {OpKind::Attention, OpKind::Attention}}};

}  // namespace

Recomputed fsmoe_operations(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  for (const auto& [name, options] : settings.at("experiments").members()) {
    const Experiment e = read_experiment(options, files);
    const PricedSchedule priced = price_plan(e, Plan{});
    for (const Row& row : rows) {
      double milliseconds = 0;
      for (const OpId i : priced.duration.ids())
        if (row.covers(priced.schedule->ops[i])) milliseconds += 1e3 * priced.duration[i].value();
      result.values[fmt::format("{}: {}", name, row.name)] = milliseconds;
    }
  }
  return result;
}

}  // namespace dovetail::bench
