// SPDX-License-Identifier: Apache-2.0
// Layers without attention: their sizes, and layers of a step that are the mean of the model's.
#include <catch2/catch.hpp>

#include "models/files/load.hpp"
#include "models/question/model_flops.hpp"
#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"
#include "models/question/volumes.hpp"

using namespace dovetail;

namespace {

// 4 value heads of 8 elements, 2 key heads of 6, a convolution over 4 positions; hidden 10.
Recurrence recurrence(RecurrenceKind kind) {
  return {kind, 3, 4, 8, 2, 6, 4, 5};
}

std::int64_t weights(RecurrenceKind kind, int mp = 1) {
  return recurrence_sizes(recurrence(kind), 10, mp).parameters();
}

// 4 layers, of which one has attention: 4 query heads and 2 of keys, of 5 elements.
Model hybrid(RecurrenceKind kind) {
  Model m{"x", "", 4, 10, {4, 2, 5}, 0, 0, 0, ExpertKind::Gated, 100};
  m.first_dense = 4;
  m.dense_hidden = 20;
  m.attention.layers = 1;
  m.recurrence = recurrence(kind);
  return m;
}

LayerVolumes volumes(const Model& m, int mp = 1) {
  Experiment e;
  e.model = m;
  e.workload.extent = Extent::WholeLayers;
  e.parallelism.mp = mp;
  e.workload.layers = 4;
  e.workload.batch = 2;
  e.workload.sequence = 16;
  return layer_volumes(e, 0);
}

}  // namespace

TEST_CASE("Weights of each kind of recurrence, by hand") {
  using enum RecurrenceKind;
  // Values and what goes out: 32 wide; keys: 12. Queries, keys, values, gate, a rate and a decay of each head; the
  // convolution of 12 + 12 + 32 channels, two numbers of each head, a norm of one head's values.
  CHECK(weights(GatedDelta) == 10 * (12 + 12 + 32 + 32 + 4 + 4) + 32 * 10 + 4 * 56 + 4 + 4 + 8);
  // The decay (of each key element) and the gate come through 5 elements each.
  CHECK(weights(KimiDelta) == 10 * (12 + 12 + 32 + 4) + 2 * 10 * 5 + 5 * 12 + 5 * 32 + 32 * 10 + 4 * 56 + 4 + 12 + 8);
  CHECK(weights(Lightning) == 10 * (12 + 12 + 32 + 32) + 32 * 10 + 32);
  // Values, gate, keys, queries and time steps; a convolution with biases; three numbers of each head; a norm.
  CHECK(weights(Mamba2) == 10 * (32 + 32 + 12 + 12 + 4) + 32 * 10 + (4 + 1) * 56 + 3 * 4 + 32);
  // Time steps through 5 elements; of each channel 6 states, a direct path and a bias; norms of 5 + 6 + 6.
  CHECK(weights(Mamba) == 10 * 64 + 32 * (5 + 12) + 5 * 32 + 32 * 10 + (4 + 1) * 32 + 32 * (6 + 2) + 17);
  CHECK(weights(ShortConvolution) == 10 * 96 + 32 * 10 + 4 * 32);
  // Two ranks share the heads; each has the down projections of Kimi's gates.
  CHECK(weights(GatedDelta, 2) == 10 * (6 + 6 + 16 + 16 + 2 + 2) + 16 * 10 + 4 * 28 + 2 + 2 + 8);
}

TEST_CASE("A layer of a step is the mean of layers with attention and with a recurrence") {
  const Model m = hybrid(RecurrenceKind::GatedDelta);
  const LayerVolumes v = volumes(m);
  CHECK(v.attention_share == .25);
  CHECK(v.recurrence_share == .75);
  const int attention = 10 * (20 + 2 * 10) + 20 * 10;
  CHECK(v.attention_parameters == (attention + 3 * weights(RecurrenceKind::GatedDelta)) / 4);
  CHECK(v.context_width == (20 + 3 * 32) / 4);
  // Queries, keys and values; what projections made, and what the convolution made of a part of it.
  CHECK(v.projected_width == (40 + 3 * (96 + 56)) / 4);
  CHECK(v.attention_score_flops.value() == 2. * 32 * 8 * (20 + 20) / 4);  // each position sees 8
  CHECK(v.log_sums() == 32 * 4 / 4);
  CHECK(v.query_width == 20);  // of a layer with attention
  const Parameters p = parameters(m);
  CHECK(p.attention == attention);
  CHECK(p.recurrence == 3 * weights(RecurrenceKind::GatedDelta));
  CHECK(p.norms == (4 + 4 + 1) * 10);
}

