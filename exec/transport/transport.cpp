// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/transport.hpp"

#include "models/base/errors.hpp"

namespace dovetail::exec {

double Communicator::collective(Collective kind, const Exchange& e, int root) {
  switch (kind) {
    case Collective::AllToAll:
      return all_to_all(e);
    case Collective::AllGather:
      return all_gather(e);
    case Collective::ReduceScatter:
      return reduce_scatter(e);
    case Collective::AllReduce:
      return all_reduce(e);
    case Collective::Broadcast:
      return broadcast(e, root);
    case Collective::Reduce:
      return reduce(e, root);
    case Collective::Send:
    case Collective::None:
      break;
  }
  throw InternalError("communicators have no such collective");
}

}  // namespace dovetail::exec
