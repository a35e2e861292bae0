// SPDX-License-Identifier: Apache-2.0
// The hooks see every byte that a kernel touches, and no other.
#include "tests/exec_device/traced_kernels.hpp"

#include <catch2/catch.hpp>

#include "exec/device/deferred/deferred_device.hpp"
#include "exec/device/device_network.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("A kernel is seen to touch the bytes that it touches, and no others") {
  const auto device = make_deferred_device({1, true, true});
  const auto queue = device->make_queue();
  const auto memory = device->allocate(256, Place::Device);
  std::byte* const bytes = memory->data();
  const auto at = [&](auto* typed, std::int64_t first) { return reinterpret_cast<decltype(typed)>(bytes) + first; };
  double* const number = nullptr;
  std::uint16_t* const half = nullptr;
  std::int32_t* const word = nullptr;
  copy_numbers(*queue, at(number, 1), at(number, 8), 3);
  add_every_second(*queue, at(number, 0), at(number, 8), 3);
  copy_packs(*queue, at(half, 0), at(half, 64), 2);
  copy_structs(*queue, at(word, 3), at(word, 32), 2);
  copy_bytes(*queue, bytes + 1, bytes + 129, 5);
  device->synchronize();
  const std::vector<LoggedCommand> ran = device->commands();
  REQUIRE(ran.size() == 5);
  using Touched = std::vector<deferred::Range>;
  const auto range = [&](std::int64_t first, std::int64_t count) { return deferred::range_of(bytes + first, count); };
  CHECK(ran[0].reads == Touched{range(8, 24)});
  CHECK(ran[0].writes == Touched{range(64, 24)});
  CHECK(ran[1].reads == Touched{range(0, 8), range(16, 8), range(32, 8), range(64, 24)});  // what it adds to, too
  CHECK(ran[1].writes == Touched{range(64, 24)});
  CHECK(ran[2].reads == Touched{range(0, 32)});
  CHECK(ran[2].writes == Touched{range(128, 32)});
  CHECK(ran[3].reads == Touched{range(12, 24)});
  CHECK(ran[3].writes == Touched{range(128, 24)});
  CHECK(ran[4].reads == Touched{range(1, 5)});
  CHECK(ran[4].writes == Touched{range(129, 5)});
  CHECK(device->races().empty());  // one queue
}

TEST_CASE("Messages are seen to be read where they are sent, and written once they have arrived") {
  const auto device = make_deferred_device({1, true, true});
  const auto queue = device->make_queue();
  const auto memory = device->allocate(256, Place::Device);
  Cancellation cancellation;
  const auto networks = make_loop_networks(1, cancellation);
  const int self[] = {0};
  const auto communicator = networks[0]->communicator(self);
  communicator->collective(*queue, {Collective::Broadcast, memory->data(), memory->data() + 128, 48});
  device->synchronize();
  const std::vector<LoggedCommand> ran = device->commands();
  REQUIRE(ran.size() == 2);
  CHECK(ran[0].reads == std::vector{deferred::range_of(memory->data(), 48)});
  CHECK(ran[0].writes.empty());
  CHECK(ran[1].reads.empty());
  CHECK(ran[1].writes == std::vector{deferred::range_of(memory->data() + 128, 48)});
}

TEST_CASE("Two queues that share scratch memory are reported, with the kernels' names") {
  const auto device = make_deferred_device();
  const auto first = device->make_queue(), second = device->make_queue();
  const auto memory = device->allocate(256, Place::Device);
  auto* const numbers = reinterpret_cast<double*>(memory->data());
  double* const scratch = numbers + 16;
  for (const bool shares : {false, true}) {
    first->serves({5, 0});
    copy_numbers(*first, numbers, scratch, 4);
    copy_numbers(*first, scratch, numbers + 8, 4);
    second->serves({6, 0});
    add_every_second(*second, numbers, scratch + (shares ? 3 : 4), 4);
    device->synchronize();
    CHECK(device->races().empty() == !shares);
  }
  for (const deferred::Race& race : device->races()) {
    CHECK(race.bytes == deferred::range_of(scratch + 3, sizeof(double)));
    CHECK_THAT(to_string(race), Catch::Matchers::Contains("CopyNumbers") &&
                                    Catch::Matchers::Contains("AddEverySecond") &&
                                    Catch::Matchers::Contains("of op 6 on rank 0"));
  }
}
