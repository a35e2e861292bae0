// FSMoE's table 2: what each operation of one layer takes, forward and backward together.
#include <fmt/format.h>

#include <array>

#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::bench {
namespace {

// The ESP collectives swap in the backward pass: what was gathered is scattered.
struct Row {
  const char* name;
  bool (*covers)(const Op& op);
};
template <Collective collective>
bool for_experts(const Op& op) {
  return entry_of(op.kind).part == OpPart::Experts && op.collective() == collective;
}
template <OpKind kind>
bool is(const Op& op) {
  return op.kind == kind;
}
constexpr std::array rows{Row{"all-to-all", for_experts<Collective::AllToAll>},
                          Row{"all-gather", for_experts<Collective::AllGather>},
                          Row{"reduce-scatter", for_experts<Collective::ReduceScatter>},
                          Row{"experts", is<OpKind::Expert>},
                          Row{"all-reduce", is<OpKind::DenseGradientAllReduce>},
                          Row{"attention", is<OpKind::Attention>}};

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
