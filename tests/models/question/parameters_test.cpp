// SPDX-License-Identifier: Apache-2.0
#include "models/question/parameters.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

TEST_CASE("GPT-2 XL has the parameters of its checkpoint, but for the router of its one expert") {
  Model m{"gpt2-xl", "", 48, 1600, {25, 25, 64}, 1, 1, 6400, ExpertKind::Ffn, 50257};
  m.biases = Biases::All;
  m.norms = NormKind::Layer;
  m.tied_embeddings = true;
  m.learned_positions = 1024;
  const Parameters p = parameters(m);
  CHECK(p.total() - p.router == 1'557'611'200);  // safetensors metadata of openai-community/gpt2-xl
  CHECK(p.embedding == (50257 + 1024) * 1600);
  CHECK(p.head == 0);
  CHECK(p.attention == 48LL * (4 * 1600 * 1600 + 4 * 1600));
  CHECK(p.routed_experts == 48LL * (2 * 1600 * 6400 + 6400 + 1600));
  CHECK(p.norms == (2 * 48 + 1) * 2 * 1600);
  m.tied_embeddings = false;
  CHECK(parameters(m).head == 50257 * 1600);
}

TEST_CASE("Parameters by part of a model with dense layers, shared experts and all kinds of small things") {
  Model m{"x", "", 3, 8, {4, 2, 4}, 6, 2, 16, ExpertKind::Gated, 100};
  m.first_dense = 1;
  m.dense_hidden = 20;
  m.shared_experts = {2, 10, true};
  m.router.correction_bias = true;
  m.biases = Biases::QueryKeyValue;
  m.attention.qk_norm = QkNorm::Head;
  m.mtp_layers = 1;
  const Parameters p = parameters(m), active = active_parameters(m);
  const int attention = 8 * (16 + 2 * 8) + 16 * 8 + (16 + 2 * 8) + 2 * 4;  // matrices, biases, norms
  CHECK(p.attention == 3 * attention);
  CHECK(p.dense_ffn == 3 * 8 * 20);
  CHECK(p.router == 2 * 6 * (8 + 1));
  CHECK(p.routed_experts == 2 * 6 * 3 * 8 * 16);
  CHECK(active.routed_experts == 2 * 2 * 3 * 8 * 16);
  CHECK(p.shared_experts == 2 * (2 * 3 * 8 * 10 + 8));
  CHECK(p.norms == (2 * 3 + 1) * 8);
  CHECK(p.total() - p.routed_experts == active.total() - active.routed_experts);
  // An MoE layer, its two norms, the projection of two inputs to one, norms of both and of the output.
  CHECK(p.mtp == attention + 6 * 9 + 6 * 3 * 8 * 16 + 2 * 3 * 8 * 10 + 8 + 2 * 8 + 2 * 8 * 8 + 3 * 8);
  m.attention.qk_norm = QkNorm::Width;
  CHECK(parameters(m).attention == 3 * (attention - 2 * 4 + 16 + 8));
  m.attention.sinks = true;  // one for each of 4 heads
  CHECK(parameters(m).attention == 3 * (attention - 2 * 4 + 16 + 8 + 4));
}
