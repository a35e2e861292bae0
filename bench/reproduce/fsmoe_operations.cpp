// SPDX-License-Identifier: Apache-2.0
// FSMoE's table 2: what each operation of one layer takes, in each pass.
#include <fmt/format.h>

#include <array>

#include "bench/reproduce/tables.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::bench {
namespace {

// Gathers and scatters count by what they do, those of experts and those of model parallelism together: in the
// backward pass they swap.
struct Row {
  const char* name;
  bool (*covers)(const Op& op);
};
template <Collective collective>
bool moves_by(const Op& op) {
  return op.collective() == collective;
}
template <OpKind... kinds>
bool is(const Op& op) {
  return ((op.kind == kinds) || ...);
}
constexpr std::array rows{Row{"all-to-all", moves_by<Collective::AllToAll>},
                          Row{"all-reduce", is<OpKind::DenseGradientAllReduce>},
                          Row{"all-gather", moves_by<Collective::AllGather>},
                          Row{"reduce-scatter", moves_by<Collective::ReduceScatter>},
                          Row{"experts", is<OpKind::Expert>},
                          Row{"routing", is<OpKind::Gate>},
                          Row{"order", is<OpKind::Encode, OpKind::Decode>},
                          Row{"attention", is<OpKind::Attention>}};

double milliseconds_of(const PricedSchedule& priced, const Row& row, Phase phase) {
  double milliseconds = 0;
  for (const OpId i : priced.duration.ids()) {
    const Op& op = priced.schedule->ops[i];
    if (op.phase == phase && row.covers(op)) milliseconds += 1e3 * priced.duration[i].value();
  }
  return milliseconds;
}

}  // namespace

Recomputed fsmoe_operations(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  for (const auto& [name, options] : settings.at("experiments").members()) {
    const PricedSchedule priced = price_plan(read_experiment(options, files), Plan{});
    for (const auto& [pass, phase] : {std::pair{"forward", Phase::Forward}, {"backward", Phase::Backward}})
      for (const Row& row : rows)
        result.values[fmt::format("{} {}: {}", name, pass, row.name)] = milliseconds_of(priced, row, phase);
  }
  return result;
}

}  // namespace dovetail::bench
