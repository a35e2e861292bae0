// SPDX-License-Identifier: Apache-2.0
// Ops that communicate, lowered: by hand for each kind, and for all ops of plans drawn at random.
#include "models/schedule/lowering.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/base/overloaded.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/schedule_writer.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Tensor of_elements(std::int64_t elements) {
  Tensor t;
  t.elements = elements;
  return t;
}

// A schedule of one op, whose operands are tensors 0, 1 .. in this order.
struct OneOp {
  Op op;
  std::vector<Tensor> reads, writes;
  Parallelism groups;
  std::vector<CollectiveStep> steps;
  int rank_class = 0;

  Schedule schedule() const {
    ScheduleWriter writer(1);
    for (int c = 0; c < rank_class; ++c) writer.add_stream(StreamKind::Communication, c);
    Op placed = op;
    placed.stream = writer.add_stream(StreamKind::Communication, rank_class);
    std::vector<TensorId> from, to;
    for (const Tensor& t : reads) from.push_back(writer.add_tensor(t));
    for (const Tensor& t : writes) to.push_back(writer.add_tensor(t));
    writer.set_steps(steps);
    writer.add_op(placed, from, to);
    Schedule s = writer.finish(1);
    s.groups = groups;
    return s;
  }
};

Op op_of(OpKind kind, Phase phase, Collective collective, GroupKind group) {
  Op op;
  op.kind = kind;
  op.phase = phase;
  op.work = ExchangeWork{collective, group};
  return op;
}

Parallelism ep_of(int ranks) {
  return {.dp = ranks, .mp = 1, .ep = ranks, .esp = 1, .pp = 1, .edp = 1};
}

// "1[4, 8)": elements 4 to 7 of tensor 1; s: of the scratch memory.
std::string text(const Region& r) {
  const std::string tensor = r.tensor == Region::scratch ? "s" : std::to_string(r.tensor);
  return fmt::format("{}[{}, {})", tensor, r.first, r.first + r.count);
}

void append(const LoweredStep& step, std::vector<std::string>& lines) {
  const auto local = [&](const LocalSteps& steps) {
    for (const LocalStep& l : steps)
      if (l.kind == LocalKind::Zero)
        lines.push_back("zero " + text(l.to));
      else
        lines.push_back((l.kind == LocalKind::Copy ? "copy " : "add ") + text(l.from) + " to " + text(l.to));
  };
  const auto transfers = [&](const Transfers& all) {
    for (const Transfer& t : all.sends) lines.push_back(fmt::format("send {} to {}", text(t.region), t.peer));
    for (const Transfer& t : all.receives) lines.push_back(fmt::format("receive {} from {}", text(t.region), t.peer));
  };
  const auto native = [&](const NativeCollective& n) {
    const std::string root = n.root < 0 ? "" : fmt::format(", root {}", n.root);
    lines.push_back(
        fmt::format("{} {} to {}{}", name_in(collective_names, n.collective), text(n.from), text(n.to), root));
  };
  std::visit(Overloaded{local, transfers, native}, step);
}

std::string text(const LoweredOp& op) {
  std::vector<std::string> lines;
  for (const LoweredStep& step : op.steps) append(step, lines);
  return fmt::format("{}", fmt::join(lines, "; "));
}

std::string lowered(const OneOp& one, int rank) {
  const Schedule s = one.schedule();
  return text(lower(s, s.ops.front(), rank));
}

}  // namespace

TEST_CASE("an all-to-all at once stays one collective, of a block for each member") {
  const OneOp one{op_of(OpKind::Dispatch, Phase::Forward, Collective::AllToAll, GroupKind::Ep),
                  {of_elements(8)},
                  {of_elements(8)},
                  ep_of(4),
                  {}};
  CHECK(lowered(one, 3) == "all_to_all 0[0, 8) to 1[0, 8)");
  const Schedule s = one.schedule();
  const auto whole = std::get<NativeCollective>(lower(s, s.ops.front(), 3).steps.front());
  std::vector<std::string> lines;  // blocks of 8 / 4 = 2
  append(messages_of(whole, 4), lines);
  CHECK(fmt::format("{}", fmt::join(lines, "; ")) ==
        "send 0[0, 2) to 0; send 0[2, 4) to 1; send 0[4, 6) to 2; send 0[6, 8) to 3; "
        "receive 1[0, 2) from 0; receive 1[2, 4) from 1; receive 1[4, 6) from 2; receive 1[6, 8) from 3");
}

