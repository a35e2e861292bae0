// SPDX-License-Identifier: Apache-2.0
// Whole runs on a device of host memory: what a GPU's differ in is speed and the capture.
#include "exec/device/device_run.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "exec/device/device_executor.hpp"
#include "exec/device/device_memory.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec_device/counted_products.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// The first random experiment of softmax gates and two experts' ranks in fp32, whose rows really go elsewhere.
Experiment experiment_with_exchanges() {
  Random random(3);
  for (;;) {
    Experiment e = random_on_device(random);
    e.workload.gate = {};
    e.workload.dtype = DType::Fp32;
    e.model.expert_kind = ExpertKind::Gated;
    if (e.parallelism.ep > 1 && e.parallelism.pp == 1 && !refusal(Plan(), e)) return e;
  }
}

RunOptions quick(bool emulate) {
  RunOptions options;
  options.emulate_links = emulate;
  options.measure.min_samples = 3;
  options.measure.min_time = Seconds(0);
  options.measure.limit = Seconds(.2);
  return options;
}

std::shared_ptr<const PricedSchedule> priced_schedule(const Experiment& e) {
  return std::make_shared<const PricedSchedule>(price_plan(e, Plan()));
}

}  // namespace

TEST_CASE("A run with all ranks on a device checks its numerics and measures") {
  const auto device = make_loop_device();
  const Experiment e = experiment_with_exchanges();
  const RunResult r = run_on_device(*device, e, priced_schedule(e), quick(false));
  CHECK((r.report.numerics_ok && r.report.numerics_checked));
  CHECK(r.report.device == "cuda");
  CHECK(r.report.transport == "inproc");
  CHECK(r.report.ranks == e.cluster.gpus());
  CHECK(r.report.samples.size() >= 3);
  CHECK(r.report.emulated_share == 0);
  CHECK(r.timeline.ops.size() == r.predicted->duration.size());
}

TEST_CASE("Weights that nobody looks at are drawn for their first 2^20 elements, and repeat") {
  Experiment e = experiment_with_exchanges();
  e.model.hidden = 64;
  e.model.expert_hidden = 4096 * e.parallelism.esp;
  e.model.experts = 4 * e.parallelism.ep;  // 4 experts of 3 x 64 x 4096 elements on a rank: 3 x 2^20
  const Schedule schedule = build_schedule(e, Plan());
  const auto device = make_loop_device();
  const ModelData data = random_rank_data(7);
  DeviceMemory memory(*device, e, schedule, data, 0, Stored::Double);
  memory.prepare(*device->make_queue(), false);
  for (const TensorId i : schedule.tensors.ids()) {
    if (memory.tensors()[i] == nullptr || schedule.tensors[i].kind != TensorKind::ExpertWeights) continue;
    const auto values = memory.values(i);
    REQUIRE(values.size() == 3 << 20);
    std::vector<double> drawn(1 << 20);
    expert_numbers(e, data, schedule.tensors[i].layer, 0)(0, drawn);
    for (std::size_t repeat = 0; repeat < 3; ++repeat)
      CHECK(std::equal(drawn.begin(), drawn.end(), values.begin() + static_cast<std::ptrdiff_t>(repeat << 20)));
  }
}

TEST_CASE("Products of a rank that stands for all leave multiprocessors to its exchanges, unless told otherwise") {
  const Experiment e = experiment_with_exchanges();
  const auto made_for = [&](bool emulate, int told) {
    CountingDevice device;
    device.all_multiprocessors = 132;
    RunOptions options = quick(emulate);
    options.check_numerics = false;
    options.gemm_multiprocessors = told;
    const RunResult r = run_on_device(device, e, priced_schedule(e), options);
    CHECK_FALSE(r.report.numerics_checked);
    const auto says = [&](const std::string& note) { return note.find("products are made for") != std::string::npos; };
    CHECK(std::ranges::any_of(r.notes, says) == (device.products_made_for > 0));
    return device.products_made_for;
  };
  CHECK(made_for(true, 0) == 116);  // 132 - 16 blocks of an exchange
  CHECK(made_for(true, 132) == 132);
  CHECK(made_for(false, 0) == 0);  // all ranks on the device: exchanges are copies, and nothing is held
  CHECK(made_for(false, 100) == 100);
}

TEST_CASE("Routed messages are refused on a device, by name") {
  const auto device = make_loop_device();
  Experiment e = experiment_with_exchanges();
  e.workload.message_sizes = MessageSizes::Routed;
  CHECK_THROWS_WITH(run_on_device(*device, e, priced_schedule(e), quick(false)),
                    Catch::Contains("/workload/message_sizes: routed is simulated and runs on hosts, but not on "
                                    "devices yet"));
}

