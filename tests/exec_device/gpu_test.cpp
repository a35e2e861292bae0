// SPDX-License-Identifier: Apache-2.0
// Only a GPU shows these: the same steps there, captured or not, how long holds and exchanges last, and what its clock,
// marks and launches take.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/device/device_memory.hpp"
#if DOVETAIL_HAS_NCCL
#include "exec/device/nccl/nccl_network.hpp"
#endif
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/exec_device/device_probes.hpp"
#include "tests/exec_device/tensor_errors.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Ends the program as skipped where there is no GPU.
std::unique_ptr<ComputeDevice> gpu() {
  if (cuda_devices() > 0) return make_cuda_device(0);
  std::puts("skipped: no CUDA device here");
  std::exit(77);
}

// A layer of the given products' width whose exchanges last some ms, alone on a GPU.
struct HeldStep {
  Experiment experiment;
  std::shared_ptr<const Schedule> schedule;
  DeviceSettings settings;
};
HeldStep held_step(Seconds exchange) {
  Random random(3);
  for (;;) {
    HeldStep step;
    step.experiment = random_on_device(random);
    step.experiment.workload.gate = {};
    if (step.experiment.parallelism.ep < 2 || step.experiment.parallelism.pp > 1 || refusal(Plan(), step.experiment))
      continue;
    step.schedule = std::make_shared<const Schedule>(build_schedule(step.experiment, Plan()));
    step.settings.ranks = DeviceRanks::One;
    step.settings.overrun_tolerance = Seconds(1);
    step.settings.exchange_blocks = 4;
    for (const Op& op : step.schedule->ops)
      step.settings.exchange_durations.push_back(op.collective() != Collective::None ? std::optional(exchange)
                                                                                     : std::nullopt);
    return step;
  }
}

// Products that keep a GPU busy for some ms.
void multiply_for_long(ComputeDevice& device, Queue& queue, std::vector<std::unique_ptr<Memory>>& memory) {
  constexpr std::int64_t size = 8192;
  while (memory.size() < 3) memory.push_back(device.allocate(size * size * 2, Place::Device));
  const auto matrix = [&](std::size_t i) {
    return Matrix<Bf16>(reinterpret_cast<Bf16*>(memory[i]->data()), size, size);
  };
  const Product p = product<Bf16>(Matrix<const Bf16>(matrix(0)), Matrix<const Bf16>(matrix(1)), matrix(2));
  for (int i = 0; i < 8; ++i) queue.multiply(p);
}

}  // namespace

TEST_CASE("Every kernel leaves on a GPU what its body leaves on the host, in double, float and bf16") {
  check_tensors_on_device(*gpu(), 10);
}

TEST_CASE("Random plans compute on a GPU what the reference does") {
  const auto device = gpu();
  Random random(31);
  int run = 0;
  for (std::uint64_t i = 0; run < 60; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    check_on_device(*device, e, plan, {Stored::Double, true, false, i});
    ++run;
  }
}

TEST_CASE("Gates of a GPU choose experts and slots as the reference does") {
  const auto device = gpu();
  Random random(5);
  int run = 0;
  for (std::uint64_t i = 0; run < 20; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    check_on_device(*device, e, plan, {Stored::Double, false, false, i});
    ++run;
  }
}

TEST_CASE("Shipped systems compute on a GPU what the reference does, in double, float and bf16") {
  const auto device = gpu();
  check_systems_on_device(*device, false);
}

TEST_CASE("A captured step computes what the step does") {
  const auto device = gpu();
  check_systems_on_device(*device, true);
}

TEST_CASE("A hold on a GPU lasts as long as it was told, alone and beside products") {
  const auto device = gpu();
  const auto queue = device->make_queue(Priority::High), beside = device->make_queue();
  const auto begin = device->make_event(), end = device->make_event();
  const auto moment = device->allocate(8, Place::Device);
  auto* const at = reinterpret_cast<std::int64_t*>(moment->data());
  std::vector<std::unique_ptr<Memory>> matrices;
  multiply_for_long(*device, *beside, matrices);  // loads the kernels
  device->mark(*queue, at);
  device->hold(*queue, at, Seconds(0));
  device->synchronize();
  constexpr double told = .004;
  for (bool products : {false, true}) {
    CAPTURE(products);
    queue->record(*begin);
    beside->wait(*begin);
    device->mark(*queue, at);
    if (products) multiply_for_long(*device, *beside, matrices);
    device->hold(*queue, at, Seconds(told));
    queue->record(*end);
    device->synchronize();
    CHECK(device->elapsed(*begin, *end).value() >= .95 * told);  // clocks of events and kernels may tick apart
    CHECK(device->elapsed(*begin, *end).value() <= 1.05 * told);
  }
}

