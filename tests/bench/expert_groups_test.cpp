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

// A layer of DeepSeek-V3 on 8 nodes of 8 H100, whose links are described.
Seconds step(Backend& backend, int ep, int chunks) {
  ExperimentRequest request;
  request.cluster = "dgx-h100-rails";
  request.model = "deepseek-v3";
  request.set = {"workload.layers=4", "workload.batch=1",  "workload.sequence=4096",
                 "parallelism.mp=1",  "parallelism.esp=1", fmt::format("parallelism.ep={}", ep)};
  FilesRead files;
  std::vector<std::string> notes;
  Plan plan;
  plan.forward_degree = plan.backward_degree = chunks;
  const Experiment e = load_experiment(request, files, notes);
  backend.prepare(e);
  const PricedSchedule priced = price_plan(e, plan);
  return metrics(*priced.schedule, backend.run(priced)).makespan;
}

// Groups from the fastest to the slowest.
std::vector<int> order_of(const std::string& backend, int chunks, std::map<int, Seconds>& times) {
  for (const int ep : groups) times[ep] = step(*make_backend(backend), ep, chunks);
  std::vector<int> order(groups.begin(), groups.end());
  std::ranges::sort(order, {}, [&](int ep) { return times.at(ep); });
  return order;
}

}  // namespace

TEST_CASE("every backend says that experts on fewer nodes exchange faster") {
  for (const int chunks : {1, 4}) {
    std::map<int, Seconds> usual;
    const std::vector<int> order = order_of("analytic", chunks, usual);
    CHECK(order == std::vector<int>{16, 32, 64});  // more of an exchange leaves the node, whose links are faster
    for (const char* name : {"simgrid", "simgrid-flow"}) {
      std::map<int, Seconds> times;
      INFO(name << " in " << chunks << " chunks");
      CHECK(order_of(name, chunks, times) == order);
      for (const int ep : groups) {
        INFO(ep << ": " << times[ep].value() << " and " << usual[ep].value());
        CHECK(times[ep].value() == Approx(usual[ep].value()).epsilon(.05));
      }
    }
  }
}
