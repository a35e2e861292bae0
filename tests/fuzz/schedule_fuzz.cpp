// SPDX-License-Identifier: Apache-2.0
// Schedule files with a field or two changed at random: each is refused in one line, or it runs and computes what the
// reference does. More than the tests draw: DOVETAIL_FUZZ_COUNT files from DOVETAIL_FUZZ_SEED on.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/files/read_schedule.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/fuzz/from_environment.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

using Json = nlohmann::ordered_json;
using test::Random;

constexpr int files_of_a_schedule = 10;
constexpr unsigned patience = 60;  // seconds for one file: far more than one takes, even under sanitizers

std::size_t below(Random& random, std::size_t count) {
  return random() % count;
}

// A schedule of the whole plan space.
Json random_file(Random& random) {
  const Experiment e = test::random_experiment(random);
  const Plan plan = test::random_legal_plan(random, e);
  return to_json(ScheduleFile{e, plan, price_plan(e, plan)});
}

// Each level's parts are as likely as one another, so that the plan is met as often as a thousand ops.
Json::json_pointer random_place(Random& random, const Json& file) {
  Json::json_pointer place;
  for (const Json* value = &file; value->is_structured() && !value->empty() && (place.empty() || below(random, 8) > 0);
       value = &file[place]) {
    auto member = value->begin();
    std::advance(member, static_cast<std::ptrdiff_t>(below(random, value->size())));
    if (value->is_object())
      place /= member.key();
    else
      place /= static_cast<std::size_t>(member - value->begin());
  }
  return place;
}

Json random_number(Random& random, const Json& was) {
  static const std::array<Json, 16> odd{0,          1,          -1,       2,        3,   7,     32767, 32768,
                                        2147483647, 4294967296, 1L << 53, 1L << 62, 0.5, -1e-9, 1e18,  1e308};
  const double value = was.get<double>();
  const bool whole = was.is_number_integer();
  const auto wrapped = [](std::uint64_t number) { return Json(static_cast<std::int64_t>(number)); };
  const auto number = whole ? static_cast<std::uint64_t>(was.get<std::int64_t>()) : 0;
  switch (below(random, 6)) {
    case 0:
      return whole ? wrapped(number + 1) : Json(value * 2);
    case 1:
      return whole ? wrapped(number - 1) : Json(value / 2);
    case 2:
      return whole ? wrapped(number * 2) : Json(-value);
    default:
      return odd[below(random, odd.size())];
  }
}

// A text that stands in the file somewhere, so that names of other values are met.
Json random_text(Random& random, const Json& file) {
  for (int tries = 0; tries < 20; ++tries)
    if (const Json& value = file[random_place(random, file)]; value.is_string()) return value;
  return "none";
}

void change_list(Random& random, Json& list) {
  const std::size_t at = below(random, list.size()), other = below(random, list.size());
  switch (below(random, 4)) {
    case 0:
      list.erase(at);
      break;
    case 1:
      list.push_back(Json(list[at]));
      break;
    case 2:
      list = Json::array();
      break;
    default:
      std::swap(list[at], list[other]);
  }
}

void change(Random& random, Json& file) {
  const Json::json_pointer place = random_place(random, file);
  Json& value = file[place];
  if (below(random, 12) == 0) {
    value = file[random_place(random, file)];
  } else if (below(random, 12) == 0 && !place.empty() && file[place.parent_pointer()].is_object()) {
    file[place.parent_pointer()].erase(place.back());
  } else if (value.is_number()) {
    value = random_number(random, value);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_string()) {
    value = random_text(random, file);
  } else if (value.is_array() && !value.empty()) {
    change_list(random, value);
  } else if (value.is_array()) {
    value.push_back(0);
  } else {
    value = nullptr;
  }
}

// Names the file that takes too long: a test cannot go on after it.
std::array<char, 64> late_line{};
extern "C" void dovetail_on_late_file(int) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, late_line.data(), std::strlen(late_line.data()));
  ::_exit(1);
}

struct Counts {
  int refused = 0, run = 0;
};

void try_file(Random& random, const std::string& text, Counts& counts) {
  exec::RunOptions how;
  how.emulate_links = below(random, 2) == 0;
  how.check_numerics = below(random, 3) > 0;
  how.measure.limit = Seconds(0);
  try {
    ScheduleFile file = read_schedule(JsonFile::parse(text, "s.json"));
    const auto priced = std::make_shared<const PricedSchedule>(std::move(file.priced));
    const exec::RunResult result = exec::run_on_host(file.experiment, priced, how);
    ++counts.run;
    if (how.check_numerics) CHECK(result.report.numerics_ok);
  } catch (const InputError& error) {
    ++counts.refused;
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("A schedule file that was changed at random is refused or runs") {
  const std::uint64_t count = test::from_environment("DOVETAIL_FUZZ_COUNT", 300),
                      first = test::from_environment("DOVETAIL_FUZZ_SEED", 1);
  ::signal(SIGALRM, dovetail_on_late_file);
  Counts counts;
  Json original;
  for (unsigned long seed = first; seed < first + count; ++seed) {
    Random random(static_cast<Random::result_type>(seed));
    if (seed == first || seed % files_of_a_schedule == 0) {
      Random of_schedule(static_cast<Random::result_type>(seed / files_of_a_schedule));
      original = random_file(of_schedule);
    }
    Json file = original;
    for (std::size_t changes = 1 + below(random, 2); changes > 0; --changes) change(random, file);
    const std::string text = file.dump(1);
    if (const char* const path = std::getenv("DOVETAIL_FUZZ_KEEP")) std::ofstream(path) << text;
    std::snprintf(late_line.data(), late_line.size(), "schedule fuzz: seed %lu takes too long\n", seed);
    ::alarm(patience);
    CAPTURE(seed);
    CHECK_NOTHROW(try_file(random, text, counts));
    ::alarm(0);
  }
  WARN(counts.refused << " refused, " << counts.run << " run");
  CHECK(counts.refused > 0);
}
