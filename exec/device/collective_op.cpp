#include "exec/device/collective_op.hpp"

#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
class RankExchange {
 public:
  RankExchange(Recorder& out, const GroupMember& self, DeviceCommunicator& communicator)
      : out_(out), self_(self), op_(self.lowered()), here_(out, self, op_.scratch), communicator_(communicator) {}

  void record() {
    for (const LoweredStep& step : op_.steps) std::visit(*this, step);
  }

  void operator()(const LocalSteps& steps) { here_.record(steps); }

  void operator()(const Transfers& transfers) {
    std::vector<DeviceSend> sends;
    for (const Transfer& t : transfers.sends) sends.push_back({peer(t), here_.at(t.region), here_.bytes(t.region)});
    std::vector<DeviceReceive> receives;
    for (const Transfer& t : transfers.receives)
      receives.push_back({peer(t), here_.at(t.region), here_.bytes(t.region)});
    if (sends.empty() && receives.empty()) return;
    out_.call([&c = communicator_, sends = std::move(sends), receives = std::move(receives)](Queue& queue) {
      c.send_receive(queue, sends, receives);
    });
  }

  void operator()(const NativeCollective& n) {
    if (n.collective == Collective::AllToAll) return (*this)(messages_of(n, communicator_.size()));
    const DeviceSum sum{here_.at(n.from), here_.at(n.to), n.to.count, StoredOf<Scalar>::value};
    const std::int64_t bytes = n.collective == Collective::AllGather ? here_.bytes(n.from) : here_.bytes(n.to);
    out_.call([&c = communicator_, kind = n.collective, sum, bytes, root = n.root](Queue& queue) {
      give(queue, c, kind, sum, bytes, root);
    });
  }

 private:
  static void give(Queue& queue, DeviceCommunicator& c, Collective kind, const DeviceSum& sum, std::int64_t bytes,
                   int root) {
    switch (kind) {
      case Collective::AllGather:
        return c.all_gather(queue, sum.send, sum.receive, bytes);
      case Collective::ReduceScatter:
        return c.reduce_scatter(queue, sum);
      case Collective::AllReduce:
        return c.all_reduce(queue, sum);
      case Collective::Broadcast:
        return c.broadcast(queue, sum.send, sum.receive, bytes, root);
      case Collective::Reduce:
        return c.reduce(queue, sum, root);
      default:
        throw InternalError("no native collective between devices");
    }
  }

  // Two neighbouring stages have a communicator of their own, in which the earlier one is the first.
  int peer(const Transfer& t) const {
    const Op& op = self_.operands.op;
    if (op.group() != GroupKind::Pp) return t.peer;
    return t.peer > self_.operands.schedule.class_of(op) ? 1 : 0;
  }

  Recorder& out_;
  const GroupMember& self_;
  LoweredOp op_;
  RankRegions<Scalar> here_;
  DeviceCommunicator& communicator_;
};

}  // namespace

template <class Scalar>
void record_collective(Recorder& out, const GroupMember& self, DeviceCommunicator& communicator) {
  RankExchange<Scalar>(out, self, communicator).record();
}

template void record_collective<double>(Recorder&, const GroupMember&, DeviceCommunicator&);
template void record_collective<float>(Recorder&, const GroupMember&, DeviceCommunicator&);
template void record_collective<Bf16>(Recorder&, const GroupMember&, DeviceCommunicator&);

}  // namespace dovetail::exec
