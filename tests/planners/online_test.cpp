// SPDX-License-Identifier: Apache-2.0
// Tests of what all online planners share: their state, their refusals, and states that survive any end of the program.
#include "planners/online/online.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::planners;
using Catch::Matchers::Contains;

namespace {

OnlineSettings settings(std::vector<std::string> strategies = {"1", "2", "4"}) {
  OnlineSettings s{std::move(strategies), "a model on a cluster", .5, {}};
  for (std::size_t i = 0; i < s.strategies.size(); ++i)
    s.lines.push_back({Bytes(static_cast<double>(i)), Bytes(3 - static_cast<double>(i))});
  return s;
}

double time_of(std::size_t strategy, double load) {
  const double degree = std::pow(2, static_cast<double>(strategy));
  return degree + load * (1 + 1 / degree);
}

void train(OnlinePlanner& planner, int steps, std::mt19937& engine) {
  for (int i = 0; i < steps; ++i) {
    const StepSize step{std::uniform_real_distribution(.1, 6.0)(engine), 2};
    planner.report(Seconds(time_of(planner.choose(step), step.load())));
  }
}

std::string refusal(OnlinePlanner& planner, const std::string& state) {
  try {
    planner.restore(JsonFile::parse(state, "s.json"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& state, const char* pointer, nlohmann::ordered_json value) {
  auto json = nlohmann::ordered_json::parse(state);
  json[nlohmann::ordered_json::json_pointer(pointer)] = std::move(value);
  return json.dump(1);
}

}  // namespace

TEST_CASE("online planners are found by name") {
  for (const std::string& name : online_names()) CHECK(make_online(name, settings())->name() == name);
  CHECK_THROWS_WITH(make_online("bucket_search", settings()), Contains("did you mean \"bucketed_search\""));
  CHECK_THROWS_WITH(make_online("bucketed_search", settings({"a", "b", "a"})), Contains("\"a\" twice"));
  CHECK_THROWS_WITH(make_online("bucketed_search", settings({})), Contains("no strategies"));
}

TEST_CASE("An online planner goes on from its state as if it had never stopped") {
  for (const std::string& name : online_names())
    for (int steps : {0, 1, 7, 200}) {
      INFO(name << " after " << steps << " steps");
      std::mt19937 engine(9);
      const auto first = make_online(name, settings());
      train(*first, steps, engine);
      first->choose({1.5, 2});  // not reported yet
      const auto second = make_online(name, settings());
      second->restore(JsonFile::parse(first->state(), "state"));
      CHECK(second->state() == first->state());
      REQUIRE(second->pending());
      CHECK(second->pending()->strategy == first->pending()->strategy);
      for (OnlinePlanner* planner : {first.get(), second.get()}) planner->report(Seconds(4));
      std::mt19937 same = engine;
      train(*first, 300, engine);
      train(*second, 300, same);
      CHECK(second->state() == first->state());
    }
}

TEST_CASE("A state of others is refused in one line, and nothing is lost") {
  for (const std::string& name : online_names()) {
    INFO(name);
    std::mt19937 engine(2);
    const auto planner = make_online(name, settings());
    train(*planner, 20, engine);
    const std::string state = planner->state();
    CHECK_THAT(refusal(*planner, with(state, "/strategies/1", "3")),
               Contains("/strategies: this state was learned for other strategies"));
    CHECK_THAT(refusal(*planner, with(state, "/context", "x")),
               Contains("s.json:5:") && Contains("for another experiment"));
    for (const std::string& other : online_names())
      if (other != name) CHECK_THAT(refusal(*planner, with(state, "/planner", other)), Contains("learned by " + other));
    CHECK_THAT(refusal(*planner, with(state, "/schema_version", "2.0")),
               Contains("s.json:2:") && Contains("/schema_version"));
    CHECK_THAT(refusal(*planner, with(state, "/kind", "result")), Contains("s.json:3:") && Contains("online_state"));
    CHECK_NOTHROW(validate(JsonFile::parse(state, "s.json"), load_schema("online_state")));
    CHECK_THAT(refusal(*planner, state.substr(0, state.size() / 2)), Contains("s.json:"));
    CHECK_THAT(refusal(*planner, with(state, "/pending", {{"capacity_factor", 1}, {"tokens", 1}, {"strategy", 3}})),
               Contains("/pending/strategy"));
    CHECK(planner->state() == state);
  }
}

TEST_CASE("What a planner learned is checked when it is read") {
  std::mt19937 engine(2);
  const auto buckets = make_online("bucketed_search", settings());
  train(*buckets, 20, engine);
  const std::string state = buckets->state();
  CHECK_THAT(refusal(*buckets, with(state, "/loads/0/timings", {{1, 2}})), Contains("1 entries, expected 3"));
  CHECK_THAT(refusal(*buckets, with(state, "/loads/0/load", 0)), Contains("/loads/0/load"));
  CHECK_THAT(refusal(*buckets, with(state, "/loads/1/load", 1e300)), Contains("too large"));
  CHECK_THAT(refusal(*buckets, with(state, "/loads/0/timings/0/0", .5)), Contains("/loads/0/timings/0/0"));
  const auto ranges = make_online("granularity_search", settings());
  train(*ranges, 200, engine);
  const std::string learned = ranges->state();
  REQUIRE(nlohmann::json::parse(learned)["ranges"].size() > 1);
  CHECK_THAT(refusal(*ranges, with(learned, "/ranges/0/high", 1e9)), Contains("/ranges/1: expected disjoint ranges"));
  CHECK_THAT(refusal(*ranges, with(learned, "/ranges/0/strategy", 3)), Contains("/ranges/0/strategy"));
}

TEST_CASE("Sizes, times and reports without meaning are refused") {
  const auto planner = make_online("bucketed_search", settings());
  CHECK_THROWS_WITH(planner->report(Seconds(1)), Contains("nothing was chosen"));
  for (double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_AS(planner->choose({bad, 1}), InputError);
    CHECK_THROWS_AS(planner->choose({1, bad}), InputError);
    CHECK_THROWS_AS(planner->report({1, 1}, 0, Seconds(bad)), InputError);
  }
  CHECK_THROWS_AS(planner->choose({1e200, 1e200}), InputError);
  CHECK_THROWS_WITH(planner->report({1, 1}, 3, Seconds(1)), Contains("strategy 3, expected 0 to 2"));
  planner->choose({1, 1});
  planner->report(Seconds(1));
  CHECK_THROWS_AS(planner->report(Seconds(1)), InputError);  // once for each choice
}

TEST_CASE("A state file is whole whenever the program is killed") {
  const test::TemporaryFolder folder;
  const auto planner = make_online("bucketed_search", settings());
  CHECK_FALSE(planner->load("state.json"));
  std::mt19937 engine(4);
  train(*planner, 2000, engine);
  planner->save("state.json");
  for (int i = 0; i < 12; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        planner->choose({1, 1});
        planner->report(Seconds(1));
        planner->save("state.json");
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + 3 * i));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const auto after = make_online("bucketed_search", settings());
    CHECK(after->load("state.json"));
  }
}