// Offsets 1 and 2 in a group of 4, blocks of 6 / 2 = 3. Rank 1 sends to 1 + 1 = 2 and 1 + 2 = 3, and receives from
// 1 - 1 = 0 and 1 - 2 + 4 = 3; the way back is the reverse.
TEST_CASE("split peers: a block for the rank at each offset") {
  OneOp one{op_of(OpKind::Dispatch, Phase::Forward, Collective::AllToAll, GroupKind::Ep),
            {of_elements(6)},
            {of_elements(6)},
            ep_of(4),
            {}};
  one.op.peers = {1, 3};
  const std::string to_owners = "send 0[0, 3) to 2; send 0[3, 6) to 3; receive 1[0, 3) from 0; receive 1[3, 6) from 3",
                    back = "send 0[0, 3) to 0; send 0[3, 6) to 3; receive 1[0, 3) from 2; receive 1[3, 6) from 3";
  CHECK(lowered(one, 1) == to_owners);
  one.op.phase = Phase::Backward;
  CHECK(lowered(one, 1) == back);
  one.op.kind = OpKind::Combine;
  CHECK(lowered(one, 1) == to_owners);
  one.op.phase = Phase::Forward;
  CHECK(lowered(one, 1) == back);
}

// 2DH among 2 x 2 ranks, 12 elements in 4 blocks of 3: a copy sorts the blocks for ranks 0, 1, 2, 3 as 0, 2, 1, 3; rank
// 1 then gives the first two to rank 0, which puts them after its own, and keeps the others in the same place.
TEST_CASE("steps of an all-to-all, one op each") {
  OneOp one{op_of(OpKind::Dispatch, Phase::Forward, Collective::None, GroupKind::Ep),
            {of_elements(12)},
            {of_elements(12)},
            ep_of(4),
            two_dimensional_steps(std::vector{2, 2})};
  REQUIRE(one.steps.size() == 4);
  one.op.work = ExchangeWork{.collective = Collective::None, .group = GroupKind::Ep, .steps = {0, 1}};
  CHECK(lowered(one, 1) ==
        "copy 0[0, 3) to 1[0, 3); copy 0[3, 6) to 1[6, 9); copy 0[6, 9) to 1[3, 6); copy 0[9, 12) to 1[9, 12)");
  one.op.work = ExchangeWork{.collective = Collective::AllToAll, .group = GroupKind::Ep, .steps = {1, 2}};
  CHECK(lowered(one, 1) == "send 0[0, 6) to 0; send 0[6, 12) to 1; receive 1[0, 6) from 0; receive 1[6, 12) from 1");
  one.op.work = ExchangeWork{.collective = Collective::AllToAll, .group = GroupKind::Ep, .steps = {3, 4}};
  CHECK(lowered(one, 1) == "send 0[0, 6) to 1; send 0[6, 12) to 3; receive 1[0, 6) from 1; receive 1[6, 12) from 3");
  one.writes = {of_elements(11)};
  CHECK_THROWS_AS(lowered(one, 1), InternalError);
}

// Among 2 x 2 ranks in place, blocks of 1. Level 0 swaps blocks with rank 1 - 1 = 0: the one for it of each part, that
// is blocks 0 and 2, and what arrives is its own of blocks 1 and 3. Level 1 swaps runs of two blocks with rank 3.
TEST_CASE("fused steps go from the tensor read to the first one written, by way of the others") {
  OneOp one{op_of(OpKind::Combine, Phase::Forward, Collective::AllToAll, GroupKind::Ep),
            {of_elements(4)},
            {of_elements(4), of_elements(4)},
            ep_of(4),
            naive_local_steps(std::vector{2, 2})};
  one.op.work = ExchangeWork{.collective = Collective::AllToAll, .group = GroupKind::Ep, .steps = {0, 2}};
  CHECK(lowered(one, 1) ==
        "send 0[0, 1) to 0; send 0[2, 3) to 0; send 0[1, 2) to 1; send 0[3, 4) to 1; "
        "receive 2[0, 1) from 0; receive 2[2, 3) from 0; receive 2[1, 2) from 1; receive 2[3, 4) from 1; "
        "send 2[0, 2) to 1; send 2[2, 4) to 3; receive 1[0, 2) from 1; receive 1[2, 4) from 3");
  one.writes.pop_back();
  CHECK_THROWS_AS(lowered(one, 1), InternalError);
}

