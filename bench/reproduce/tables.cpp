// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/cli/option_values.hpp"
#include "bench/reproduce/published.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_text.hpp"

namespace dovetail::bench {
namespace {

struct Entry {
  std::string_view id;
  Recomputation recompute;
};
constexpr std::array entries{
    Entry{"fsmoe-table2", fsmoe_operations},
    Entry{"fsmoe-table5", fsmoe_layer_speedups},
    Entry{"fsmoe-degrees", fsmoe_degrees},
    Entry{"fsmoe-end-to-end", fsmoe_model_speedups},
    Entry{"fsmoe-fig7", fsmoe_varied_speedups},
    Entry{"fsmoe-fig8", fsmoe_varied_speedups},
    Entry{"fsmoe-table6", fsmoe_gates},
    Entry{"tutel-table1", tutel_table1},
    Entry{"tutel-table4", tutel_table4},
    Entry{"tutel-table5", tutel_table5},
    Entry{"tutel-table7a", tutel_table7a},
    Entry{"tutel-table7b", tutel_table7b},
    Entry{"tutel-fig5", tutel_fig5},
    Entry{"tutel-2dh", tutel_2dh},
    Entry{"tutel-layout", tutel_layout},
    Entry{"tutel-fig22", tutel_fig22},
    Entry{"tutel-fig23", tutel_fig23},
    Entry{"tutel-fig24", tutel_fig24},
    Entry{"mpipemoe-fig2", mpipemoe_fig2},
    Entry{"mpipemoe-fig3", mpipemoe_fig3},
    Entry{"mpipemoe-memory", mpipemoe_memory},
    Entry{"mpipemoe-fig8", mpipemoe_fig8},
    Entry{"mpipemoe-fig9-11", mpipemoe_fig9_11},
    Entry{"mpipemoe-fig12", mpipemoe_fig12},
    Entry{"mpipemoe-fig13", mpipemoe_fig13},
    Entry{"ampipe-appendix-c", ampipe_appendix_c},
    Entry{"ampipe-56", ampipe_cases},
    Entry{"ampipe-table2", ampipe_table2},
    Entry{"zero-bubble-table5", zero_bubble_rates},
};

}  // namespace

std::vector<std::string> reproduced_ids() {
  std::vector<std::string> ids;
  for (const Entry& entry : entries) ids.emplace_back(entry.id);
  return ids;
}

std::string describe_table(const std::string& id, FilesRead& files) {
  choose("id", id, reproduced_ids());
  const PublishedTable published(id, files);
  return fmt::format("{} ({})", published.table().title, published.table().source);
}

namespace {

// The table with what its function makes of the settings.
ReproducedTable filled(const PublishedTable& published, const Entry& entry, const JsonReader& settings,
                       FilesRead& files) {
  Recomputed ours = at_place_of(settings, [&] { return entry.recompute(settings, files); });
  ReproducedTable table = published.table();
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    ReproducedValue& value = table.values[i];
    const auto found = ours.values.find(value.name);
    if (found == ours.values.end())
      published.values().elements()[i].fail(
          "name", fmt::format("{}, but the settings of this table compute no such value", in_quotes(value.name)));
    value.ours = found->second;
    ours.values.erase(found);
  }
  if (!ours.values.empty())
    published.values().fail(
        fmt::format("nothing is published for {}, which the settings compute", in_quotes(ours.values.begin()->first)));
  std::ranges::move(ours.notes, std::back_inserter(table.notes));
  return table;
}

}  // namespace

ReproducedTable reproduce_table(const std::string& id, FilesRead& files) {
  const Entry& entry = entries[choose("id", id, reproduced_ids())];
  const PublishedTable published(id, files);
  return filled(published, entry, published.settings(), files);
}

std::vector<TableWithout> reproduce_without(const std::string& id, FilesRead& files) {
  const Entry& entry = entries[choose("id", id, reproduced_ids())];
  const PublishedTable published(id, files);
  const auto rests = [](const ReproducedValue& value, const std::string& constant) {
    return value.basis == Basis::Shares && std::ranges::find(value.constants, constant) != value.constants.end();
  };
  std::vector<TableWithout> tables;
  for (const SharedConstant& constant : published.table().shared) {
    if (std::ranges::none_of(published.table().values, [&](const auto& value) { return rests(value, constant.name); }))
      continue;
    const JsonFile settings = published.settings_without(constant.name);
    tables.push_back({constant.name, filled(published, entry, JsonReader(settings), files)});
  }
  return tables;
}

}  // namespace dovetail::bench