TEST_CASE("Two queues of a GPU overlap under a hold") {
  const auto device = gpu();
  const auto held = device->make_queue(Priority::High), busy = device->make_queue();
  const auto begin = device->make_event(), hold_ends = device->make_event(), products_end = device->make_event();
  const auto moment = device->allocate(8, Place::Device);
  auto* const at = reinterpret_cast<std::int64_t*>(moment->data());
  std::vector<std::unique_ptr<Memory>> matrices;
  multiply_for_long(*device, *busy, matrices);
  device->synchronize();
  held->record(*begin);
  busy->wait(*begin);
  device->mark(*held, at);
  device->hold(*held, at, Seconds(.1));  // longer than the products
  multiply_for_long(*device, *busy, matrices);
  held->record(*hold_ends);
  busy->record(*products_end);
  device->synchronize();
  CHECK(device->elapsed(*begin, *products_end) < .5 * device->elapsed(*begin, *hold_ends));
}

TEST_CASE("The clock of a GPU, marks, an empty graph and a launch: what each takes") {
  const ClockFigures f = measure_clock(*gpu());
  std::fputs(lines(f).c_str(), stdout);
  CHECK(f.resolution > Seconds(0));
  CHECK(f.resolution <= Seconds(2e-6));
  CHECK(f.smallest_step >= f.resolution);
  for (Seconds time : {f.mark, f.captured_mark, f.empty_op, f.graph_launch, f.launch}) CHECK(time > Seconds(0));
}

TEST_CASE("A product of a GPU on all multiprocessors, alone and beside an exchange of 16 blocks") {
  const ProductsBesideExchange f = measure_beside_exchange(*gpu(), 4096, 16);
  std::printf("bf16, 4096 x 4096 x 4096: %s", line(f).c_str());
  CHECK(f.alone > Seconds(0));
  CHECK(f.beside > Seconds(0));
}

TEST_CASE("An exchange of one rank copies every byte, on all its blocks, and ends at its deadline") {
  const auto device = gpu();
  const auto queue = device->make_queue(Priority::High);
  const auto begin = device->make_event(), end = device->make_event();
  constexpr std::int64_t bytes = (8 << 20) + 7, odd = 1001;  // not a multiple of what is copied at once
  const auto from = device->allocate(bytes, Place::Device), to = device->allocate(bytes + odd, Place::Device);
  const auto moments = device->allocate(8 * 3, Place::Device), done = device->allocate(4, Place::Device);
  std::vector<std::byte> sent(bytes), arrived(bytes + odd);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
  const std::vector<Piece> pieces{{to->data(), from->data(), bytes}, {to->data() + bytes, from->data(), odd}};
  const auto table = device->allocate(std::ssize(pieces) * std::int64_t{sizeof(Piece)}, Place::Device);
  device->copy_now(table->data(), pieces.data(), table->bytes());
  device->copy_now(from->data(), sent.data(), bytes);
  for (int blocks : {1, 4, 16}) {
    CAPTURE(blocks);
    queue->fill(to->data(), 0xff, bytes + odd);
    queue->fill(moments->data(), 0, moments->bytes());
    queue->fill(done->data(), 0, 4);
    HeldExchange exchange;
    exchange.hold.moments = reinterpret_cast<std::int64_t*>(moments->data());
    device->mark(*queue, exchange.hold.moments);
    exchange.hold.until = ComputeDevice::nanoseconds(Seconds(.004));
    exchange.hold.finish = 2;
    exchange.hold.tolerance = ComputeDevice::nanoseconds(Seconds(1));
    exchange.pieces = reinterpret_cast<const Piece*>(table->data());
    exchange.count = std::ssize(pieces);
    exchange.bytes = bytes + odd;
    exchange.done = reinterpret_cast<std::int32_t*>(done->data());
    exchange.blocks = blocks;
    queue->record(*begin);
    device->exchange(*queue, exchange);
    queue->record(*end);
    device->synchronize();
    device->copy_now(arrived.data(), to->data(), bytes + odd);
    CHECK(std::equal(sent.begin(), sent.end(), arrived.begin()));
    CHECK(std::equal(sent.begin(), sent.begin() + odd, arrived.begin() + bytes));
    CHECK(device->elapsed(*begin, *end).value() >= .0038);
    CHECK(device->elapsed(*begin, *end).value() <= .0042);
    std::int32_t left = 1;
    device->copy_now(&left, done->data(), 4);
    CHECK(left == 0);
  }
}