TEST_CASE("Sub-modules of a program's own and hooks are refused on a device, by name") {
  const auto device = make_loop_device();
  Experiment e = experiment_with_exchanges();
  e.extensions.gate = std::make_shared<HashGate>();
  constexpr auto line = "gate hash: sub-modules of a program's own are simulated and run on hosts, but not on devices";
  CHECK_THROWS_WITH(run_on_device(*device, e, priced_schedule(e), quick(false)), line);
  CHECK_THROWS_WITH(make_device_executor(*device, e, priced_schedule(e)->schedule, random_model_data(e, 1), {}), line);
  e.extensions = {};
  RunOptions hooked = quick(false);
  hooked.hooks.at(HookPoint::BeforeMoe) = [](const HookCall&) {};
  CHECK_THROWS_WITH(run_on_device(*device, e, priced_schedule(e), hooked),
                    "hooks are called on hosts, but not on devices");
}

TEST_CASE("Norms over heads of several ranks are refused on a device, by name") {
  const auto device = make_loop_device();
  Experiment e = experiment_with_exchanges();
  REQUIRE(e.parallelism.mp > 1);
  e.workload.extent = Extent::WholeLayers;
  e.model.attention.qk_norm = QkNorm::Width;
  CHECK_THROWS_WITH(
      run_on_device(*device, e, priced_schedule(e), quick(false)),
      Catch::Contains("/model/attention/qk_norm: width over several model-parallel ranks is simulated and "
                      "runs on hosts, but not on devices yet"));
}

TEST_CASE("A run on a device that trains reports its losses, which are judged in double alone") {
  const auto device = make_loop_device();
  Experiment e = experiment_with_exchanges();
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 40;
  RunOptions options = quick(false);
  options.train = 3;
  const RunResult in_float = run_on_device(*device, e, priced_schedule(e), options);
  REQUIRE(in_float.report.training);
  CHECK(in_float.report.training->losses.size() == 3);
  CHECK(in_float.report.training->loss_error < 1e-4);
  CHECK_FALSE(in_float.report.training->tolerance);
  CHECK(in_float.report.training->ok);
  const auto priced = priced_schedule(e);
  e.workload.dtype = DType::Fp64;
  const RunResult in_double = run_on_device(*device, e, priced, options);
  REQUIRE(in_double.report.training);
  CHECK(in_double.report.training->tolerance == 1e-12);
  CHECK(in_double.report.training->ok);
}

TEST_CASE("A run with a device for each rank checks its numerics and measures") {
  const Experiment e = experiment_with_exchanges();
  Cancellation cancellation;
  const RunResult r =
      run_on_devices(loop_group(e.cluster.gpus(), cancellation), e, priced_schedule(e), quick(false), cancellation);
  CHECK(r.report.numerics_ok);
  CHECK(r.report.transport == "host");
  CHECK(r.report.ranks == e.cluster.gpus());
  CHECK(r.report.samples.size() >= 3);
  CHECK(r.timeline.ops.size() == r.predicted->duration.size());
  const auto ran = [](const Interval& op) { return op.finish >= op.start && op.finish > Seconds(0); };
  CHECK(std::ranges::all_of(r.timeline.ops, ran));
}

TEST_CASE("One rank stands for all: its exchanges end when the model says, and only they are held") {
  const auto device = make_loop_device();
  const Experiment e = experiment_with_exchanges();
  const auto priced = priced_schedule(e);
  const RunResult r = run_on_device(*device, e, priced, quick(true));
  CHECK(r.report.transport == "emulated");
  CHECK(r.report.ranks == 1);
  CHECK(r.report.numerics_ok);  // of the step with all ranks
  CHECK(r.report.emulated_share > 0);
  int held = 0;
  for (const OpId i : r.timeline.ops.ids()) {
    const bool exchanges = priced->schedule->ops[i].collective() != Collective::None;
    CHECK(r.timeline.emulated[i] == exchanges);
    if (!exchanges) continue;
    ++held;
    CHECK(r.predicted->duration[i] == priced->duration[i]);
  }
  CHECK(held >= 4);  // dispatch and combine, forward and backward
}