// Each of 4 ranks owns 12 / 6 = 2 experts of 6 elements: expert 5 is rank 5 / 2 = 2's second, from element 6 on.
TEST_CASE("a shadowed expert: broadcast by its owner, gradients added there") {
  OneOp one{op_of(OpKind::ShadowWeights, Phase::Forward, Collective::Broadcast, GroupKind::Ep),
            {of_elements(12)},
            {of_elements(6)},
            ep_of(4),
            {}};
  one.op.expert = 5;
  for (int rank : {0, 2}) CHECK(lowered(one, rank) == "broadcast 0[6, 12) to 1[0, 6), root 2");
  OneOp back{op_of(OpKind::ShadowWeights, Phase::Backward, Collective::Reduce, GroupKind::Ep),
             {of_elements(6)},
             {of_elements(12)},
             ep_of(4),
             {}};
  back.op.expert = 5;
  CHECK(lowered(back, 0) == "reduce 0[0, 6) to s[0, 6), root 2");
  CHECK(lowered(back, 2) == "reduce 0[0, 6) to s[0, 6), root 2; add s[0, 6) to 1[6, 12)");
}

// Two gathered shards have 16 elements of gradients: each rank gets the sum of its own 8.
TEST_CASE("gathered weights: the own shard's gradients are added") {
  Parallelism groups{.dp = 2, .mp = 1, .ep = 1, .esp = 2, .pp = 1, .edp = 1};
  const OneOp gather{op_of(OpKind::GatherExpertWeights, Phase::Forward, Collective::AllGather, GroupKind::Esp),
                     {of_elements(8)},
                     {of_elements(16)},
                     groups,
                     {}};
  CHECK(lowered(gather, 1) == "all_gather 0[0, 8) to 1[0, 16)");
  const OneOp back{op_of(OpKind::GatherExpertWeights, Phase::Backward, Collective::ReduceScatter, GroupKind::Esp),
                   {of_elements(16)},
                   {of_elements(8)},
                   groups,
                   {}};
  CHECK(lowered(back, 1) == "reduce_scatter 0[0, 16) to s[0, 8); add s[0, 8) to 1[0, 8)");
  const Schedule s = back.schedule();
  CHECK(lower(s, s.ops.front(), 1).scratch == 8);
}

TEST_CASE("dense gradients: the op's elements alone") {
  OneOp one{op_of(OpKind::DenseGradientAllReduce, Phase::Backward, Collective::AllReduce, GroupKind::Dp),
            {of_elements(10)},
            {of_elements(10)},
            ep_of(2),
            {}};
  one.op.gradients = {3, 7};
  CHECK(lowered(one, 0) == "all_reduce 0[3, 7) to 1[3, 7)");
}

// 3 members of 11 elements: shards of 3 from element 2 on, and the 2 that are left over.
TEST_CASE("scattered gradients: a shard for each member, and for all what is left over") {
  OneOp one{op_of(OpKind::DenseGradientAllReduce, Phase::Backward, Collective::ReduceScatter, GroupKind::Dp),
            {of_elements(20)},
            {of_elements(20)},
            ep_of(3),
            {}};
  one.op.gradients = {2, 13};
  CHECK(lowered(one, 1) ==
        "reduce_scatter 0[2, 11) to s[0, 3); copy s[0, 3) to 1[5, 8); "
        "all_reduce 0[11, 13) to 1[11, 13)");
  one.op.gradients = {2, 4};
  CHECK(lowered(one, 1) == "all_reduce 0[2, 4) to 1[2, 4)");
}

