// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/load_trace.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;
using test::TemporaryFolder;

namespace {

std::vector<TraceStep> read(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  folder.write(name, text);
  FilesRead files;
  return load_trace(name, files);
}

Experiment load_traced(std::vector<std::string> set, std::vector<std::string>* notes = nullptr) {
  ExperimentRequest request;
  request.cluster = "fsmoe-testbed-b";
  request.model = "mixtral-8x7b";
  request.set = std::move(set);
  FilesRead files;
  std::vector<std::string> ignored;
  return load_experiment(request, files, notes != nullptr ? *notes : ignored);
}

}  // namespace

TEST_CASE("A JSON trace has steps, their top_k and factor, and tables") {
  const TemporaryFolder folder;
  const auto steps = read(folder, "t.json", R"({"name": "t", "steps": [
    {"top_k": 1, "layers": [[[1, 2], [3, 4]]]},
    {"capacity_factor": 0, "layers": [[[5, 6]], [[7, 8]]]}]})");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].top_k == 1);
  CHECK_FALSE(steps[0].capacity_factor.has_value());
  CHECK(steps[0].layers == std::vector<LoadTable>{{{1, 2}, {3, 4}}});
  CHECK(steps[1].capacity_factor == 0.0);
  CHECK(steps[1].layers == std::vector<LoadTable>{{{5, 6}}, {{7, 8}}});
}

TEST_CASE("A step may give a size or a capacity factor and no loads") {
  const TemporaryFolder folder;
  const std::string text = R"({"name": "t", "steps": [{"capacity_factor": 1.5}, {"batch": 2, "sequence": 64}]})";
  const auto steps = read(folder, "t.json", text);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].capacity_factor == 1.5);
  CHECK(steps[0].layers.empty());
  CHECK(steps[1].batch == 2);
  CHECK(steps[1].sequence == 64);
  // Such a step says nothing of routing.
  CHECK_THROWS_WITH(load_traced({R"(workload.routing={"kind": "trace", "trace": "t.json"})", "workload.step=1"}),
                    Contains("1: this step of t.json has no loads of experts"));
}

TEST_CASE("A CSV trace may leave out what is 0, and its last line its end") {
  const TemporaryFolder folder;
  const auto steps = read(folder, "t.csv", "step,layer,rank,expert,tokens\n0,0,0,1,5\n0,0,1,0,7\r\n1,0,0,0,3");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].layers == std::vector<LoadTable>{{{0, 5}, {7, 0}}});
  CHECK(steps[1].layers == std::vector<LoadTable>{{{3, 0}, {0, 0}}});
}

TEST_CASE("A matrix of bytes between ranks spreads over the experts of each rank") {
  const TemporaryFolder folder;
  const auto steps = read(folder, "t.csv", "step,layer,rank,peer,bytes\n0,0,0,0,512\n0,0,0,1,2048\n");
  CHECK(spread_over_experts(steps[0].layers, 4) == std::vector<LoadTable>{{{256, 256, 1024, 1024}}});
  CHECK_THROWS_WITH(spread_over_experts(steps[0].layers, 5), "2 columns, which do not divide the 5 experts");
}

TEST_CASE("What is wrong in a trace is refused at its place") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(read(folder, name, text), Contains(message));
  };
  const std::string header = "step,layer,rank,expert,tokens\n";
  refused("t.csv", "", "t.csv:1:1: no rows");
  refused("t.csv", "step,layer,rank\n0,0,0\n",
          "t.csv:1:1: expected the header step,layer,rank,expert,tokens or step,layer,rank,peer,bytes");
  refused("t.csv", header, "t.csv:1:1: no rows");
  refused("t.csv", header + "0,0,0,1,5\n0,0,x,1,5\n", "t.csv:3:5: \"x\", expected a whole number from 0 on");
  refused("t.csv", header + "0,0,0,-1,5\n", "t.csv:2:7: \"-1\", expected a whole number from 0 on");
  refused("t.csv", header + "0,0,9223372036854775807,1,5\n",
          "t.csv:2:5: 9223372036854775807, expected an index below 100000000");
  refused("t.csv", header + "0,0,0,1\n", "t.csv:2:7: 4 values, but the first line names 5");
  refused("t.csv", header + "0,0,0,1,5,6\n", "t.csv:2:11: 6 values, but the first line names 5");
  refused("t.csv", header + "0,0,9999999,99999,5\n", "t.csv:2:1: the indices so far span 1e+12 cells");
  refused("t.csv", header + "0,9999,9999,0,5\n",
          "t.csv:2:1: the steps, layers and ranks so far are 1e+08 rows of tables");
  refused("t.csv", header + "0,0,0,0,5\n65536,0,0,0,5\n", "t.csv:3:1: step 65536, but step 1 has no row");
  refused("t.json", "{\"name\": \"t\", \"steps\": [{}]}", "t.json:1:25: /steps/0: an empty step");
  refused("t.json", "{\"name\": \"t\", \"steps\": []}", "t.json:1:24: /steps: ");
  refused("t.json", "{\"name\": \"t\", \"steps\": [{\"layers\": [[[1, 2], [3]]]}]}",
          "/steps/0/layers/0/1: 1 counts, expected 2");
  refused("t.json", "{\"name\": \"t\", \"steps\": [{\"layers\": [[[1, -2]]]}]}", "/steps/0/layers/0/0/1: ");
}

TEST_CASE("A workload takes a step of a trace, and its own values before the trace's") {
  const std::string trace = R"(workload.routing={"kind": "trace", "trace": "skewed-8-experts"})";
  std::vector<std::string> notes;
  const Experiment first = load_traced({trace}, &notes);
  CHECK(first.workload.top_k == 2);
  CHECK(first.workload.routing.layers.size() == 2);
  CHECK(std::ranges::count(notes, "routing of 4 recorded ranks on 32 ranks: rank r does as r mod 4 did") == 1);
  const Experiment second = load_traced({trace, "workload.step=1"});
  CHECK(second.workload.capacity_factor == 0);
  // Rank 2 sends 60 of its 128 choices, of 64 tokens each, to expert 3.
  const std::int64_t tokens = layer_volumes(second).tokens;
  CHECK(layer_volumes(second).capacity == tokens * 60 / 64);
  const Experiment third = load_traced({trace, "workload.step=2", "workload.top_k=3"});
  CHECK(third.workload.top_k == 3);
  CHECK_THROWS_WITH(load_traced({trace, "workload.step=3"}),
                    Contains("3, expected 0 to 2 (the steps of skewed-8-experts)"));
  CHECK_THROWS_WITH(load_traced({R"(workload.routing={"kind": "trace", "trace": "skewd"})"}),
                    Contains("unknown trace \"skewd\""));
  CHECK_THROWS_WITH(load_traced({R"(workload.routing={"kind": "trace"})"}), Contains("a trace without file"));
}
