// SPDX-License-Identifier: Apache-2.0
// The published tables that can be recomputed, by id.
#pragma once
#include <string>
#include <vector>

#include "bench/reproduce/support.hpp"

namespace dovetail::bench {

std::vector<std::string> reproduced_ids();  // in the order in which they are shown

std::string describe_table(const std::string& id, FilesRead& files);

// Published beside ours. Throws InputError for an unknown id, with the nearest.
ReproducedTable reproduce_table(const std::string& id, FilesRead& files);

// The same table without each of the constants that were fitted to others, where values of it rest on these.
std::vector<TableWithout> reproduce_without(const std::string& id, FilesRead& files);

// Each reads `settings` of its file in data/published. See the sources for the reading of the paper.
using Recomputation = Recomputed (*)(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_degrees(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_gates(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_layer_speedups(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_model_speedups(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_operations(const JsonReader& settings, FilesRead& files);
Recomputed fsmoe_varied_speedups(const JsonReader& settings, FilesRead& files);
Recomputed tutel_table1(const JsonReader& settings, FilesRead& files);
Recomputed tutel_table4(const JsonReader& settings, FilesRead& files);
Recomputed tutel_table5(const JsonReader& settings, FilesRead& files);
Recomputed tutel_table7a(const JsonReader& settings, FilesRead& files);
Recomputed tutel_table7b(const JsonReader& settings, FilesRead& files);
Recomputed tutel_fig5(const JsonReader& settings, FilesRead& files);
Recomputed tutel_2dh(const JsonReader& settings, FilesRead& files);
Recomputed tutel_layout(const JsonReader& settings, FilesRead& files);
Recomputed tutel_fig22(const JsonReader& settings, FilesRead& files);
Recomputed tutel_fig23(const JsonReader& settings, FilesRead& files);
Recomputed tutel_fig24(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig2(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig3(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_memory(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig8(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig9_11(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig12(const JsonReader& settings, FilesRead& files);
Recomputed mpipemoe_fig13(const JsonReader& settings, FilesRead& files);
Recomputed ampipe_appendix_c(const JsonReader& settings, FilesRead& files);
Recomputed ampipe_cases(const JsonReader& settings, FilesRead& files);
Recomputed ampipe_table2(const JsonReader& settings, FilesRead& files);
Recomputed zero_bubble_rates(const JsonReader& settings, FilesRead& files);

}  // namespace dovetail::bench