TEST_CASE("An exchange beside products ends at its deadline, in a graph too") {
  const auto device = gpu();
  const auto origin = device->make_queue(), busy = device->make_queue(), high = device->make_queue(Priority::High);
  const auto fork = device->make_event(), products_end = device->make_event(), exchange_ends = device->make_event();
  const auto moments = device->allocate(8 * 4, Place::Device), done = device->allocate(4, Place::Device);
  auto* const at = reinterpret_cast<std::int64_t*>(moments->data());
  std::vector<std::unique_ptr<Memory>> matrices;
  multiply_for_long(*device, *busy, matrices);  // some ms in several kernels, each of which fills the GPU
  device->synchronize();
  HeldExchange exchange;
  exchange.hold.moments = at;
  exchange.hold.until = ComputeDevice::nanoseconds(Seconds(.004));
  exchange.hold.finish = 2;
  exchange.hold.tolerance = ComputeDevice::nanoseconds(Seconds(1));
  exchange.done = reinterpret_cast<std::int32_t*>(done->data());
  exchange.blocks = 16;
  const auto issue = [&] {
    device->mark(*origin, at);
    origin->record(*fork);
    high->wait(*fork);
    busy->wait(*fork);
    multiply_for_long(*device, *busy, matrices);
    multiply_for_long(*device, *busy, matrices);
    device->exchange(*high, exchange);
    device->mark(*high, at + 3);
    high->record(*exchange_ends);
    busy->record(*products_end);
    origin->wait(*exchange_ends);
    origin->wait(*products_end);
  };
  const auto graph = device->capture(*origin, issue);
  REQUIRE(graph != nullptr);
  for (bool captured : {false, true}) {
    CAPTURE(captured);
    origin->fill(moments->data(), 0, moments->bytes());
    origin->fill(done->data(), 0, done->bytes());
    device->synchronize();
    captured ? graph->launch(*origin) : issue();
    device->synchronize();
    std::array<std::int64_t, 4> times{};
    device->copy_now(times.data(), moments->data(), moments->bytes());
    CHECK(1e-9 * static_cast<double>(times[3] - times[0]) >= .0038);
    CHECK(1e-9 * static_cast<double>(times[3] - times[0]) <= .0045);
  }
}

TEST_CASE("One rank stands for all on a GPU: captured, and its exchanges last as long as the model says") {
  const auto device = gpu();
  const HeldStep step = held_step(Seconds(.005));
  const auto executor = make_device_executor(*device, step.experiment, step.schedule,
                                             random_model_data(step.experiment, 1), step.settings);
  executor->run_step(Poison::No);
  REQUIRE(executor->capture() == "");
  const Timeline t = executor->run_stamped();
  CHECK(executor->overruns() == 0);
  int held = 0;
  for (const OpId i : t.ops.ids()) {
    if (!t.emulated[i]) continue;
    ++held;
    INFO(to_string(step.schedule->ops[i]));
    CHECK((t.ops[i].finish - t.ops[i].start).value() <= .00525);
  }
  CHECK(held >= 4);
  CHECK(executor->run_step(Poison::No).value() >= .0195);  // dispatch and combine, forward and backward
}

#if DOVETAIL_HAS_NCCL
TEST_CASE("Every collective of NCCL can be captured, and brings one rank its own data") {
  const auto device = gpu();
  constexpr std::int64_t count = 100003, bytes = count * 4, calls = 6;
  const Cancellation never;
  const auto network = make_nccl_network(0, 1, make_nccl_id(), never);
  const std::array own{0};
  const auto communicator = network->communicator(own);
  const auto queue = device->make_queue(Priority::High);
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + .25F;
  const auto from = device->allocate(bytes, Place::Device), to = device->allocate(calls * bytes, Place::Device);
  device->copy_now(from->data(), numbers.data(), bytes);
  const auto issue = [&] {
    const auto target = [&](std::int64_t call) { return to->data() + call * bytes; };
    const DeviceSend send{0, from->data(), bytes};
    const DeviceReceive receive{0, target(0), bytes};
    communicator->send_receive(*queue, {&send, 1}, {&receive, 1});
    std::int64_t number = 1;
    for (const Collective kind : {Collective::AllGather, Collective::Broadcast, Collective::ReduceScatter,
                                  Collective::AllReduce, Collective::Reduce})
      communicator->collective(*queue, {kind, from->data(), target(number++), bytes});
  };
  issue();  // connections are made by the first calls
  device->synchronize();
  const auto graph = device->capture(*queue, issue);
  REQUIRE(graph != nullptr);
  queue->fill(to->data(), 0xff, calls * bytes);
  graph->launch(*queue);
  device->synchronize();
  for (std::int64_t call = 0; call < calls; ++call) {
    CAPTURE(call);
    std::vector<float> arrived(count);
    device->copy_now(arrived.data(), to->data() + call * bytes, bytes);
    CHECK(arrived == numbers);
  }
}
#endif
