// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/send.hpp"

#include "models/schedule/builder/exchange.hpp"
#include "models/schedule/builder/row_counts.hpp"

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
    const Wire wire = c.is_compressed(t) ? c.wire(kinds.exchange, chunk.phase) : Wire::Same;
    const Work work = c.work(chunk.layer).esp(Collective::AllGather, chunk_of(chunk), wire);
    const Op gather = op(kinds.gather, c.streams().intra, work);
    const TensorKind kind = wire == Wire::Same ? kinds.gathered : TensorKind::Compressed;
    const std::int64_t elements = c.row_elements(gather, wire, c.volumes(chunk.layer).esp);
    const TensorId gathered = rings.gathered.add(c.chunked(kind, gather, elements, wire, rings.gathered.next()));
    c.add(gather, with_counts(c, gather, t), {&gathered, 1});
    t = gathered;
  }
  return t;
}

}  // namespace dovetail::builder
