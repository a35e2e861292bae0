// SPDX-License-Identifier: Apache-2.0
// The deferred device by itself: it runs what CUDA would allow, refuses what CUDA refuses, and reports what has no
// order.
#include "exec/device/deferred/deferred_device.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "exec/device/deferred/fiber.hpp"
#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using Catch::Matchers::Contains;

namespace {

// Two queues, an event and some memory.
struct TwoQueues {
  explicit TwoQueues(std::uint64_t seed = 1) : device(make_deferred_device({seed, true, true})) {}

  std::unique_ptr<DeferredDevice> device;
  std::unique_ptr<Queue> first = device->make_queue(), second = device->make_queue();
  std::unique_ptr<Event> event = device->make_event(), joined = device->make_event();
  std::unique_ptr<Memory> memory = device->allocate(64, Place::Device);

  int byte(std::int64_t at) const {
    std::byte value{};
    device->copy_now(&value, memory->data() + at, 1);
    return std::to_integer<int>(value);
  }
  void fill(Queue& queue, int byte, std::int64_t first_byte, std::int64_t bytes) const {
    queue.fill(memory->data() + first_byte, byte, bytes);
  }
};

// Races that tests plant are ours to report, not those of the thread sanitizer, which would end the program.
bool planted_races_are_ours() {
  return !deferred::Fiber::is_seen_as_thread();
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Nothing runs before somebody waits") {
  TwoQueues q;
  q.fill(*q.first, 7, 0, 64);
  CHECK(q.device->commands_run() == 0);
  q.device->synchronize(*q.second);
  q.device->synchronize();
  CHECK(q.device->commands_run() == 1);
  CHECK(q.byte(63) == 7);
}

TEST_CASE("Two queues run in either order, and in one where an event says so") {
  if (!planted_races_are_ours()) return;
  for (const bool ordered : {false, true}) {
    std::set<int> last;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      TwoQueues q(seed);
      q.fill(*q.first, 1, 0, 64);
      q.first->record(*q.event);
      if (ordered) q.second->wait(*q.event);
      q.fill(*q.second, 2, 0, 64);
      last.insert(q.byte(0));
      CHECK(q.device->races().size() == (ordered ? 0 : 1));
    }
    CHECK(last == (ordered ? std::set{2} : std::set{1, 2}));
  }
}

TEST_CASE("Races are of common bytes alone, and only where one of the two writes") {
  if (!planted_races_are_ours()) return;
  TwoQueues q;
  const auto other = q.device->allocate(64, Place::Device);
  q.fill(*q.first, 1, 0, 16);
  q.fill(*q.second, 2, 16, 16);
  q.first->copy(other->data(), q.memory->data() + 32, 8);
  q.second->copy(other->data() + 8, q.memory->data() + 32, 8);
  q.device->synchronize();
  CHECK(q.device->races().empty());
  q.first->serves({3, 1});
  q.fill(*q.first, 1, 8, 8);
  q.second->copy(other->data(), q.memory->data() + 15, 8);  // one byte of the fill's
  q.device->synchronize();
  REQUIRE(q.device->races().size() == 1);
  const deferred::Race race = q.device->races()[0];
  CHECK(race.bytes == deferred::range_of(q.memory->data() + 15, 1));
  CHECK(race.one_writes != race.other_writes);
  CHECK((race.one.purpose.op == 3) != (race.other.purpose.op == 3));
  CHECK_THAT(to_string(race), Contains("fill of op 3 on rank 1") && Contains("copy") && Contains("in no order"));
}

TEST_CASE("Order passes from queue to queue, by the host's waits too") {
  TwoQueues q;
  const auto third = q.device->make_queue();
  q.fill(*q.first, 1, 0, 64);
  q.first->record(*q.event);
  q.second->wait(*q.event);
  q.second->record(*q.joined);
  q.first->record(*q.event);  // whoever has waited has waited for the record before
  third->wait(*q.joined);
  q.fill(*third, 3, 0, 64);
  q.device->synchronize(*third);
  q.fill(*q.second, 4, 0, 64);
  CHECK(q.byte(9) == 4);
  CHECK(q.device->races().empty());
}

TEST_CASE("A wait for an event that nobody has recorded does nothing, and one for work that never ends is told") {
  TwoQueues q;
  q.second->wait(*q.event);
  q.fill(*q.second, 2, 0, 64);
  CHECK(q.byte(0) == 2);
  CHECK(q.device->reached(*q.event));
}

TEST_CASE("An event is asked for until it is reached") {
  TwoQueues q;
  for (int i = 0; i < 20; ++i) q.fill(*q.first, i, 0, 64);
  q.first->record(*q.event);
  int looks = 1;
  while (!q.device->reached(*q.event)) ++looks;
  CHECK(looks > 1);
  CHECK(q.device->commands_run() == 20);
}