TEST_CASE("Attention and recurrences have norms of their own, but where every layer has both") {
  Model m = hybrid(RecurrenceKind::Mamba2);
  m.attention.layers = m.recurrence.layers = 4;
  CHECK(parameters(m).norms == (4 + 4 + 1) * 10);
  m.attention.layers = 2;  // 6 mixers for 4 feed-forward parts
  CHECK(parameters(m).norms == (6 + 4 + 1) * 10);
}

TEST_CASE("States are added to and read, and delta rules read them twice") {
  CHECK(state_flops(recurrence(RecurrenceKind::Mamba2)) == 2 * 2 * 4 * 8 * 6);
  CHECK(state_flops(recurrence(RecurrenceKind::GatedDelta)) == 3 * 2 * 4 * 8 * 6);
  CHECK(state_flops(recurrence(RecurrenceKind::ShortConvolution)) == 0);
}

TEST_CASE("Windows with heads of their own count apart from layers that see the whole sample") {
  Model m = hybrid(RecurrenceKind::GatedDelta);
  m.recurrence = {};
  m.attention = {4, 1, 6};
  m.attention.value_size = 5;
  m.attention.window = 4;
  m.attention.windowed_layers = 3;
  m.attention.windowed = {4, 2, 6, 5};
  const LayerVolumes v = volumes(m);
  const int whole = 10 * (24 + 6 + 5) + 20 * 10, windowed = 10 * (24 + 2 * (6 + 5)) + 20 * 10;
  CHECK(parameters(m).attention == whole + 3 * windowed);
  CHECK(v.attention_parameters == (whole + 3 * windowed + 2) / 4);  // 632.5, of which each part is rounded
  CHECK(v.attention_score_flops.value() == 2. * 32 * 8 * (24 + 20) / 4);
  m.attention.qk_norm = QkNorm::Head;
  // Queries of 24 and keys of 6 elements, or of 12 in windows.
  CHECK(volumes(m).query_key_normed == (24 + 6 + 3 * (24 + 12)) / 4 + 1);  // 34.5, of which each part is rounded
  const double seen = (4 * 16 - 4 * 4 / 2) / 16.;                          // of a window of 4 in 16 positions
  CHECK(v.windowed.score_flops.value() == Approx(2. * 32 * seen * (24 + 20) * 3 / 4));
}

TEST_CASE("Gates of the output and an index add matrices to attention") {
  Attention a{4, 2, 5};
  const std::int64_t plain = attention_matrices(a, 10, 4, 2);
  a.gate = OutputGate::Element;
  CHECK(attention_matrices(a, 10, 4, 2) == plain + 10 * 20);
  a.gate = OutputGate::Head;
  CHECK(attention_matrices(a, 10, 4, 2) == plain + 10 * 4);
  a.gate = OutputGate::None;
  a.index = {3, 7};  // queries of 3 heads, a key, a weight of each head
  CHECK(index_matrices(a, 10) == 10 * 21 + 10 * 7 + 10 * 3);
  a.shared_values = true;  // 2 heads of 5 elements less
  CHECK(attention_matrices(a, 10, 4, 2) == plain - 10 * 2 * 5);
  a.q_rank = 6;  // of latent attention, whose index makes its queries from it
  CHECK(index_matrices(a, 10) == 6 * 21 + 10 * 7 + 10 * 3);
}

TEST_CASE("Experts may take rows that projections make of tokens") {
  Model m{"x", "", 2, 10, {2, 1, 5}, 8, 2, 16, ExpertKind::Ffn, 100};
  m.expert_input = 4;
  const Parameters p = parameters(m);
  CHECK(p.routed_experts == 2 * 8 * 2 * 4 * 16);
  CHECK(p.router == 2 * (10 * 8 + 2 * 10 * 4));  // with the projections there and back
  Experiment e;
  e.model = m;
  e.workload.layers = 2;
  e.workload.batch = 1;
  e.workload.sequence = 16;
  e.workload.top_k = 2;
  e.workload.capacity_factor = 1;
  e.parallelism.ep = 4;
  const LayerVolumes v = layer_volumes(e, 0);
  CHECK(v.capacity == 4);
  CHECK(v.all_to_all_elements(RowRange{0, 4}) == 4 * 4 * 2 * 4);  // rows, peers, experts of each, elements
  CHECK(v.expert_parameters == 2 * 2 * 4 * 16);
  CHECK(v.router_parameters == 10 * 8 + 2 * 10 * 4);
  CHECK(v.latent_kept() == 8);
}
