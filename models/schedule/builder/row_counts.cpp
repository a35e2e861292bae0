// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/row_counts.hpp"

#include <algorithm>

#include "models/plan/message_sizes.hpp"
#include "models/schedule/lowering.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::builder {
namespace {

// The counts of rows after their exchange.
TensorId arrived(const RowCountIds& counts) {
  return counts.arriving.exists() ? counts.arriving : counts.own;
}
TensorId worked(const RowCountIds& counts) {
  return counts.gathered.exists() ? counts.gathered : arrived(counts);
}

// Brings rows of all shards' ranks together; else sums theirs.
bool gathers_rows(const Op& op) {
  const bool forward = op.phase == Phase::Forward;
  return op.kind == OpKind::RestoreGather ||
         ((op.kind == OpKind::EspAllGather || op.kind == OpKind::GatherScores) && forward) ||
         (op.kind == OpKind::EspReduceScatter && !forward);
}

bool deduplicates(const StepContext& c, const Op& op) {
  return c.deduplicates() && op.kind != OpKind::DispatchScores;
}

}  // namespace

bool sends_routed(const StepContext& c) {
  return dovetail::sends_routed(c.plan(), c.experiment().workload);
}

TensorId add_row_counts(StepContext& c, int layer) {
  return sends_routed(c) ? c.fp32(TensorKind::RowCounts, layer, c.volumes(layer).experts) : TensorId();
}

void exchange_counts(StepContext& c, int layer, TensorId row_counts, TensorId routing) {
  if (!row_counts.exists()) return;
  const LayerVolumes& v = c.volumes(layer);
  RowCountIds& counts = c.row_counts(layer);
  counts = {row_counts, {}, {}, routing};
  const auto exchange = [&](StreamId stream, const ExchangeWork& work, TensorKind kind, std::int64_t elements) {
    const TensorId from = arrived(counts), to = c.fp32(kind, layer, elements);
    c.add(c.op(OpKind::ExchangeCounts, Phase::Forward, layer, stream, work), {from}, {to});
    return to;
  };
  if (exchanges(c))
    counts.arriving =
        exchange(c.streams().inter, c.work(layer).count_exchange(), TensorKind::ArrivingCounts, v.experts);
  if (gathers(c))
    counts.gathered =
        exchange(c.streams().intra, c.work(layer).gather_counts(), TensorKind::GatheredCounts, v.esp * v.experts);
}

void wait_for_counts(StepContext& c, int layer) {
  if (!sends_routed(c) || c.plan().host_sync) return;  // which waits for everything
  const StreamId stream = gathers(c) ? c.streams().intra : exchanges(c) ? c.streams().inter : c.streams().compute;
  c.hold_back(c.add(c.op(OpKind::HostSync, Phase::Forward, layer, stream, c.work(layer).host_sync()),
                    {worked(c.row_counts(layer))}, {}));
}

TensorIds with_counts(const StepContext& c, const Op& op, TensorId rows) {
  if (!sends_routed(c)) return {rows};
  const RowCountIds& counts = c.row_counts(op.layer);
  if (entry_of(op.kind).exchanges_rows || op.kind == OpKind::RestoreDispatch) {
    TensorIds reads =
        to_owners(op) ? TensorIds{rows, counts.own, counts.arriving} : TensorIds{rows, counts.arriving, counts.own};
    if (!deduplicates(c, op)) return reads;
    reads.push_back(counts.choices);
    if (!to_owners(op)) reads.push_back(counts.tokens.at(static_cast<std::size_t>(op.chunk)));
    return reads;
  }
  return gathers_rows(op) ? TensorIds{rows, arrived(counts), counts.gathered}
                          : TensorIds{rows, counts.gathered, arrived(counts)};
}

TensorIds with_tokens(StepContext& c, const Op& op, TensorId arriving) {
  if (!deduplicates(c, op) || !to_owners(op) || op.kind == OpKind::RestoreDispatch) return {arriving};
  TensorIds& tokens = c.row_counts(op.layer).tokens;
  const auto chunk = static_cast<std::size_t>(op.chunk);
  tokens.resize(std::max(tokens.size(), chunk + 1));
  tokens[chunk] = c.row_scores(TensorKind::RowTokens, op);
  return {arriving, tokens[chunk]};
}

void append_counts(const StepContext& c, int layer, TensorIds& reads) {
  if (sends_routed(c)) reads.push_back(worked(c.row_counts(layer)));
}

}  // namespace dovetail::builder
