#include "models/builder/send.hpp"

#include "models/builder/exchange.hpp"

namespace dovetail::builder {

TensorId send_rows(StepContext& c, const Op& chunk, const SendKinds& kinds, TensorId input, SendRings& rings) {
  const auto op = [&](OpKind kind, StreamId stream, const Work& work) {
    Op o = chunk;
    o.kind = kind;
    o.stream = stream;
    o.work = work;
    return o;
  };
  TensorId t = input;
  if (exchanges(c))
    t = rings.exchanged.add(
        exchange(c, op(kinds.exchange, c.streams().inter, {}), t, kinds.exchanged, rings.exchanged.next()));
  if (gathers(c)) {
    const Work work = c.work(chunk.layer).esp(Collective::AllGather, chunk.rows.size());
    t = rings.gathered.add(c.pass(op(kinds.gather, c.streams().intra, work), t, kinds.gathered,
                                  c.volumes(chunk.layer).gathered_elements(chunk.rows.size()), rings.gathered.next()));
  }
  return t;
}

}  // namespace dovetail::builder
