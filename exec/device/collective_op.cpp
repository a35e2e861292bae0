// SPDX-License-Identifier: Apache-2.0
#include "exec/device/collective_op.hpp"

#include <utility>

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
    const Region& whole = n.collective == Collective::AllGather ? n.from : n.to;
    const DeviceCollective call{n.collective,
                                here_.at(n.from),
                                here_.at(n.to),
                                here_.bytes(whole.part(0, n.block(communicator_.size()))),
                                here_.is_wide(n.from) ? StoredOf<Wide<Scalar>>::value : StoredOf<Scalar>::value,
                                n.root};
    out_.call([&c = communicator_, call](Queue& queue) { c.collective(queue, call); });
  }

 private:
  // Two neighbouring stages have a communicator of their own, in which the one of lower ranks is the first.
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
