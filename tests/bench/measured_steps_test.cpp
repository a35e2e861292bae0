// SPDX-License-Identifier: Apache-2.0
// Files of measured steps: read, predicted, refused at the place of what is wrong.
#include "bench/reproduce/measured_steps.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "models/results/reproduction.hpp"
#include "reports/data/reproduction_report.hpp"
#include "reports/data/steps_report.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// The lines of a file; that of the steps is the third one.
std::string steps_file(const std::string& steps, const std::string& system = R"("system": "megatron_lm")") {
  return R"({"title": "t", "source": "s", )" + system + R"(, "question": {"cluster": "dgx-h100", "nodes": 1,
  "model": "olmoe-1b-7b", "workload.layers": 1, "tp": 1, "mbs": 1, "gbs": 8, "workload.sequence": 1024},
  "steps": [)" +
         steps + "]}";
}

StepsTable predicted_steps(const std::string& name, std::size_t most = 1000, int draws = 0) {
  FilesRead files;
  Options options;
  options.draws = draws;
  StepsFile file(name, files);
  for (std::size_t i = 0; i < std::min(most, file.steps()); ++i) file.predict_step(i, options, files);
  return file.table();
}

std::string refusal_of_steps(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("own.json", text);
  try {
    predicted_steps("own.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

Reproduction small_reproduction() {
  const test::TemporaryFolder folder;
  folder.write("own.json", steps_file(R"({"name": "a, b", "step": "5 ms", "peak": "9 GiB", "note": "n"},
    {"name": "c", "question": {"gbs": 16}, "step": "9 ms"}], "not_stated": [{"name": "d", "why": "w"})"));
  Reproduction reproduction;
  reproduction.steps.push_back(predicted_steps("own.json", 2, 20));
  return reproduction;
}

}  // namespace

TEST_CASE("steps take what they share and what is their own, those of one job differ in how they are run alone") {
  const test::TemporaryFolder folder;
  folder.write("own.json", steps_file(R"({"name": "a", "step": "5 ms"},
    {"name": "b", "question": {"tp": 2}, "step": "5 ms"},
    {"name": "c", "question": {"gbs": 16}, "step": "5 ms"},
    {"name": "d", "question": {"workload.layers": 2}, "step": "5 ms"})"));
  const StepsTable table = predicted_steps("own.json");
  REQUIRE(table.steps.size() == 4);
  CHECK(table.id == "own");
  CHECK(table.steps[0].tokens == 8 * 1024);
  CHECK(table.steps[1].tokens == 8 * 1024);
  CHECK(table.steps[2].tokens == 16 * 1024);
  CHECK(table.steps[0].model == "olmoe-1b-7b");
  CHECK(table.steps[0].gpus == 8);
  CHECK_FALSE(table.steps[0].range);
  CHECK(table.steps[1].job == table.steps[0].job);
  CHECK(table.steps[2].job != table.steps[0].job);
  CHECK(table.steps[3].job != table.steps[0].job);
  CHECK(table.steps[3].job != table.steps[2].job);
}

TEST_CASE("models and systems of a steps file lie beside it, wherever the program runs") {
  const test::TemporaryFolder folder;
  folder.write("far/m/model.json", R"({"name": "mine", "source": "s", "layers": 1, "hidden": 64, "experts": 0,
    "attention": {"heads": 4, "kv_heads": 4, "head_size": 16}, "expert_kind": "ffn", "dense_hidden": 128, "vocabulary": 512})");
  folder.write("far/steps.json", steps_file(R"({"name": "a", "question": {"model": "m/model.json"}, "step": "5 ms"})"));
  FilesRead files;
  Options options;
  options.draws = 0;
  StepsFile file("far/steps.json", files);
  file.predict_step(0, options, files);
  CHECK(file.table().steps.front().model == "mine");
  CHECK(files.contains("far/steps.json"));
  CHECK(files.contains("far/m/model.json"));
}

TEST_CASE("a steps file names the system") {
  CHECK_THAT(refusal_of_steps(steps_file(R"({"name": "a", "step": "1 s"})", R"("licence": "none")")),
             StartsWith("own.json:1:1: no system, expected the name of the one"));
}

TEST_CASE("what is wrong in a steps file is refused at its place") {
  const auto of_step = [](const std::string& rest) {
    return refusal_of_steps(steps_file(R"({"name": "a", )" + rest + "}"));
  };
  CHECK(of_step(R"("step": "1 s")") == "accepted");
  CHECK_THAT(of_step(R"("step": 3)"), StartsWith("own.json:3:35: /steps/0/step: expected a string"));
  CHECK_THAT(of_step(R"("step": "0 s")"), StartsWith("own.json:3:35: /steps/0/step: expected more than zero"));
  CHECK_THAT(of_step(R"("step": "1 GiB")"), StartsWith("own.json:3:35: /steps/0/step: "));
  CHECK_THAT(of_step(R"("peka": "1 GiB", "step": "1 s")"), Contains("unknown key \"peka\", did you mean \"peak\"?"));
  CHECK_THAT(of_step(R"("step": "1 s"}, {"name": "a", "step": "1 s")"),
             StartsWith("own.json:3:52: /steps/1/name: \"a\" twice, expected once"));
  const auto of_question = [&](const std::string& q) { return of_step("\"question\": {" + q + R"(}, "step": "1 s")"); };
  CHECK_THAT(of_question(R"("cp": 2)"), StartsWith("own.json:3:46: /steps/0/question/cp: 2: context parallelism"));
  CHECK_THAT(of_question(R"("cluster": "dgx-h10")"),
             Contains("/steps/0/question/cluster: unknown cluster \"dgx-h10\""));
  CHECK_THAT(of_question(R"("plan.recomptue": "full")"), Contains("/steps/0/question/plan.recomptue: unknown key"));
  CHECK_THAT(of_question(R"("plan.all_to_all": "allgather")"), Contains("/steps/0/question/plan.all_to_all: "));
  CHECK_THAT(of_question(R"("experiment": 3)"), Contains("/steps/0/question/experiment: expected a string"));
  CHECK_THAT(of_question(R"("experiment": "no")"), Contains("/steps/0/question/experiment: unknown experiment \"no\""));
  CHECK_THAT(of_question(R"("parallelism.mp": 2)"), StartsWith("own.json:3:13: /steps/0: --set tp=1 contradicts"));
  // The question that all steps share is named at its own place.
  CHECK_THAT(of_question(R"("nodes": 3)"),
             StartsWith("own.json:2:75: /question/gbs: 8 samples do not divide over dp 24"));
  CHECK_THAT(refusal_of_steps(steps_file(R"({"name": "a", "step": "1 s"})", R"("system": "megatron")")),
             StartsWith("own.json:1:41: /system: unknown system \"megatron\""));
  CHECK_THAT(refusal_of_steps(R"({"title": "t", "source": "s", "steps": []})"), Contains("/steps: "));
}

TEST_CASE("measured steps as JSON follow the schema, as CSV they have a line each, as a page a section") {
  const Reproduction reproduction = small_reproduction();
  const auto json = nlohmann::json(reports::to_json(reproduction));
  CHECK_NOTHROW(validate(JsonFile::wrap(json, "result"), load_schema("reproduction")));
  CHECK(json["tables"].empty());
  CHECK(json["summary"].empty());
  CHECK(json["steps_summary"][0]["steps"] == 2);
  CHECK(json["steps_summary"][0]["ranges"] == 2);
  CHECK(json["steps_summary"][0]["peaks"] == 1);
  const auto& step = json["steps"][0]["steps"][0];
  CHECK(step["measured_s"] == Approx(.005));
  CHECK(step["error"] == Approx(step["predicted_s"].get<double>() / .005 - 1));
  CHECK(step["draws"] == 20);
  CHECK(step["low_s"] < step["high_s"]);
  CHECK(step["measured_peak_bytes"] == 9.0 * (1 << 30));
  CHECK(json["steps"][0]["steps"][1]["measured_peak_bytes"].is_null());
  CHECK(json["steps"][0]["not_stated"][0]["why"] == "w");
  CHECK_FALSE(json["steps"][0]["costs"].empty());
  auto broken = json;
  broken["steps"][0]["costs"][0]["origin"] = "guessed";
  CHECK_THROWS_WITH(validate(JsonFile::wrap(broken, "result"), load_schema("reproduction")), Contains("guessed"));

  std::ostringstream csv, page, text;
  reports::write_csv(csv, reproduction);
  const std::string lines = csv.str();
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK_THAT(lines, Contains("own,\"a, b\",olmoe-1b-7b,8,8192,0.005,"));
  reports::write_html(page, reproduction);
  CHECK_THAT(page.str(), Contains("<h1>Measured steps beside predictions</h1>") && Contains("<section id=\"own\">") &&
                             Contains("<small>n</small>") && Contains("not stated: d: w"));
  reports::write_table(text, reproduction, false);
  CHECK_THAT(text.str(), Contains("measured steps") && Contains("90 % of 20 draws") &&
                             Contains("costs that matter most") && Contains("not stated: d: w") &&
                             !Contains("targets met"));
}

TEST_CASE("every shipped file of measured steps can be asked, and says why others are not") {
  for (const std::string& name : known_names("steps")) {
    INFO(name);
    const StepsTable table = predicted_steps(name, 6);
    CHECK(table.id == name);
    CHECK_FALSE(table.source.empty());
    for (std::size_t i = 0; i < 6; ++i) {
      INFO(table.steps[i].name);
      CHECK(table.steps[i].predicted > Seconds(0));
      CHECK(table.steps[i].predicted_peak > Bytes(0));
    }
    for (const UnstatedStep& each : table.not_stated) CHECK_FALSE(each.why.empty());
  }
}
