// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/host_backend.hpp"

#include "exec/host/host_executor.hpp"
#include "exec/transport/inproc_transport.hpp"

namespace dovetail::test {

using namespace exec;

std::unique_ptr<Transport> inproc_transport_of(const Schedule& schedule) {
  int ranks = 0;
  for (const RankClass& c : schedule.classes) ranks += c.ranks;
  return make_inproc_transport(schedule.groups, ranks, static_cast<int>(schedule.streams.size()));
}

Timeline HostBackend::run(const PricedSchedule& priced) {
  const ModelData data = random_model_data(experiment_, 3, priced.schedule->micro_batches);
  const std::unique_ptr<Transport> transport = make_(*priced.schedule);
  const auto executor = make_host_executor(experiment_, priced.schedule, Element::Float, data, {}, *transport);
  executor->run_step(Poison::Yes);
  return executor->timeline();
}

}  // namespace dovetail::test
