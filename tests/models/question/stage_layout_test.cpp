// SPDX-License-Identifier: Apache-2.0
#include "models/question/stage_layout.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/pipeline_layout.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

std::vector<int> layers_of(const StageLayout& layout, int stage) {
  const std::span<const int> layers = layout.layers_of(stage);
  return {layers.begin(), layers.end()};
}

// "E2 2 1mL": layers, with what else a stage has around them.
std::string text(const std::string& layout) {
  std::string all;
  for (const LayoutStage& s : parse_pipeline_layout(layout))
    all += (all.empty() ? "" : " ") + std::string(s.embedding ? "E" : "") + std::to_string(s.layers) +
           std::string(static_cast<std::size_t>(s.predictions), 'm') + (s.head ? "L" : "");
  return all;
}

}  // namespace

TEST_CASE("layout strings: Megatron's example has 14 layers on 8 stages") {
  // E, then t twice, a border; five times two layers and a border; a layer, a border; a layer, MTP and the head.
  CHECK(text("Et*2|(tt|)*5t|tmL") == "E2 2 2 2 2 2 1 1mL");
  CHECK(text("E|t*3|L") == "E0 3 0L");  // stages of the embedding or the head alone
  CHECK(text("Ett|ttL") == text(" E,t*2 | (t)*2 L "));
  CHECK(text("E(t|)*2(t*2|(tt|)*2)*2L") == "E1 1 2 2 2 2 2 2 0L");
  CHECK(text("E||tL") == text("E|*2tL"));
  CHECK(text("EL") == "E0L");
}

TEST_CASE("layout strings: errors show the position") {
  const auto refuses = [](const std::string& layout, const std::string& message) {
    INFO(layout);
    CHECK_THROWS_WITH(parse_pipeline_layout(layout), Contains("/parallelism/pipeline_layout: position " + message));
  };
  refuses("Et|xL", "4: 'x', expected E, t, m, L, | or a group of them in parentheses");
  refuses("Et|*L", "5: expected how often to repeat, 1 to 100000");
  refuses("Et*0|L", "4: expected how often to repeat");
  refuses("Et*100001L", "4: expected how often to repeat");
  refuses("Et*99999999999999999999L", "4: expected how often to repeat");
  refuses("Et*100000L", "9: more than 100000 items");
  refuses("E(tt|*2L", "2: a ( without its )");
  refuses("Ett)L", "4: a ) without its (");
  refuses("tE|tL", "1: the embedding (E) is the first item of a layout, and no other");
  refuses("Et|EtL", "4: the embedding (E) is the first item");
  refuses("EtL|t", "3: the head (L) is the last item of a layout, and no other");
  refuses("Et|t", "4: the head (L) is the last item");
  refuses("Em|tL", "4: a layer (t) after a layer of multi-token prediction (m)");
  refuses("", "1: expected at least the embedding (E) and the head (L)");
}

TEST_CASE("virtual stages: chunk c of stage r is virtual stage c p + r") {
  // 10 layers on 2 x 2 virtual stages: runs of 3, 3, 2 and 2 layers.
  const StageLayout layout(10, {.pp = 2}, 2);
  CHECK(layout.virtual_stages() == 4);
  CHECK(layers_of(layout, 0) == std::vector{0, 1, 2, 6, 7});
  CHECK(layers_of(layout, 1) == std::vector{3, 4, 5, 8, 9});
  CHECK(layout.run(2).first == 6);
  CHECK(layout.run(2).last == 8);
  for (int layer : {0, 1, 2, 6, 7}) CHECK(layout.stage_of(layer) == 0);
  for (int layer : {3, 4, 5, 8, 9}) CHECK(layout.stage_of(layer) == 1);
}

TEST_CASE("down and back up: stage r has virtual stages r and 2 p - 1 - r") {
  const StageLayout layout(6, {.pp = 3}, 2, 0, StageShape::V);  // a layer each
  CHECK(layers_of(layout, 0) == std::vector{0, 5});
  CHECK(layers_of(layout, 1) == std::vector{1, 4});
  CHECK(layers_of(layout, 2) == std::vector{2, 3});
  CHECK(layout.ends_at() == 0);
  CHECK(StageLayout(6, {.pp = 3}, 2).ends_at() == 2);
}

