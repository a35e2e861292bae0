// SPDX-License-Identifier: Apache-2.0
// Groups of experts on few or many nodes: whatever computes the times, the same group is faster.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "bench/pipeline/backends.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

constexpr std::array groups{16, 32, 64};

// A layer of DeepSeek-V3 on 8 nodes of 8 H100, whose links are described. Overlap is ideal, because flows of SimGrid
// know no interference.
Seconds step(Backend& backend, int ep, int chunks) {
  ExperimentRequest request;
  request.cluster = "dgx-h100-rails";
  request.model = "deepseek-v3";
  request.set = {"workload.layers=4",      "workload.batch=1", "workload.sequence=4096",
                 "workload.extent=layers", "parallelism.mp=1", "parallelism.esp=1",
                 "overlap=ideal",          "framework=bare",   fmt::format("parallelism.ep={}", ep)};
  FilesRead files;
  std::vector<std::string> notes;
  Plan plan;
  if (chunks > 1) plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = chunks;
  const Experiment e = load_experiment(request, files, notes);
  backend.prepare(e);
  const PricedSchedule priced = price_plan(e, plan);
  return metrics(*priced.schedule, backend.run(priced)).makespan;
}

// Groups from the fastest to the slowest.
std::vector<int> order_of(const std::string& backend, int chunks, std::map<int, Seconds>& times) {
  const std::unique_ptr<Backend> computes = make_backend(backend);
  for (const int ep : groups) times[ep] = step(*computes, ep, chunks);
  std::vector<int> order(groups.begin(), groups.end());
  std::ranges::sort(order, {}, [&](int ep) { return times.at(ep); });
  return order;
}

// `name` against the default backend. A process has one simulation by SimGrid, so that each backend has a test.
void compare(const std::string& name) {
  for (const int chunks : {1, 4}) {
    std::map<int, Seconds> usual, times;
    INFO(name << " in " << chunks << " chunks");
    CHECK(order_of("analytic", chunks, usual) == std::vector<int>{16, 32, 64});  // less of an exchange leaves a node
    CHECK(order_of(name, chunks, times) == std::vector<int>{16, 32, 64});
    for (const int ep : groups) {
      INFO(ep << ": " << times[ep].value() << " and " << usual[ep].value());
      CHECK(times[ep].value() == Approx(usual[ep].value()).epsilon(.05));
    }
  }
}

}  // namespace

TEST_CASE("experts on fewer nodes exchange faster, by fair sharing and by SimGrid") {
  compare("simgrid");
}

TEST_CASE("experts on fewer nodes exchange faster, by fair sharing and by flows of SimGrid") {
  compare("simgrid-flow");
}