TEST_CASE("Virtual time: marks, holds and elapsed times agree to the nanosecond") {
  TwoQueues q;
  const auto moments = q.device->allocate(4 * sizeof(std::int64_t), Place::Device);
  auto* const at = reinterpret_cast<std::int64_t*>(moments->data());
  const std::int64_t zeros[4] = {};
  q.device->copy_now(at, zeros, sizeof zeros);
  q.first->record(*q.event);
  q.device->mark(*q.first, at);
  q.device->hold(*q.first, at, Seconds(5e-6));
  q.device->mark(*q.first, at + 1);
  q.first->record(*q.joined);
  q.device->synchronize();
  std::int64_t read[4];
  q.device->copy_now(read, at, sizeof read);
  // The hold ends 5 us after the mark before it began, which lasts at most 1 us and more than nothing.
  CHECK(read[1] == read[0] + 5000);
  const Seconds elapsed = q.device->elapsed(*q.event, *q.joined);
  CHECK(elapsed > Seconds(5e-6));
  CHECK(elapsed <= Seconds(6.0001e-6));
}

TEST_CASE("A captured step runs when it is launched, between what stands before and after it") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TwoQueues q(seed);
    const auto third = q.device->make_queue();
    const auto graph = q.device->capture(*q.first, [&] {
      q.first->record(*q.event);
      q.second->wait(*q.event);
      q.second->copy(q.memory->data() + 32, q.memory->data(), 16);
      q.second->record(*q.joined);
      q.first->wait(*q.joined);
    });
    q.device->synchronize();
    CHECK(q.device->commands_run() == 0);
    for (int round = 1; round <= 2; ++round) {
      q.fill(*q.first, round, 0, 16);
      graph->launch(*q.first);
      q.first->copy(q.memory->data() + 48, q.memory->data() + 32, 16);
    }
    CHECK(q.byte(48) == 2);
    CHECK(q.device->commands_run() == 6);
    CHECK(q.device->races().empty());
  }
}

TEST_CASE("Captures refuse what CUDA refuses") {
  TwoQueues q;
  const auto origin = [&](const std::function<void()>& issue) {
    return refused([&] { q.device->capture(*q.first, issue); });
  };
  const auto fork = [&] {
    q.first->record(*q.event);
    q.second->wait(*q.event);
  };
  CHECK_THAT(origin([&] { q.device->synchronize(); }), Contains("StreamCaptureUnsupported"));
  CHECK_THAT(origin([&] { q.device->allocate(8, Place::Device); }), Contains("StreamCaptureUnsupported"));
  CHECK_THAT(origin([&] { q.byte(0); }), Contains("StreamCaptureUnsupported"));
  CHECK_THAT(origin([&] { q.first->multiply({}); }), Contains("StreamCaptureUnsupported"));
  CHECK_THAT(origin([&] { fork(), q.device->reached(*q.event); }), Contains("StreamCaptureUnsupported"));
  CHECK_THAT(origin([&] { fork(), q.fill(*q.second, 1, 0, 8); }), Contains("StreamCaptureUnjoined"));
  q.second->record(*q.joined);
  CHECK_THAT(origin([&] { q.first->wait(*q.joined); }), Contains("StreamCaptureIsolation"));
  // An event that was captured cannot be asked for until it is recorded again.
  CHECK(origin([&] { fork(), q.second->record(*q.joined), q.first->wait(*q.joined); }).empty());
  CHECK_THAT(refused([&] { q.device->reached(*q.event); }), Contains("CapturedEvent"));
  CHECK_THAT(refused([&] { q.second->wait(*q.event); }), Contains("CapturedEvent"));
  q.first->record(*q.event);
  while (!q.device->reached(*q.event)) {
  }
  CHECK(q.device->commands_run() == 0);  // of what a refused capture was given nothing is left
}

TEST_CASE("A planted failure stops the device, and everybody who waits is told") {
  TwoQueues q;
  q.device->plant({std::nullopt, 1});
  q.fill(*q.first, 1, 0, 64);
  q.fill(*q.first, 2, 0, 64);
  q.fill(*q.first, 3, 0, 64);
  CHECK_THAT(refused([&] { q.device->synchronize(); }), Contains("command 1 failed"));
  CHECK_THAT(refused([&] { q.device->synchronize(*q.second); }), Contains("command 1 failed"));
  CHECK(q.device->commands_run() == 1);
  CHECK(std::to_integer<int>(*q.memory->data()) == 1);
}