TEST_CASE("two pipelines: stage r has its own run and that of stage p - 1 - r, which holds the same layers") {
  const StageLayout layout(6, {.pp = 4}, 2, 0, StageShape::TwoWays);  // runs of 2, 2, 1 and 1 layers
  CHECK(layers_of(layout, 0) == std::vector{0, 1, 5});
  CHECK(layers_of(layout, 1) == std::vector{2, 3, 4});
  CHECK(layers_of(layout, 2) == std::vector{2, 3, 4});
  CHECK(layers_of(layout, 3) == std::vector{0, 1, 5});
  CHECK(layout.pipelines() == 2);
  CHECK(layout.virtual_stages() == 8);
  CHECK(layout.run(4).first == 0);  // the second pipeline begins on the last stage
  CHECK(layout.stage_of_virtual(4) == 3);
  CHECK(layout.begins_at(0) == 0);
  CHECK(layout.ends_at(0) == 3);
  CHECK(layout.begins_at(1) == 3);
  CHECK(layout.ends_at(1) == 0);
  for (int stage : {0, 3}) CHECK((layout.has_begin(stage) && layout.has_end(stage)));
  for (int stage : {1, 2}) CHECK_FALSE((layout.has_begin(stage) || layout.has_end(stage)));
  for (int stage : {0, 1, 2, 3}) CHECK(layout.twin_of(stage) == 3 - stage);
  CHECK((layout.is_first(4) && layout.is_last(3) && layout.is_last(7)));
  CHECK(layout.stage_of(5) == 0);
  CHECK(StageLayout(6, {.pp = 4}, 1).twin_of(1) == 1);
}

TEST_CASE("a layout string gives each virtual stage its layers") {
  const StageLayout layout(5, {.pp = 2, .pipeline_layout = "Et|ttt|t|L"}, 2);
  CHECK(layers_of(layout, 0) == std::vector{0, 4});
  CHECK(layers_of(layout, 1) == std::vector{1, 2, 3});
  CHECK(layout.run(3).empty());
}

TEST_CASE("layers of multi-token prediction are the last ones of the last run") {
  const StageLayout even(4, {.pp = 2}, 1, 2), written(3, {.pp = 2, .pipeline_layout = "Et|tt|m|mL"}, 2, 2);
  CHECK(layers_of(even, 0) == std::vector{0, 1});
  CHECK(layers_of(even, 1) == std::vector{2, 3, 4, 5});
  CHECK(written.run(3).first == 3);
  CHECK(written.run(3).last == 5);
}

TEST_CASE("gradients of the embedding and the head belong to the first and the last stage") {
  Experiment e = test::round_numbers(3);
  e.model.vocabulary = 10;
  e.workload.extent = Extent::Model;
  e.cluster.nodes = 2;
  e.cluster.gpus_per_node = 1;
  e.parallelism = {.pp = 2, .pipeline_layout = "E|t|tt|L"};
  const std::int64_t layer = layer_volumes(e).dense_parameters, end = 10 * e.model.hidden;
  // Stage 0 has layers 1 and 2, stage 1 has layer 0 and no other.
  CHECK(dense_elements(e, StageLayout(3, e.parallelism, 2)) ==
        std::vector<std::int64_t>{layer + end, layer + end, layer});
}

TEST_CASE("layouts of other layers or stages are refused, and what is not built yet") {
  Experiment e = test::round_numbers(4);
  e.cluster.nodes = 2;
  e.cluster.gpus_per_node = 1;
  const auto refuses = [&](const std::string& layout, const std::string& message) {
    e.parallelism = {.pp = 2, .pipeline_layout = layout};
    INFO(layout);
    CHECK_THROWS_WITH(validate(e), Contains("/parallelism/pipeline_layout: " + message));
  };
  refuses("Ett|tL", "3 layers (t), but workload.layers is 4");
  refuses("Ett|t|tL", "3 stages do not divide over pp 2");
  refuses("Ett|ttmL", "1 layers of multi-token prediction (m), but workload.mtp_layers is 0");
  e.model.vocabulary = 10;
  e.workload.extent = Extent::Model;
  e.model.mtp_layers = e.workload.mtp_layers = 1;
  refuses("Ett|ttL", "0 layers of multi-token prediction (m), but workload.mtp_layers is 1");
  refuses("Ett|tt|m|L", "multi-token prediction (m) on another stage than the output head (L), which is not built yet");
  e.workload.mtp_layers = 0;
  refuses("E|ttttL", "pipeline stage 0 has no layer (t), which is not built yet");
  e.parallelism.pipeline_layout = "Et|tttL";
  CHECK_NOTHROW(validate(e));
}
