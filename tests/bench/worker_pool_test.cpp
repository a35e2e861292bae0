// SPDX-License-Identifier: Apache-2.0
// Pieces of work in forked processes.
#include "bench/sweep/worker_pool.hpp"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <stdexcept>
#include <vector>

#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

std::string with_process(std::int64_t piece) {
  return std::to_string(piece) + " " + std::to_string(getpid());
}

}  // namespace

TEST_CASE("Every piece is worked on once, in as many processes as there are workers") {
  for (const int workers : {1, 2, 3}) {
    std::vector<int> times(20);
    std::map<std::string, int> processes;
    for_each_piece(20, workers, with_process, [&](std::int64_t piece, const std::string& result) {
      ++times[static_cast<std::size_t>(piece)];
      const std::size_t space = result.find(' ');
      CHECK(result.substr(0, space) == std::to_string(piece));
      ++processes[result.substr(space + 1)];
    });
    CHECK(times == std::vector<int>(20, 1));
    CHECK(processes.size() == static_cast<std::size_t>(workers));  // each has a piece before any gets a second
    CHECK(processes.contains(std::to_string(getpid())) == (workers == 1));
  }
}

TEST_CASE("No pieces are no work, and more workers than pieces do no harm") {
  int done = 0;
  const auto count = [&](std::int64_t, const std::string&) { ++done; };
  for_each_piece(0, 2, with_process, count);
  CHECK(done == 0);
  for_each_piece(1, 4, with_process, count);
  CHECK(done == 1);
}

TEST_CASE("Results of any size arrive whole") {
  const auto work = [](std::int64_t piece) { return std::string(static_cast<std::size_t>(piece) * 300'000, 'x'); };
  std::size_t bytes = 0;
  for_each_piece(5, 2, work, [&](std::int64_t, const std::string& result) { bytes += result.size(); });
  CHECK(bytes == (0 + 1 + 2 + 3 + 4) * 300'000u);
}

TEST_CASE("What a worker throws comes out here, and a worker that dies is told from it") {
  const auto nothing = [](std::int64_t, const std::string&) {};
  const auto throws = [](std::int64_t piece) -> std::string {
    if (piece == 3) throw std::runtime_error("no such thing");
    return "";
  };
  CHECK_THROWS_AS(for_each_piece(8, 2, throws, nothing), InternalError);
  CHECK_THROWS_WITH(for_each_piece(8, 2, throws, nothing), "piece 3: no such thing");
  const auto dies = [](std::int64_t piece) -> std::string {
    if (piece == 3) raise(SIGKILL);
    return "";
  };
  CHECK_THROWS_AS(for_each_piece(8, 2, dies, nothing), DeviceError);
  CHECK_THROWS_WITH(for_each_piece(8, 2, dies, nothing), Catch::Contains("died in piece 3"));
}
