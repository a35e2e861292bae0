// SPDX-License-Identifier: Apache-2.0
// A result whose layout reads weights again says where they are taken to come from.
#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/pipeline/notes.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

// The notes on weights that are read again, of a step in this layout on a shipped cluster.
std::vector<std::string> notes_of(const std::string& cluster, Layout layout) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  request.set = {"workload.layers=1"};
  FilesRead files;
  Report report;
  report.kind = "simulate";
  report.experiment = load_experiment(request, files, report.notes);
  SystemResult result;
  result.plan.layout = layout;
  result.schedule = std::make_shared<const Schedule>(build_schedule(report.experiment, result.plan));
  result.metrics.makespan = Seconds(1);
  report.results.push_back(result);
  add_limits(report);
  std::erase_if(report.notes, [](const std::string& note) { return note.find("rank_major") == std::string::npos; });
  return report.notes;
}

}  // namespace

TEST_CASE("rank_major says whether its weights come from the L2 cache") {
  CHECK(notes_of("dgx-h100", Layout::ExpertMajor).empty());
  const auto known = notes_of("dgx-h100", Layout::RankMajor);
  REQUIRE(known.size() == 1);
  CHECK_THAT(known.front(), Contains("50.0 MiB of L2 cache") && Contains("(assumed)"));
  const auto unknown = notes_of("dgx-b200", Layout::RankMajor);
  REQUIRE(unknown.size() == 1);
  CHECK_THAT(unknown.front(), Contains("each time from device memory: calibration dgx-b200 does not say"));
  // An RTX 2080 Ti has a known size and no known bandwidth.
  CHECK_THAT(notes_of("fsmoe-testbed-b", Layout::RankMajor).at(0), Contains("calibration fsmoe-testbed-b"));
}
