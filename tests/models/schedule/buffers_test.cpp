// SPDX-License-Identifier: Apache-2.0
// Tensors that take over the memory of earlier ones.
#include <catch2/catch.hpp>
#include <random>

#include "models/base/errors.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/schedule_writer.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/blocks.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

// a on stream 0, read on stream 1; b takes over its memory on stream 0, and is read on stream 1 too.
struct Handover {
  ScheduleWriter writer{4};
  std::int16_t chunks = 0;
  StreamId first = writer.add_stream(StreamKind::Compute), second = writer.add_stream(StreamKind::Communication);
  TensorId a = add(100), b = add(60, a), c = add(1), d = add(1), input = add(1, {}, true);
  TensorId add(std::int64_t elements, TensorId buffer = {}, bool persistent = false) {
    Tensor t;
    t.elements = elements;
    t.buffer = buffer;
    t.persistent = persistent;
    t.chunk = ++chunks;
    return writer.add_tensor(t);
  }
  OpId op(StreamId stream, std::vector<TensorId> reads, std::vector<TensorId> writes) {
    Op o;
    o.kind = OpKind::Residual;
    o.stream = stream;
    return writer.add_op(o, reads, writes);
  }
  Schedule schedule() {
    op(first, {input}, {a});
    op(second, {a}, {c});
    op(first, {input}, {b});
    op(second, {b}, {d});
    return writer.finish(1);
  }
};

}  // namespace

TEST_CASE("the writer of a tensor with a buffer runs after all users of the previous occupant") {
  const Schedule s = Handover().schedule();
  const auto dependencies = s.dependencies_of(s.ops[2]);
  CHECK(std::vector<OpId>(dependencies.begin(), dependencies.end()) == std::vector<OpId>{1, 0});  // the last use first
  CHECK_NOTHROW(validate(s));
}

TEST_CASE("validate finds memory that is taken over too early, or twice") {
  Schedule s = Handover().schedule();
  SECTION("no dependency on a reader of the previous occupant") {
    s.ops[2].dependencies.last = s.ops[2].dependencies.first;
    CHECK_THROWS_WITH(validate(s), Contains("is not ordered after"));
  }
  SECTION("a reader after it was taken over") {
    s.operands[static_cast<std::size_t>(s.ops[3].reads.first)] = 0;
    CHECK_THROWS_WITH(validate(s), Contains("after its memory was taken over"));
  }
  SECTION("an op that reads what its result takes over") {
    s.ops[2].reads = s.ops[1].reads;
    CHECK_THROWS_WITH(validate(s), Contains("too early"));
  }
  SECTION("two tensors in one place") {
    s.tensors[2].buffer = 0;
    CHECK_THROWS_WITH(validate(s), Contains("cannot have"));
  }
  SECTION("device memory for a host tensor") {
    s.tensors[1].place = Place::Host;
    CHECK_THROWS_WITH(validate(s), Contains("cannot have"));
  }
}

TEST_CASE("a block is as large as its largest occupant, and counts once") {
  const Schedule s = Handover().schedule();
  const Blocks blocks = memory_blocks(s);
  CHECK(blocks.of_tensor == IdVector<TensorId, BlockId>{0, 0, 1, 2, 3});
  CHECK(blocks.all[0].elements == 100);
  CHECK(blocks.all[0].bytes == Bytes(400));
  Timeline t;
  t.ops = {{Seconds(0), Seconds(1)}, {Seconds(1), Seconds(2)}, {Seconds(2), Seconds(3)}, {Seconds(3), Seconds(4)}};
  CHECK(memory_use(s, t).peak == Bytes(400 + 4 + 4));  // the block, c or d, and the input
  const MemoryPlan plan = plan_memory(s, t);
  CHECK(plan.offsets[0] == plan.offsets[1]);
  CHECK(plan.device == Bytes(512 + 2 * 256));
  CHECK(plan.host == Bytes(0));
}

TEST_CASE("host tensors are counted apart") {
  Schedule s = Handover().schedule();
  s.tensors[0].place = s.tensors[1].place = Place::Host;
  Timeline t;
  t.ops = {{Seconds(0), Seconds(1)}, {Seconds(1), Seconds(2)}, {Seconds(2), Seconds(3)}, {Seconds(3), Seconds(4)}};
  const MemoryUse use = memory_use(s, t);
  CHECK(use.peak == Bytes(4 + 4));
  CHECK(use.arena == Bytes(2 * 256));
  CHECK(use.pinned == Bytes(512));
}

TEST_CASE("random plans with rings, restored rows and any order are valid") {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  int built = 0;
  for (int i = 0; i < 400; ++i) {
    Experiment e = test::round_numbers(pick(1, 3));
    e.workload.capacity_factor = pick(4, 24) / 8.0;
    if (pick(0, 5) == 0) e.workload.phases = Phases::ForwardOnly;
    if (pick(0, 5) == 0) e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
    const int most = static_cast<int>(std::min<std::int64_t>(6, layer_volumes(e).capacity));
    Plan p;
    p.scope = Scope::Moe;
    p.forward_degree = pick(1, most);
    p.backward_degree = pick(0, 1) == 0 ? p.forward_degree : pick(1, most);
    p.order = order_names[static_cast<std::size_t>(pick(0, 2))].second;
    p.comm_streams = comm_streams_names[static_cast<std::size_t>(pick(0, 2))].second;
    p.restore = restore_names[static_cast<std::size_t>(pick(0, 4))].second;
    p.buffers = buffers_names[static_cast<std::size_t>(pick(0, 2))].second;
    p.grad_sync = pick(0, 1) == 0 ? GradSync::After : GradSync::WithDense;
    try {
      validate(p, e);
    } catch (const InputError&) {
      REQUIRE(p.buffers != Buffers::PerChunk);
      continue;
    }
    ++built;
    INFO(p.forward_degree << " / " << p.backward_degree << ", order " << static_cast<int>(p.order) << ", streams "
                          << static_cast<int>(p.comm_streams) << ", restore " << static_cast<int>(p.restore)
                          << ", buffers " << static_cast<int>(p.buffers));
    REQUIRE_NOTHROW(validate(build_schedule(e, p)));
  }
  CHECK(built > 200);
}
