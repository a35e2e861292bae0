// SPDX-License-Identifier: Apache-2.0
// A wrong name in a file is refused at the place of the name in that file.
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/pipeline/question.hpp"
#include "bench/reproduce/tables.hpp"
#include "bench/sweep/sweep_grid.hpp"
#include "bench/validate/validation_grid.hpp"
#include "models/base/errors.hpp"
#include "models/files/data_path.hpp"
#include "tests/support/lent_data.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

const std::string lost_system = R"({"name": "lost", "plan": {},
  "planner": {"name": "exhaustivf"}})";

// The error of reading the published table once it is changed.
std::string refusal_of_table(const std::string& id, const std::function<void(nlohmann::ordered_json&)>& change) {
  const std::string name = "published/" + id + ".json";
  auto table =
      nlohmann::ordered_json::parse(JsonFile::read_text((data_directory() / name).string()), nullptr, true, true);
  change(table);
  const test::TemporaryFolder folder;
  const test::LentData data(name);
  folder.write("data/" + name, table.dump(1));
  FilesRead files;
  return refusal_of([&] { reproduce_table(id, files); });
}

}  // namespace

TEST_CASE("Names in a sweep's grid") {
  const test::TemporaryFolder folder;
  folder.write("lost.json", lost_system);
  const auto refusal = [&](const std::string& rest) {
    folder.write("g.json", "{\"name\": \"g\", \"source\": \"s\",\n" + rest + "}");
    FilesRead files;
    return refusal_of([&] { load_sweep_grid("g.json", files); });
  };
  CHECK(refusal("\"systems\": [\"tutel\"]") == "accepted");
  CHECK_THAT(refusal("\"systems\": [\"tutel\", \"tutle\"]"),
             StartsWith("g.json:2:22: /systems/1: unknown system \"tutle\", did you mean \"tutel\""));
  CHECK_THAT(refusal("\"systems\": [\"lost.json\"]"),
             StartsWith("lost.json:2:23: /planner/name: no planner \"exhaustivf\", did you mean \"exhaustive\""));
  CHECK_THAT(refusal("\"systems\": [\"none.json\"]"), StartsWith("none.json: cannot be read"));
}

TEST_CASE("Names in a grid of sizes to validate") {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& cluster, const std::string& model, const std::string& more) {
    folder.write("v.json", "{\"name\": \"v\", \"cluster\": \"" + cluster + "\", \"model\": \"" + model +
                               "\",\n\"kernels\": \"held\", \"ranks\": 2, \"degrees\": [1], " + more +
                               ", \"predict\": [{\"tokens\": 64}]}");
    FilesRead files;
    return refusal_of([&] { load_validation_grid("v.json", files); });
  };
  const std::string cluster = "fsmoe-testbed-b", model = "mixtral-8x7b";
  CHECK(refusal(cluster, model, "\"systems\": [\"tutel\"]") == "accepted");
  CHECK_THAT(refusal("b", model, "\"systems\": [\"tutel\"]"),
             StartsWith("v.json:1:26: /cluster: unknown cluster \"b\""));
  CHECK_THAT(refusal(cluster, "m", "\"systems\": [\"tutel\"]"), StartsWith("v.json:1:54: /model: unknown model \"m\""));
  CHECK_THAT(refusal(cluster, model, "\"systems\": [\"t\"]"),
             StartsWith("v.json:2:60: /systems/0: unknown system \"t\""));
  CHECK_THAT(refusal(cluster, model, "\"systems\": [\"tutel\"], \"planners\": [\"p\"]"),
             StartsWith("v.json:2:83: /planners/0: no planner \"p\""));
  CHECK(refusal(cluster, model, "\"systems\": [\"mpipemoe\"], \"strategies\": true") == "accepted");
  CHECK_THAT(refusal(cluster, model, "\"systems\": [\"tutel\"], \"strategies\": true"),
             StartsWith("v.json:2:84: /strategies: true, but no system restores what it does not keep"));
  CHECK(refusal(cluster, model, "\"systems\": [{\"name\": \"ampipe\", \"planners\": [\"exhaustive\"]}]") == "accepted");
  CHECK_THAT(refusal(cluster, model, "\"systems\": [{\"name\": \"ampipe\", \"planners\": [\"p\"]}]"),
             Contains("/systems/0/planners/0: no planner \"p\""));
  const std::string online = "\"systems\": [\"tutel\"], \"online\": [{\"planner\": ";
  CHECK(refusal(cluster, model, online + "\"tutel_search\", \"system\": \"tutel\"}]") == "accepted");
  CHECK_THAT(refusal(cluster, model, online + "\"exhaustive\", \"system\": \"tutel\"}]"),
             Contains("/online/0/planner: \"exhaustive\", expected one of bucketed_search"));
  CHECK_THAT(refusal(cluster, model, online + "\"tutel_search\", \"system\": \"fsmoe\"}]"),
             Contains("/online/0/system: \"fsmoe\", expected one of the grid's systems"));
  CHECK_THAT(refusal(cluster, model, "\"systems\": [\"tutel\"], \"one_rank\": true"),
             Contains("/one_rank: true, expected real kernels on the host"));
}

