// SPDX-License-Identifier: Apache-2.0
#include "exec/device/group_op.hpp"

#include <utility>

#include "exec/device/tensor_bodies.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// The members' steps joined, place by place: a send and its receive are a copy; a collective is copies or sums.
template <class Scalar>
class GroupExchange {
 public:
  GroupExchange(Recorder& out, const std::vector<GroupMember>& members) : out_(out) {
    for (const GroupMember& m : members) {
      LoweredOp op = m.lowered();
      RankRegions<Scalar> regions(out, m, op.scratch);
      members_.push_back({std::move(op), std::move(regions)});
    }
    if (members[0].operands.op.kind == OpKind::StageSend) join_stages();
  }

  void record() {
    for (std::size_t step = 0; step < members_[0].op.steps.size(); ++step) {
      if (std::holds_alternative<LocalSteps>(members_[0].op.steps[step]))
        for (Member& m : members_) m.regions.record(std::get<LocalSteps>(m.op.steps[step]));
      else if (std::holds_alternative<Transfers>(members_[0].op.steps[step]))
        join(all<Transfers>(step));
      else
        collective(all<NativeCollective>(step));
    }
  }

 private:
  struct Member {
    LoweredOp op;
    RankRegions<Scalar> regions;
  };

  template <class Step>
  std::vector<Step> all(std::size_t step) const {
    std::vector<Step> steps;
    for (const Member& m : members_) steps.push_back(std::get<Step>(m.op.steps[step]));
    return steps;
  }

  RankRegions<Scalar>& at(std::size_t member) { return members_[member].regions; }

  // The sender of two stages sums what it sends where it arrives, so that there is nothing to copy.
  void join_stages() {
    auto& sent = std::get<Transfers>(members_[0].op.steps.back());
    at(0).place_scratch(at(1).at(std::get<Transfers>(members_[1].op.steps.back()).receives[0].region));
    sent.sends.clear();
  }

  void join(const std::vector<Transfers>& all) {
    const std::size_t size = all.size();
    std::vector<std::size_t> next(size * size);  // by receiver and sender: the receives that are not looked at yet
    for (std::size_t from = 0; from < size; ++from)
      for (const Transfer& sent : all[from].sends) {
        const auto to = static_cast<std::size_t>(sent.peer);
        const std::vector<Transfer>& receives = all[to].receives;
        std::size_t& i = next[to * size + from];
        while (i < receives.size() && receives[i].peer != static_cast<int>(from)) ++i;
        check(i < receives.size() && receives[i].region.count == sent.region.count, "a send without its receive");
        out_.copy(at(to).at(receives[i++].region), at(from).at(sent.region), at(from).bytes(sent.region));
      }
  }

  void collective(const std::vector<NativeCollective>& all) {
    const auto size = static_cast<int>(all.size());
    switch (all[0].collective) {
      case Collective::AllToAll: {
        std::vector<Transfers> messages;
        for (const NativeCollective& n : all) messages.push_back(messages_of(n, size));
        return join(messages);
      }
      case Collective::AllGather:
        for (std::size_t to = 0; to < all.size(); ++to)
          for (std::size_t from = 0; from < all.size(); ++from)
            copy(from, all[from].from, to, block_of(all[to].to, from, all[from].from.count));
        return;
      case Collective::ReduceScatter:
        return at(0).is_wide(all[0].from) ? reduce_scatter<Wide<Scalar>>(all) : reduce_scatter<Scalar>(all);
      case Collective::AllReduce:
        return at(0).is_wide(all[0].from) ? all_reduce<Wide<Scalar>>(all) : all_reduce<Scalar>(all);
      case Collective::Broadcast:
        for (std::size_t to = 0; to < all.size(); ++to)
          copy(static_cast<std::size_t>(all[to].root), all[to].from, to, all[to].to);
        return;
      case Collective::Reduce: {
        const auto root = static_cast<std::size_t>(all[0].root);
        return sum(sources(all), 0, all[root].to.count, at(root).scalars(all[root].to));
      }
      default:
        throw InternalError("no collective on one device");
    }
  }

  template <class Number>
  void reduce_scatter(const std::vector<NativeCollective>& all) {
    const Sources<Number> from = sources<Number>(all);
    for (std::size_t to = 0; to < all.size(); ++to)
      sum(from, static_cast<std::int64_t>(to) * all[to].to.count, all[to].to.count,
          reinterpret_cast<Number*>(at(to).at(all[to].to)));
  }

  // If several stages meet, only the members of one get the sum.
  template <class Number>
  void all_reduce(const std::vector<NativeCollective>& all) {
    const std::int64_t count = all[0].from.count;
    auto* const total = out_.scratch<Number>(count);
    sum(sources<Number>(all), 0, count, total);
    for (std::size_t to = 0; to < all.size(); ++to)
      if (all[to].to.count > 0) out_.copy(at(to).at(all[to].to), total, at(to).bytes(all[to].to));
  }

  static Region block_of(const Region& region, std::size_t i, std::int64_t count) {
    return region.part(static_cast<std::int64_t>(i) * count, count);
  }

  void copy(std::size_t from, const Region& source, std::size_t to, const Region& target) {
    out_.copy(at(to).at(target), at(from).at(source), at(to).bytes(target));
  }

  template <class Number>
  struct Sources {
    const Number* const* tensors;  // of the members
    std::int64_t count, first;     // how many; the element of each that the region begins with
  };
  template <class Number = Scalar>
  Sources<Number> sources(const std::vector<NativeCollective>& all) {
    std::vector<const Number*> tensors;
    for (std::size_t m = 0; m < all.size(); ++m)
      tensors.push_back(reinterpret_cast<const Number*>(at(m).at({all[m].from.tensor, 0, 0})));
    return {out_.table(tensors), std::ssize(all), all[0].from.first};
  }

  // Elements [first, first + count) of all regions that are read, in group order.
  template <class Number>
  void sum(const Sources<Number>& from, std::int64_t first, std::int64_t count, Number* total) {
    launch_packed<Number>(
        out_, count,
        [&]<int size>() {
          return SumOf<Number, size>{from.tensors, from.count, from.first + first, total};
        },
        (from.first + first) % pack_size<Number> == 0);
  }

  Recorder& out_;
  std::vector<Member> members_;
};

}  // namespace

bool exchanges(const Schedule& schedule, const Op& op) {
  return op.collective() != Collective::None || !schedule.steps_of(op).empty() || op.kind == OpKind::StageSend;
}

template <class Scalar>
void record_exchange(Recorder& out, const std::vector<GroupMember>& members) {
  GroupExchange<Scalar>(out, members).record();
}

template void record_exchange<double>(Recorder&, const std::vector<GroupMember>&);
template void record_exchange<float>(Recorder&, const std::vector<GroupMember>&);
template void record_exchange<Bf16>(Recorder&, const std::vector<GroupMember>&);

}  // namespace dovetail::exec
