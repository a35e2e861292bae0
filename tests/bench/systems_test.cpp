// Every shipped system: it simulates on every kind of cluster, and its timeline of a small case is the approved one.
#include <catch2/catch.hpp>

#include "bench/backends.hpp"
#include "bench/evaluate.hpp"
#include "models/files/input_file.hpp"
#include "reports/gantt_text.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Question small_question(const std::string& system) {
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.request.set = {"workload.layers=2"};
  options.systems = {system};
  return load_question(options);
}

}  // namespace

TEST_CASE("timelines of every shipped system, as approved") {
  for (const std::string& system : known_names("systems")) {
    const Question question = small_question(system);
    const Candidate& candidate = question.candidates.front();
    const SystemResult result =
        evaluate(question.experiment, system, choose_plan(question, candidate), *make_backend("analytic"));
    const std::string text = system + ": " + candidate.system.description + "\n" +
                             reports::gantt_text(*result.schedule, result.timeline, {.columns = 180, .window = {}});
    CHECK(test::golden_difference("systems/" + system + ".txt", text) == "");
  }
}