TEST_CASE("What a size of a grid says of itself alone") {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& more) {
    folder.write(
        "v.json",
        "{\"name\": \"v\", \"cluster\": \"fsmoe-testbed-b\", \"model\": \"mixtral-8x7b\", \"kernels\": "
        "\"held\", \"ranks\": 2, \"degrees\": [1], \"systems\": [\"tutel\"],\n\"predict\": [{\"tokens\": 64, " +
            more + "}]}");
    FilesRead files;
    return refusal_of([&] { load_validation_grid("v.json", files); });
  };
  CHECK(refusal("\"systems\": [\"tutel\"], \"parallelism\": {\"ep\": 2}, \"set\": [\"workload.top_k=1\"]") ==
        "accepted");
  CHECK_THAT(refusal("\"systems\": [\"fsmoe\"]"),
             StartsWith("v.json:2:40: /predict/0/systems/0: \"fsmoe\", expected one of the grid's systems"));
  CHECK_THAT(refusal("\"set\": [\"plan.order=alternate\"]"),
             StartsWith("v.json:2:36: /predict/0/set/0: \"plan.order=alternate\", expected a setting of the workload"));
  CHECK_THAT(refusal("\"set\": [\"workload.kapacity=1\"]"),
             StartsWith("v.json:2:35: /predict/0/set: --set workload.kapacity=1: unknown key"));
}

TEST_CASE("A planner that a system's file names") {
  const test::TemporaryFolder folder;
  folder.write("lost.json", lost_system);
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.systems = {"lost.json"};
  CHECK_THAT(refusal_of([&] { load_question(options); }), StartsWith("lost.json:2:23: /planner/name: no planner"));
}

TEST_CASE("Published tables whose settings do not fit") {
  using Json = nlohmann::ordered_json;
  const auto refusal = [](const std::function<void(Json&)>& change) {
    return refusal_of_table("tutel-table1", change);
  };
  CHECK_THAT(
      refusal([](Json& table) { table["settings"]["layer"]["experts_per_gpu"] = 0; }),
      Contains("tutel-table1.json:") && Contains("/settings: 0 experts on each of 16 GPUs, expected 1 to 65536"));
  CHECK_THAT(refusal([](Json& table) { table["values"][0]["name"] = "unheard of"; }),
             Contains("tutel-table1.json:") && Contains("/values/0/name: \"unheard of\", but the settings"));
  CHECK_THAT(refusal([](Json& table) { table["values"].erase(0); }), Contains("/values: nothing is published for"));
  CHECK_THAT(refusal([](Json& table) { table["settings"]["experiment"]["cluster"] = "nowhere"; }),
             Contains("tutel-table1.json:") && Contains("unknown cluster \"nowhere\""));
  CHECK_THAT(refusal_of_table("tutel-table7a",
                              [](Json& table) {
                                table["settings"]["grid"]["sequence"] = {512, 1024, 512};
                              }),
             Contains("tutel-table7a.json:") && Contains("/settings/grid/sequence/2: given twice, expected once"));
  CHECK_THAT(refusal_of_table("zero-bubble-table5",
                              [](Json& table) { table["settings"]["measured"][0]["micro_batches"] = 25; }),
             Contains("/settings/measured/0/micro_batches: 25, expected a multiple of the 8 stages"));
  CHECK_THAT(refusal_of_table("zero-bubble-table5",
                              [](Json& table) {
                                table["settings"]["measured"][0]["virtual_stages"] = 100;
                                table["settings"]["measured"][0]["micro_batches"] = 8000;
                              }),
             Contains("8000 on 800 virtual stages are more than 1000000 passes"));
}