// Elements [3, 13) of tensors of 6, 2 and 5: 5 for each of two members.
TEST_CASE("gathered weights: each member's shard, by way of scratch memory where several tensors share it") {
  OneOp one{op_of(OpKind::ParameterAllGather, Phase::Update, Collective::AllGather, GroupKind::Dp),
            {of_elements(6), of_elements(2), of_elements(5)},
            {of_elements(6), of_elements(2), of_elements(5)},
            ep_of(2),
            {}};
  one.op.gradients = {3, 13};
  CHECK(lowered(one, 0) ==
        "copy 0[3, 6) to s[0, 3); copy 1[0, 2) to s[3, 5); all_gather s[0, 5) to s[5, 15); "
        "copy s[5, 8) to 0[3, 6); copy s[8, 10) to 1[0, 2); copy s[10, 15) to 2[0, 5)");
  CHECK(lowered(one, 1).starts_with("copy 2[0, 5) to s[0, 5); all_gather"));
  one.op.gradients = {1, 6};
  CHECK(lowered(one, 1) == "copy 0[3, 5) to s[0, 2); all_gather s[0, 2) to 0[1, 5)");
}

// Stages of two ranks: stage 1 is ranks 2 and 3. Chunks of 4 and 2 elements stand after each other, and all 6 of the
// other part are added to them. In the backward pass what stage 1 sends goes to stage 0.
TEST_CASE("a stage sends the sum of what the op reads") {
  Tensor first = of_elements(4), second = of_elements(2), arriving = of_elements(6);
  first.chunk = 0;
  second.chunk = 1;
  OneOp one{op_of(OpKind::StageSend, Phase::Backward, Collective::Send, GroupKind::Pp),
            {first, of_elements(6), second},
            {arriving},
            {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 3, .edp = 1},
            {},
            1};
  CHECK(lowered(one, 3) ==
        "zero s[0, 6); add 0[0, 4) to s[0, 4); add 1[0, 6) to s[0, 6); add 2[0, 2) to s[4, 6); send s[0, 6) to 0");
  CHECK(lowered(one, 1) == "receive 3[0, 6) from 1");
  CHECK(lowered(one, 5).empty());
  one.op.phase = Phase::Forward;
  one.writes.front().rank_class = 2;
  CHECK(lowered(one, 1).empty());
  CHECK(lowered(one, 5) == "receive 3[0, 6) from 1");
  one.writes = {of_elements(5)};
  CHECK_THROWS_AS(lowered(one, 3), InternalError);
}

TEST_CASE("a stage receives from the one whose message it waits for, wherever that lies") {
  ScheduleWriter writer(2);
  std::vector<StreamId> streams;
  for (int stage = 0; stage < 3; ++stage) streams.push_back(writer.add_stream(StreamKind::Communication, stage));
  Op send = op_of(OpKind::StageSend, Phase::Forward, Collective::Send, GroupKind::Pp);
  Op receive = op_of(OpKind::StageReceive, Phase::Forward, Collective::None, GroupKind::Pp);
  send.stream = streams[2];  // on the way back up
  receive.stream = streams[1];
  Tensor sent = of_elements(6), arriving = of_elements(6);
  sent.rank_class = 2;
  arriving.rank_class = 1;
  const TensorId from = writer.add_tensor(sent), to = writer.add_tensor(arriving);
  writer.add_op(send, {&from, 1}, {&to, 1});
  const OpId received = writer.add_op(receive, {&to, 1}, {&to, 1});
  Schedule s = writer.finish(2);
  s.groups = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 3, .edp = 1};
  CHECK(s.ends_of(s.ops[received]).sender == 2);
  CHECK(text(lower(s, s.ops[received], 2)) == "receive 1[0, 6) from 2");
  const OneOp alone{receive, {arriving}, {arriving}, s.groups, {}, 1};
  CHECK_THROWS_WITH(lowered(alone, 2), "stage_receive[0] receives what nobody sends");
}

