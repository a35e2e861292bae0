// SPDX-License-Identifier: Apache-2.0
#include "exec/host/stream_runtime.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "exec/run/emulation.hpp"
#include "exec/transport/rendezvous.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/schedule_writer.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

std::shared_ptr<const Schedule> random_schedule(unsigned seed, int streams, int ops) {
  std::mt19937 random(seed);
  ScheduleWriter writer(static_cast<std::size_t>(ops));
  for (int s = 0; s < streams; ++s) writer.add_stream(StreamKind::Compute);
  std::vector<TensorId> written;
  for (int i = 0; i < ops; ++i) {
    Op op;
    op.stream = static_cast<StreamId>(random() % static_cast<unsigned>(streams));
    std::vector<TensorId> reads;
    if (!written.empty())
      for (unsigned n = random() % 3; n > 0; --n) reads.push_back(written[random() % written.size()]);
    Tensor tensor;
    tensor.elements = 1;
    written.push_back(writer.add_tensor(tensor));
    writer.add_op(op, reads, {&written.back(), 1});
  }
  return std::make_shared<const Schedule>(writer.finish(6));
}

}  // namespace

TEST_CASE("Ops run after their stream's predecessor and their dependencies, each once per rank and step") {
  const auto schedule = random_schedule(GENERATE(range(0u, 10u)), GENERATE(1, 3), 60);
  const std::size_t ops = schedule->ops.size();
  std::vector<int> runs(2 * ops);
  std::vector<std::atomic<bool>> done(2 * ops);
  std::atomic<int> early = 0;
  Cancellation cancellation;
  StreamRuntime runtime(
      schedule, {0, 1}, Placement(0),
      [&](const OpRun& run) {
        const auto at = [&](OpId op) { return run.local * ops + static_cast<std::size_t>(op); };
        ++runs[at(run.op)];
        const Op& op = schedule->ops[run.op];
        for (OpId before : schedule->dependencies_of(op)) early += !done[at(before)];
        for (OpId before(0); before < run.op; ++before)
          if (schedule->ops[before].stream == op.stream) early += !done[at(before)];
        done[at(run.op)] = true;
        return static_cast<double>(run.op);
      },
      cancellation, [] {});
  for (int step = 1; step <= 3; ++step) {
    for (auto& d : done) d = false;
    runtime.run_step();
    CHECK(early == 0);
    CHECK(std::ranges::all_of(runs, [step](int n) { return n == step; }));
  }
}

TEST_CASE("The first failure ends a step in which others wait, and names op and rank") {
  const auto schedule = random_schedule(3, 3, 40);
  Cancellation cancellation;
  Rendezvous never(1000);
  StreamRuntime runtime(
      schedule, {4, 5}, Placement(0),
      [&](const OpRun& run) {
        if (run.local == 1 && run.op == 0) throw std::runtime_error("broken cable");
        if (run.local == 0) never.arrive_and_wait();
        return 0.0;
      },
      cancellation, [&] { never.cancel(); });
  for (int step = 0; step < 2; ++step)  // no step can follow it
    CHECK_THROWS_WITH(runtime.run_step(), Catch::Contains(to_string(schedule->ops[OpId(0)]) + ": broken cable") &&
                                              Catch::Contains("rank 5"));
}

TEST_CASE("A bug in an op stays a bug") {
  const auto schedule = random_schedule(1, 1, 3);
  Cancellation cancellation;
  StreamRuntime runtime(
      schedule, {0}, Placement(0), [](const OpRun&) -> double { throw InternalError("two is three"); }, cancellation,
      [] {});
  CHECK_THROWS_AS(runtime.run_step(), InternalError);
}

TEST_CASE("A failure ends a hold") {
  const auto schedule = random_schedule(2, 2, 20);
  Cancellation cancellation;
  StepClock clock;
  StreamRuntime runtime(
      schedule, {0, 1}, Placement(0),
      [&](const OpRun& run) -> double {
        if (run.local == 0) throw std::runtime_error("broken");
        clock.hold_until(1e6, false, cancellation);
        return 0;
      },
      cancellation, [] {});
  CHECK_THROWS_AS(runtime.run_step(), DeviceError);
}

TEST_CASE("Held ops take their durations, one after the other without delays adding up") {
  const auto schedule = random_schedule(7, 1, 20);
  Cancellation cancellation;
  Emulation emulation(IdVector<OpId, std::optional<Seconds>>(20, Seconds(2e-3)), Seconds(20e-3), false);
  StreamRuntime* self = nullptr;
  StreamRuntime runtime(
      schedule, {0}, Placement(0),
      [&](const OpRun& run) { return emulation.finish(run.op, run.ready, self->clock(), cancellation); }, cancellation,
      [] {});
  self = &runtime;
  const double time = runtime.run_step();
  CHECK(time >= 40e-3);
  CHECK(time < 60e-3);  // 20 wake-ups on a busy machine, each late by up to milliseconds, would exceed it
  CHECK(emulation.overruns() == 0);
  CHECK(runtime.times(0)[19].finish >= 40e-3);
}

TEST_CASE("An overrun is counted and delays the virtual finish") {
  Cancellation cancellation;
  StepClock clock;
  Emulation emulation({Seconds(1e-3), std::nullopt}, Seconds(1e-3), true);
  CHECK(emulation.finish(OpId(0), 0, clock, cancellation) >= 1e-3);
  clock.hold_until(5e-3, false, cancellation);
  CHECK(emulation.finish(OpId(0), 0, clock, cancellation) >= 4e-3);
  CHECK(emulation.overruns() == 1);
  CHECK(emulation.finish(OpId(1), 0, clock, cancellation) >= 5e-3);  // not held: now
  CHECK(emulation.overruns() == 1);
}