TEST_CASE("Deadlines chain over exchanges, whatever comes late, and what is later than the tolerance overruns") {
  const auto device = make_loop_device();
  const Experiment e = experiment_with_exchanges();
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan()));
  DeviceSettings settings;
  settings.ranks = DeviceRanks::One;
  settings.exchange_durations.resize(schedule->ops.size());
  for (const OpId i : schedule->ops.ids())
    if (schedule->ops[i].collective() != Collective::None) settings.exchange_durations[i] = Seconds(.01);
  settings.overrun_tolerance = Seconds(10);
  const auto executor = make_device_executor(*device, e, schedule, random_model_data(e, 1), settings);
  // Ops of this device run one after the other, so that each waits for its own deadline at least once: those on the way
  // from encode to decode follow one another.
  CHECK(executor->run_step(Poison::No) >= Seconds(.04));  // dispatch and combine, forward and backward
  CHECK(executor->overruns() == 0);
  const Timeline t = executor->run_stamped();
  Seconds last;
  for (const OpId i : schedule->ops.ids()) {
    if (!t.emulated[i]) continue;
    CHECK(t.ops[i].finish >= last);
    last = t.ops[i].finish;
  }
}

TEST_CASE("A deadline counts from the latest op before, and a late end from as much as cannot be caught up") {
  // Ops before ended 4 ms and 7 ms ago. This one lasts 5 ms from the later one.
  std::int64_t moments[] = {0, 1000000, 4000000, 7000000, 0};
  const std::int32_t before[] = {2, 3};
  Hold hold;
  hold.moments = moments;
  hold.before = before;
  hold.count = 2;
  hold.until = 5000000;
  CHECK_FALSE(finish(hold, 12000000, 20000000));  // no op's end
  CHECK(moments[4] == 0);
  hold.finish = 4;
  hold.tolerance = 1000000;
  CHECK(deadline(hold, 8000000) == 12000000);
  CHECK_FALSE(finish(hold, 12000000, 12000000));
  CHECK(moments[4] == 12000000);
  // 12.5 ms: late, but within the tolerance, so that what follows counts from the deadline.
  CHECK_FALSE(finish(hold, 12000000, 12500000));
  CHECK(moments[4] == 12000000);
  // 15 ms: 2 ms more than the tolerance; what follows can catch up 1 ms.
  CHECK(finish(hold, 12000000, 15000000));
  CHECK(moments[4] == 14000000);
  // Never longer than it lasts, whatever the moments are.
  moments[3] = 900000000;
  CHECK(deadline(hold, 15000000) == 20000000);
}

TEST_CASE("Bytes of an exchange are due evenly until its end, and at once after it") {
  constexpr std::int64_t now = 1'795'788'000'000'000'000, gigabyte = 1'000'000'000;  // ns since 1970 in 2026
  // A quarter of the bytes is due after a quarter of 5 s, although 5e9 ns times 1e9 bytes is near 2^62.
  CHECK(due(now, now + 5'000'000'000, gigabyte / 4, gigabyte) == now + 1'250'000'000);
  CHECK(due(now, now + 50'000'000'000, gigabyte, gigabyte) == now + 50'000'000'000);  // here the product exceeds 2^63
  // A calibration gives a deadline of 0, which has passed long ago. Nothing may wait for it.
  for (const std::int64_t bytes : {std::int64_t{65536}, std::int64_t{32} << 20, gigabyte})
    CHECK(due(now, 0, bytes, bytes) == now);
  CHECK(due(now, now - 1, 1, 2) == now);
  CHECK(due(now, now, 1, 2) == now);
}

TEST_CASE("Blocks of an exchange share out every byte of all pieces, once") {
  // 64 KiB + 8 bytes, none, 100,000 and 17 bytes: 165,561 in all, or 10,348 units of 16 bytes.
  const std::vector<std::int64_t> sizes{65544, 0, 100000, 17};
  std::vector<std::byte> from(165561), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  std::vector<Piece> pieces;
  HeldExchange exchange;
  for (const std::int64_t size : sizes) {
    pieces.push_back({to.data() + exchange.bytes, from.data() + exchange.bytes, size});
    exchange.bytes += size;
  }
  exchange.pieces = pieces.data();
  exchange.count = std::ssize(pieces);
  for (const int blocks : {1, 3, 16}) {
    CAPTURE(blocks);
    exchange.blocks = blocks;
    std::int64_t sum = 0;
    std::ranges::fill(to, std::byte{255});
    for (int block = 0; block < blocks; ++block) {
      Share share(exchange, block);
      // Whole units, one more at most than others have; the last one is short.
      CHECK(share.bytes() >= 10348 / blocks * 16 - 7);
      CHECK(share.bytes() <= (10348 + blocks - 1) / blocks * 16);
      std::int64_t done = 0;
      for (Slice slice; share.next(slice);) {
        CHECK(slice.bytes <= largest_slice);
        std::copy_n(slice.from, slice.bytes, slice.to);
        done += slice.bytes;
        CHECK(slice.done == done);
      }
      CHECK(done == share.bytes());
      sum += done;
    }
    CHECK(sum == exchange.bytes);
    CHECK(to == from);
  }
}