namespace {

using Values = std::vector<int>;                  // by element
using TensorValues = std::map<TensorId, Values>;  // of one member

void copy(const Values& from, const Region& source, Values& to, const Region& target) {
  REQUIRE((source.count == target.count && target.first + target.count <= std::ssize(to)));
  std::copy_n(from.begin() + source.first, source.count, to.begin() + target.first);
}

// Copies and messages of one place in all members' lists.
void carry_out(const std::vector<LoweredStep>& steps, std::vector<TensorValues>& members) {
  std::map<std::pair<std::size_t, int>, std::vector<Region>> sent;  // by sender and receiver
  for (std::size_t m = 0; m < steps.size(); ++m)
    if (const auto* transfers = std::get_if<Transfers>(&steps[m])) {
      for (const Transfer& t : transfers->sends) sent[{m, t.peer}].push_back(t.region);
    } else {
      for (const LocalStep& l : std::get<LocalSteps>(steps[m]))
        copy(members[m][l.from.tensor], l.from, members[m][l.to.tensor], l.to);
    }
  for (std::size_t m = 0; m < steps.size(); ++m)
    if (const auto* transfers = std::get_if<Transfers>(&steps[m])) {
      for (const Transfer& t : transfers->receives) {
        std::vector<Region>& from = sent[{static_cast<std::size_t>(t.peer), static_cast<int>(m)}];
        REQUIRE(!from.empty());
        copy(members[static_cast<std::size_t>(t.peer)][from.front().tensor], from.front(), members[m][t.region.tensor],
             t.region);
        from.erase(from.begin());
      }
    }
  for (const auto& [pair, left] : sent) REQUIRE(left.empty());
}

}  // namespace

TEST_CASE("every element of every all-to-all algorithm arrives by its lowered steps") {
  constexpr int block = 2;
  for (const std::vector<int>& levels : {std::vector{2, 2}, {2, 3}, {4, 2}, {2, 2, 2}, {3, 2, 2}})
    for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms) {
      OneOp one;
      one.steps = all_to_all_steps(algorithm.name, levels);
      int ranks = 1;
      for (int size : levels) ranks *= size;
      one.groups = ep_of(ranks);
      one.op = op_of(OpKind::Dispatch, Phase::Forward, Collective::AllToAll, GroupKind::Ep);
      one.op.work = ExchangeWork{.collective = Collective::AllToAll,
                                 .group = GroupKind::Ep,
                                 .steps = {0, static_cast<std::int32_t>(one.steps.size())}};
      one.reads = one.writes = {of_elements(block * ranks)};
      for (std::size_t i = 0; i + 1 < one.steps.size(); ++i)
        one.writes.push_back(of_elements(block * one.steps[i].target_blocks()));
      const Schedule s = one.schedule();
      std::vector<TensorValues> members(static_cast<std::size_t>(ranks));
      std::vector<LoweredOp> ops;
      for (int rank = 0; rank < ranks; ++rank) {
        TensorValues& own = members[static_cast<std::size_t>(rank)];
        for (TensorId id : s.writes_of(s.ops[0])) own[id].resize(static_cast<std::size_t>(s.tensors[id].elements), -1);
        for (int i = 0; i < block * ranks; ++i) own[0].push_back(rank * block * ranks + i);
        ops.push_back(lower(s, s.ops[0], rank));
      }
      for (std::size_t place = 0; place < one.steps.size(); ++place) {
        std::vector<LoweredStep> steps;
        for (const LoweredOp& op : ops) steps.push_back(op.steps.at(place));
        carry_out(steps, members);
      }
      Values expected;
      for (int rank = 0; rank < ranks; ++rank) {
        expected.clear();
        for (int from = 0; from < ranks; ++from)
          for (int i = 0; i < block; ++i) expected.push_back((from * ranks + rank) * block + i);
        INFO(name_in(all_to_all_names, algorithm.name) << ", rank " << rank << " of " << ranks);
        REQUIRE(members[static_cast<std::size_t>(rank)][1] == expected);
      }
    }
}

