// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/host_scale.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/cli/options.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Question scaled(std::vector<std::string> set, const std::string& system = "tutel") {
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.request.set = std::move(set);
  options.systems = {system};
  Question question = load_question(options);
  scale_down(question, {}, 1, false);
  return question;
}

bool notes_repeated(const Question& question) {
  return std::ranges::any_of(question.notes, [](const std::string& note) {
    return note.starts_with("deepspeed_moe does without parallelism.sequence_parallel");
  });
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

TEST_CASE("A run of a system that repeats tokens has an experiment that does, wherever its own groups allow it") {
  // The second has experts in half as many shards as mp, but the two ranks of a run's node have both.
  for (const std::vector<std::string>& set :
       {std::vector<std::string>{}, {"parallelism.esp=2", "parallelism.ep=8", "parallelism.edp=2"}}) {
    const Question question = scaled(set, "deepspeed_moe");
    CHECK(question.experiment.parallelism.repeats_tokens());
    CHECK(notes_repeated(question));
  }
  const Question uncut = scaled({"parallelism.esp=1", "parallelism.ep=8", "parallelism.edp=4"}, "deepspeed_moe");
  CHECK_FALSE(uncut.experiment.parallelism.repeats_tokens());
  CHECK_FALSE(notes_repeated(uncut));
  CHECK_FALSE(scaled({"parallelism.sequence_parallel=true"}, "deepspeed_moe").experiment.parallelism.repeats_tokens());
}
