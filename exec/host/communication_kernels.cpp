// SPDX-License-Identifier: Apache-2.0
#include "exec/host/communication_kernels.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "exec/host/relayed_exchange.hpp"
#include "exec/host/row_exchange.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
class MemberExchange {
 public:
  MemberExchange(OpContext<Scalar>& context, std::int64_t scratch)
      : c_(context), scratch_(std::make_unique_for_overwrite<Scalar[]>(static_cast<std::size_t>(scratch))) {}

  void operator()(const LocalSteps& steps) {
    for (const LocalStep& step : steps) {
      Scalar* const to = at(step.to);
      switch (step.kind) {
        case LocalKind::Zero:
          std::fill_n(to, step.to.count, Scalar(0));
          break;
        case LocalKind::Copy:
          for (std::int64_t row = 0; row < step.strides.rows; ++row)
            std::copy_n(at(step.from) + row * step.strides.from, step.to.count, to + row * step.strides.to);
          break;
        case LocalKind::Add:
          std::transform(to, to + step.to.count, at(step.from), to, std::plus<Scalar>());
          break;
      }
    }
  }

  void operator()(const Transfers& transfers) {
    if (transfers.arrives >= 0) return between_stages(transfers);
    std::vector<Send> sends;
    for (const Transfer& t : transfers.sends) sends.push_back({t.peer, at(t.region), t.region.count});
    std::vector<Receive> receives;
    for (const Transfer& t : transfers.receives) receives.push_back({t.peer, at(t.region), t.region.count});
    for (const Transfer& t : transfers.sends)
      if (t.peer != c_.communicator->rank()) count_sent(t.region.count);
    c_.ready = c_.communicator->send_receive(sends, receives, element_of<Scalar>(), c_.ready);
  }

  void operator()(const NativeCollective& n) {
    Communicator& communicator = *c_.communicator;
    count_sent(sent_by(n, communicator));
    const Exchange e = exchange<Scalar>(at(n.from), at(n.to), n.block(communicator.size()), c_.ready);
    c_.ready = communicator.collective(n.collective, e, n.root);
  }

 private:
  // The elements that a member sends to others.
  static std::int64_t sent_by(const NativeCollective& n, const Communicator& communicator) {
    const std::int64_t others = communicator.size() - 1, block = n.block(communicator.size());
    switch (n.collective) {
      case Collective::AllReduce: {  // what the others sum up, and then its own share of the sums
        const std::int64_t own =
            block * (communicator.rank() + 1) / communicator.size() - block * communicator.rank() / communicator.size();
        return block - own + others * own;
      }
      case Collective::Broadcast:
        return communicator.rank() == n.root ? others * block : 0;
      case Collective::Reduce:
        return communicator.rank() == n.root ? 0 : block;
      default:
        return others * block;
    }
  }
  void count_sent(std::int64_t elements) {
    const double bytes = static_cast<double>(elements) * size_of(c_.tensor(c_.source()).dtype).value();
    c_.traffic.sent += bytes;
    c_.traffic.padded += bytes;
  }

  void between_stages(const Transfers& message) {
    Communicator& communicator = *c_.communicator;
    for (const Transfer& t : message.sends) count_sent(t.region.count);
    for (const Transfer& t : message.sends)
      communicator.post(exchange<Scalar>(at(t.region), nullptr, t.region.count, c_.ready), t.peer, message.arrives);
    for (const Transfer& t : message.receives)
      c_.ready = communicator.take(exchange<Scalar>(nullptr, at(t.region), t.region.count, c_.ready), message.arrives);
  }

  Scalar* at(const Region& r) const {
    return (r.tensor == Region::scratch ? scratch_.get() : c_.tensors[r.tensor]) + r.first;
  }

  OpContext<Scalar>& c_;
  std::unique_ptr<Scalar[]> scratch_;
};

}  // namespace

template <class Scalar>
void communicate(OpContext<Scalar>& context, const LoweredOp& op) {
  if (context.schedule.relays(context.op)) return exchange_relayed(context);
  if (moves_counted_rows(context)) return exchange_rows(context);
  MemberExchange<Scalar> exchange(context, op.scratch);
  for (const LoweredStep& step : op.steps) std::visit(exchange, step);
}

template void communicate<float>(OpContext<float>&, const LoweredOp&);
template void communicate<double>(OpContext<double>&, const LoweredOp&);

}  // namespace dovetail::exec