namespace {

// All members' lists: sends and receives pair off, kinds stand at the same places.
void check_joined(const std::vector<LoweredOp>& members) {
  for (const LoweredOp& m : members) {
    const std::size_t common = std::min(m.steps.size(), members[0].steps.size());
    REQUIRE(m.steps.size() == common);
    for (std::size_t i = 0; i < common; ++i) REQUIRE(m.steps[i].index() == members[0].steps[i].index());
  }
  for (std::size_t place = 0; place < members[0].steps.size(); ++place) {
    std::map<std::pair<int, int>, std::vector<std::int64_t>> sent, received;  // counts, by sender and receiver
    for (int m = 0; m < static_cast<int>(members.size()); ++m) {
      const LoweredStep& step = members[static_cast<std::size_t>(m)].steps[place];
      if (const auto* native = std::get_if<NativeCollective>(&step)) {
        const auto& first = std::get<NativeCollective>(members[0].steps[place]);
        REQUIRE(native->collective == first.collective);
        REQUIRE(native->from.count == first.from.count);
        REQUIRE((native->to.count == first.to.count || native->to.count == 0));  // 0: another stage's rank
        REQUIRE(native->root == first.root);
      }
      if (const auto* transfers = std::get_if<Transfers>(&step)) {
        for (const Transfer& t : transfers->sends) sent[{m, t.peer}].push_back(t.region.count);
        for (const Transfer& t : transfers->receives) received[{t.peer, m}].push_back(t.region.count);
      }
    }
    REQUIRE(sent == received);
  }
}

// Elements of a tensor that a member's list writes.
std::int64_t written(const LoweredOp& op, const Tensor& tensor, TensorId id) {
  std::vector<char> seen(static_cast<std::size_t>(tensor.elements));
  const auto write = [&](const Region& r) {
    if (r.tensor != id) return;
    REQUIRE((r.first >= 0 && r.first + r.count <= tensor.elements));
    std::fill_n(seen.begin() + r.first, r.count, 1);
  };
  const auto local = [&](const LocalSteps& steps) {
    for (const LocalStep& l : steps)
      for (std::int64_t row = 0; row < l.strides.rows; ++row)
        write({l.to.tensor, l.to.first + row * l.strides.to, l.to.count});
  };
  const auto transfers = [&](const Transfers& all) {
    for (const Transfer& t : all.receives) write(t.region);
  };
  const auto native = [&](const NativeCollective& n) { write(n.to); };
  for (const LoweredStep& step : op.steps) std::visit(Overloaded{local, transfers, native}, step);
  return std::ranges::count(seen, 1);
}

// Staging may keep parts without contents, and what an op reads too is updated in part.
bool written_whole(const Schedule& s, const Op& op, TensorId id) {
  const bool updated = std::ranges::find(s.reads_of(op), id) != s.reads_of(op).end();
  return !updated && s.tensors[id].kind != TensorKind::Staging;
}

int check_op(const Schedule& s, const Op& op, int ranks) {
  int groups = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> group = group_members(s.groups, op.group(), rank);
    if (group.front() != rank || (op.group() != GroupKind::Pp && s.class_of_rank(rank) != s.class_of(op))) continue;
    if (op.kind == OpKind::StageReceive) continue;  // the send has it
    std::vector<LoweredOp> members;
    for (int member : group) members.push_back(lower(s, op, member));
    check_joined(members);
    for (std::size_t m = 0; m < group.size(); ++m)
      for (TensorId id : s.writes_of(op)) {
        const Tensor& tensor = s.tensors[id];
        if (tensor.rank_class == s.class_of_rank(group[m]) && written_whole(s, op, id) && !s.relays(op))
          REQUIRE(written(members[m], tensor, id) == tensor.elements);
      }
    ++groups;
  }
  return groups;
}

}  // namespace

TEST_CASE("plans drawn at random: every send has its receive, and every element of a result is written") {
  Random random(5);
  std::map<OpKind, int> checked;
  for (int i = 0; i < 250; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    INFO(describe(e, plan));
    const Schedule s = build_schedule(e, plan);
    for (const Op& op : s.ops)
      if (op.exchange() != nullptr) checked[op.kind] += check_op(s, op, e.cluster.gpus());
  }
  for (OpKind kind : {OpKind::MpAllGather, OpKind::MpReduceScatter, OpKind::Dispatch, OpKind::EspAllGather,
                      OpKind::EspReduceScatter, OpKind::Combine, OpKind::GatherExpertWeights, OpKind::ShadowWeights,
                      OpKind::RestoreDispatch, OpKind::RestoreGather, OpKind::StageSend, OpKind::DenseGradientAllReduce,
                      OpKind::ExpertGradientAllReduce, OpKind::ParameterAllGather, OpKind::GradientNormAllReduce}) {
    INFO(name_in(op_kind_names, kind));
    CHECK(checked[kind] > 0);
  }
}
