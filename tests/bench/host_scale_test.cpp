#include "bench/pipeline/host_scale.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/cli/options.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Question scaled(std::vector<std::string> set) {
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.request.set = std::move(set);
  options.systems = {"tutel"};
  Question question = load_question(options);
  scale_down(question, {}, 1, false);
  return question;
}

bool notes_groups(const Question& question) {
  return std::ranges::any_of(question.notes,
                             [](const std::string& note) { return note.starts_with("groups of a run"); });
}

}  // namespace

TEST_CASE("A run says what becomes of groups that were given") {
  const Question usual = scaled({}), uncut = scaled({"parallelism.esp=1", "parallelism.ep=8", "parallelism.edp=4"});
  CHECK_FALSE(notes_groups(usual));
  CHECK(usual.experiment.parallelism.esp == 2);
  CHECK(notes_groups(uncut));
  CHECK(uncut.experiment.parallelism.esp == 1);
  CHECK(uncut.experiment.parallelism.ep == 4);
}
