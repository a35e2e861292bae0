// SPDX-License-Identifier: Apache-2.0
#include "reports/page/drawn_ops.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace dovetail;
using namespace dovetail::reports;

namespace {

// So many micro-batches of ten ops each, and two updates at the end, which stand with the last one.
Schedule step_of(int micro_batches) {
  Schedule s;
  s.streams = {{StreamKind::Compute, 0}};
  s.classes = {{1}};
  s.micro_batches = micro_batches;
  Op op;
  for (int m = 0; m < micro_batches; ++m) {
    op.micro_batch = static_cast<std::int16_t>(m);
    for (int i = 0; i < 10; ++i) s.ops.push_back(op);
  }
  op.kind = OpKind::Update;
  s.ops.push_back(op);
  s.ops.push_back(op);
  return s;
}

std::set<int> micro_batches_of(const DrawnOps& drawn, const Schedule& s) {
  std::set<int> all;
  for (const OpId op : drawn.ops)
    if (s.ops[op].kind != OpKind::Update) all.insert(s.ops[op].micro_batch);
  return all;
}

}  // namespace

TEST_CASE("drawn ops: all of a short step, and nothing is said") {
  const Schedule s = step_of(4);
  const DrawnOps drawn = drawn_ops(s, 42);
  CHECK(drawn.ops.size() == 42);
  CHECK(drawn.of_step.empty());
  CHECK(drawn_text(drawn, s).empty());
}

TEST_CASE("drawn ops: the first, middle and last micro-batches of a long step, and its end") {
  const Schedule s = step_of(100);
  const DrawnOps drawn = drawn_ops(s, 92);  // 2 of the end and 9 x 10
  CHECK(drawn.ops.size() == 92);
  CHECK(micro_batches_of(drawn, s) == std::set{0, 1, 2, 48, 49, 50, 97, 98, 99});
  CHECK(drawn_text(drawn, s) ==
        "Drawn are micro-batches 0 to 2, 48 to 50 and 97 to 99 of 100, counted from 0, and the end of the step; "
        "--trace FILE writes all 1002 operations.");
}

TEST_CASE("drawn ops: of two micro-batches the first and the last, of one the first, and of less nothing") {
  const Schedule s = step_of(100);
  CHECK(micro_batches_of(drawn_ops(s, 22), s) == std::set{0, 99});
  CHECK(micro_batches_of(drawn_ops(s, 21), s) == std::set{0});
  CHECK(drawn_ops(s, 12).ops.size() == 12);
  const DrawnOps none = drawn_ops(s, 11);
  CHECK(none.ops.empty());
  CHECK(drawn_text(none, s) == "Too long to be drawn; --trace FILE writes all operations.");
}

TEST_CASE("drawn ops: every number of them keeps to its limit and repeats no micro-batch") {
  const Schedule s = step_of(30);
  for (std::size_t most = 12; most < 302; ++most) {
    const DrawnOps drawn = drawn_ops(s, most);
    INFO(most);
    CHECK(drawn.ops.size() <= most);
    CHECK(micro_batches_of(drawn, s).size() == (most - 2) / 10);
    CHECK(std::ranges::is_sorted(drawn.ops));
  }
}
