// SPDX-License-Identifier: Apache-2.0
#include "planners/search/step_bound.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/search/drag.hpp"

namespace dovetail::planners {
namespace {

Experiment one_moe_layer(Experiment e) {
  e.model.first_dense = 0;
  e.model.moe_every = 1;
  e.workload.layers = e.parallelism.pp;
  e.workload.mtp_layers = 0;
  e.parallelism.pipeline_layout.clear();
  if (e.workload.extent == Extent::Model) e.workload.extent = Extent::WholeLayers;
  return e;
}

// Two parts of a kernel or a collective may take less than the whole where costs go by their sizes.
Experiment of_least_costs(Experiment e) {
  e.calibration = least_costs(*e.calibration, e.workload.dtype, e.workload.other_products());
  return e;
}

// May run beside other layers: what is copied or sent to other stages, what is sent again from rows that are kept, and
// weights, which are there from the start.
bool floats(const Schedule& s, const Op& op) {
  const StreamKind kind = s.streams[op.stream].kind;
  return kind == StreamKind::Copy || kind == StreamKind::Send || kind == StreamKind::Receive ||
         entry_of(op.kind).floats;
}

// Each stage and micro-batch counts once, however many layers the stage has.
bool between_stages(StreamKind kind) {
  return kind == StreamKind::Send || kind == StreamKind::Receive;
}

bool synchronises(OpKind kind) {
  return entry_of(kind).part == OpPart::StepEnd;
}

// The time that an op demands of the GPUs' computation.
Seconds computing_of(const PricedSchedule& priced, OpId id) {
  Seconds seconds;
  priced.for_each_demand(id, [&](const Demand& d) {
    if (d.resource == static_cast<int>(InterferenceClass::Compute)) seconds += d.seconds;
  });
  return seconds;
}

// Looks at the first stage alone, because every stage has a layer like it.
class Sweep {
 public:
  Sweep(const PricedSchedule& priced, bool any_order, std::span<const Interference> pairs)
      : priced_(priced), s_(*priced.schedule), any_order_(any_order), pairs_(pairs) {}

  LayerSample run() {
    std::vector<Seconds> finish(s_.ops.size()), free(s_.streams.size());
    for (const OpId i : s_.ops.ids()) {
      const Op& op = s_.ops[i];
      if (synchronises(op.kind)) continue;
      const auto stream = static_cast<std::size_t>(op.stream);
      Seconds start = free[stream];
      for (OpId before : s_.dependencies_of(op)) start = std::max(start, finish[static_cast<std::size_t>(before)]);
      finish[i] = start + (floats(s_, op) ? Seconds(0) : priced_.duration[i]);
      if (!any_order_ || computes(op)) free[stream] = finish[i];
      if (s_.class_of(op) == 0) note(i, start, finish[i]);
    }
    const auto own = std::ranges::find(s_.streams, StreamKind::Gradients, &Stream::kind);  // the first stage's
    const bool apart = own != s_.streams.end();
    if (apart) link_ = static_cast<std::size_t>(own - s_.streams.begin());
    const double drag = drag_of(priced_, StreamId(link_), pairs_);
    const auto pass_of = [&](PassSample& pass, const Ends& ends, Seconds begin) {
      if (ends.last <= begin) return;
      pass.tail = ends.last - std::max(ends.compute, begin);
      pass.chain = ends.last - begin;
      pass.link = ends.held[link_];
      pass.link_fixed = ends.fixed[link_];
      pass.compute = ends.computing;
      pass.apart = apart;
      pass.drag = drag;
    };
    pass_of(sample_.forward, forward_, Seconds(0));
    pass_of(sample_.backward, backward_, std::max(forward_.last, backward_.first));
    for (const auto& [start, duration] : backward_links_)
      if (start < forward_.last) sample_.backward.early += duration;
    return sample_;
  }

 private:
  static constexpr std::size_t streams = stream_kind_names.size();
  struct Ends {
    Seconds first = Seconds(1e300), last, compute;
    std::array<Seconds, streams> held{}, fixed{};  // what streams do inside the pass: ops that float may run in another
    Seconds computing;
  };

  bool computes(const Op& op) const { return s_.streams[op.stream].kind == StreamKind::Compute; }

  void note(OpId id, Seconds start, Seconds finish) {
    const Op& op = s_.ops[id];
    const bool forward = op.pass() == Phase::Forward;
    Ends& ends = forward ? forward_ : backward_;
    if (!floats(s_, op)) {
      ends.first = std::min(ends.first, start);
      ends.last = std::max(ends.last, finish);
    }
    if (computes(op)) ends.compute = std::max(ends.compute, finish);
    const StreamKind kind = s_.streams[op.stream].kind;
    PassSample& pass = forward ? sample_.forward : sample_.backward;
    const auto at = static_cast<std::size_t>(op.stream);  // the first stage's streams come first
    if (at < streams && !between_stages(kind)) pass.busy[at] += priced_.duration[id];
    if (!priced_.launch.empty() && s_.graphs == Graphs::None && !between_stages(kind)) pass.host += priced_.launch[id];
    if (floats(s_, op)) return;
    if (at < streams) ends.held[at] += priced_.duration[id];
    if (at < streams) ends.fixed[at] += priced_.fixed[id];
    if (computes(op)) ends.computing += computing_of(priced_, id);
    if (!forward && !computes(op)) backward_links_.emplace_back(start, priced_.duration[id]);
    priced_.for_each_demand(id, [&](const Demand& demand) {
      if (const std::size_t place = place_of(demand.resource); place < pass.busy.size())
        pass.busy[place] += demand.seconds;
    });
    if (kind == StreamKind::Communication || kind == StreamKind::Inter) link_ = at;
  }

  // In `busy`, of a resource of the first class. Resources of contention stand after the physical ones, pair by pair.
  std::size_t place_of(int resource) const {
    const auto r = static_cast<std::size_t>(resource);
    if (r < priced_.physical) return r < interference_class_names.size() ? streams + r : sample_.forward.busy.size();
    return streams + interference_class_names.size() + (r - priced_.physical) / s_.classes.size();
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  const bool any_order_;
  const std::span<const Interference> pairs_;
  std::size_t link_ = 1;
  Ends forward_, backward_;
  std::vector<std::pair<Seconds, Seconds>> backward_links_;  // start and duration of backward communication
  LayerSample sample_;
};

Seconds busiest_resource(const PassSample& pass) {
  return *std::max_element(pass.busy.begin() + stream_kind_names.size(), pass.busy.end());
}

// Dense weights (T, E, C) of a part of the tokens reach only the slots of that part: parts together do less work.
bool shrinks_in_parts(const Op& op, const Plan& plan) {
  return plan.encoding == Encoding::Dense &&
         (op.kind == OpKind::Gate || op.kind == OpKind::Encode || op.kind == OpKind::Decode);
}

// Exchanges of attention that another computation may run beside: those of shared experts, and gathers of tokens beside
// the projections to low ranks of latent attention.
bool may_be_beside(const Schedule& s, const Op& op, const Model& model) {
  const bool latent = model.attention.kind == AttentionKind::Latent;
  return touches_ffn(s, op) || (latent && op.kind == OpKind::MpAllGather);
}

void add_to_floor(const PricedSchedule& priced, OpId id, const Model& model, bool simple,
                  std::vector<Seconds>& resources, PassFloor& floor) {
  const Op& op = priced.schedule->ops[id];
  const Seconds duration = priced.duration[id];
  const Seconds fixed = priced.fixed[id];
  if (floats(*priced.schedule, op)) return;
  priced.for_each_demand(
      id, [&](const Demand& demand) { resources[static_cast<std::size_t>(demand.resource)] += demand.seconds; });
  const OpEntry& entry = entry_of(op.kind);
  const bool of_scores = op.kind == OpKind::DispatchScores || op.kind == OpKind::GatherScores;
  if (of_scores) return;  // they may be sent beside rows
  if (entry.communicates && entry.part == OpPart::Experts) {
    floor.exchange += duration - (simple ? fixed : Seconds(0));
    if (simple) floor.latency += fixed;
  } else if (entry.communicates && entry.part == OpPart::Attention) {
    if (!may_be_beside(*priced.schedule, op, model)) floor.outside += duration;
  } else if (priced.schedule->streams[op.stream].kind == StreamKind::Compute) {
    if (op.kind == OpKind::Expert && op.expert < 0) floor.launch += fixed;  // shadowed experts are not cut into chunks
    floor.compute += duration;
  }
}

// The same ops as the plan's on the same streams, not cut and one after the other.
Plan in_one_chunk(Plan plan) {
  const CommStreams streams = plan.comm_streams;
  for (const KnobClass group : {KnobClass::Degrees, KnobClass::Arrangement, KnobClass::Memory})
    copy_knobs(group, Plan{}, plan);
  plan.scope = Scope::Moe;
  plan.comm_streams = streams;
  return plan;
}

}  // namespace

Seconds PassFloor::at(int degree, double chunk_share) const {
  return std::max(busiest, of_compute(degree) + outside + latency + exchange * chunk_share);
}

Seconds PassFloor::hidden(int degree) const {
  return std::max(busiest, of_compute(degree));
}

Seconds PassFloor::of_compute(int degree) const {
  return compute + (degree - 1) * launch;
}

StepBound::StepBound(const Experiment& experiment, const Plan& plan)
    : layer_(one_moe_layer(one_micro_batch(experiment, plan.micro_batches))),
      least_(of_least_costs(layer_)),
      times_(layer_times(experiment, plan)),
      parts_(static_cast<double>(plan.micro_batches) / times_.layout.pipelines()),
      stages_(experiment.parallelism.pp),
      training_(experiment.workload.phases == Phases::Training),
      halves_(training_ && plan.pipeline().halves) {
  const int layers = times_.layers();
  for (int stage = 0; stage < stages_; ++stage) {
    const auto here = static_cast<double>(
        std::ranges::count_if(times_.layout.layers_of(stage), [this](int layer) { return times_.is_moe(layer); }));
    of_stage_ = std::max(of_stage_, here);
  }
  moe_ = static_cast<double>(std::ranges::count(times_.moe, true));
  const auto dense = [&](const PhaseTimes& pass, const FfnTimes& ffn) {
    return (layers - moe_) * (pass.mp_before + pass.attention + pass.mp_after + ffn.total());
  };
  dense_forward_ = dense(times_.forward, times_.dense_forward);
  dense_backward_ = dense(times_.backward, times_.dense_backward);
  // The last layer's first gather depends on nothing, and may run beside the forward pass: that of a dense layer, or of
  // the shared experts of another.
  if (times_.moe.back())
    first_gather_ = times_.backward.shared.before;
  else
    dense_backward_ -= times_.dense_backward.before;
  reduces_ = training_ && stages_ == 1 && parts_ == 1;
  if (!reduces_) return;
  const LayerTimes least = layer_times(of_least_costs(experiment), plan);  // slices may take less than the whole
  const auto all_reduce = [&](std::int64_t elements) {
    return least.all_reduce_alpha + static_cast<double>(elements) * least.all_reduce_per_element;
  };
  first_reduced_ = all_reduce(times_.dense_elements.front());
  dense_reduced_ = all_reduce(times_.elements_after(-1));
  experts_reduced_ = least.expert_all_reduce;
  reduce_fixed_ = least.all_reduce_alpha + least.expert_all_reduce;
  update_ = times_.update;
}

PricedSchedule StepBound::priced(Plan plan, const Experiment& layer) const {
  for (const KnobClass group : {KnobClass::Pipeline, KnobClass::Gradients}) copy_knobs(group, Plan{}, plan);
  plan.backward_degrees.clear();
  return price_plan(layer, plan);
}

LayerSample StepBound::sample(const Plan& plan) const {
  const PricedSchedule all = priced(plan, layer_);
  const Schedule& s = *all.schedule;
  const bool any_order = plan.order == Order::ReadyFirst;
  const std::vector<Interference> pairs = interference_of(layer_, plan.all_to_all, plan.comm_sms);
  LayerSample sample = Sweep(all, any_order, pairs).run();
  if (any_order)  // all that a forward pass sends, it sends between its ends
    sample.forward.chain = std::max(sample.forward.chain, busiest_resource(sample.forward));
  const Timeline timeline = AnalyticBackend().run(all);
  Seconds forward, first(1e300), last;
  for (const OpId i : timeline.ops.ids()) {
    const Op& op = s.ops[i];
    if (synchronises(op.kind) || floats(s, op) || s.class_of(op) != 0) continue;
    if (op.pass() == Phase::Forward) forward = std::max(forward, timeline.ops[i].finish);
    if (op.pass() != Phase::Backward) continue;
    first = std::min(first, timeline.ops[i].start);
    last = std::max(last, timeline.ops[i].finish);
  }
  sample.forward.alone = std::max(sample.forward.chain, forward);
  sample.backward.alone =
      last > Seconds(0) ? std::max(sample.backward.chain, last - std::max(first, forward)) : Seconds(0);
  return sample;
}

// Chunks together may take less than all rows at once where times were measured by size, or are stated.
bool StepBound::times_bend(const Plan& plan) const {
  if (!layer_.extensions.empty()) return true;
  return plan.all_to_all == AllToAll::NodeDeduplicated &&
         find_table(layer_.calibration->tables, KernelKind::Dispatch) != nullptr;
}

LayerFloor StepBound::floor(const Plan& plan) const {
  LayerFloor floor;
  if (layer_.model.expert_profile.given() || layer_.model.gate_profile.given() || times_bend(plan)) return floor;
  Plan sequential = in_one_chunk(plan);
  sequential.comm_streams = CommStreams::One;
  const PricedSchedule all = priced(sequential, least_);
  const bool simple = plan.protocol == Protocol::Simple && plan.all_to_all == AllToAll::Linear;
  for (Phase phase : {Phase::Forward, Phase::Backward}) {
    PassFloor& pass = phase == Phase::Forward ? floor.forward : floor.backward;
    std::vector<Seconds> resources(all.resources.size());
    for (const OpId i : all.schedule->ops.ids())
      if (const Op& op = all.schedule->ops[i]; op.pass() == phase && op.layer == 0 && all.schedule->class_of(op) == 0 &&
                                               !synchronises(op.kind) && !shrinks_in_parts(op, plan))
        add_to_floor(all, i, layer_.model, simple, resources, pass);
    pass.busiest = *std::ranges::max_element(resources);
  }
  return floor;
}

StreamFloor StepBound::streams(const Plan& plan) const {
  StreamFloor floor;
  if (times_bend(plan)) return floor;
  const PricedSchedule all = priced(in_one_chunk(plan), least_);
  const Schedule& s = *all.schedule;
  const auto reducing = std::ranges::find(s.ops, OpKind::DenseGradientAllReduce, &Op::kind);
  const StreamId link = reduces_ && reducing != s.ops.end() ? reducing->stream : StreamId();
  IdVector<StreamId, Seconds> busy(s.streams.size());
  Seconds dense, forward, backward;  // computation of a layer's passes
  std::int64_t elements = 0;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    const Seconds duration = all.duration[i] - all.fixed[i];
    if (op.kind == OpKind::DenseGradientAllReduce) {
      dense += duration;
      elements += op.gradients.size();
    } else if (op.kind == OpKind::ExpertGradientAllReduce) {
      floor.gradients += link == op.stream ? moe_ * duration : Seconds(0);
    } else if (synchronises(op.kind)) {
      continue;  // once a step, however many layers and micro-batches it has
    } else if (const StreamKind kind = s.streams[op.stream].kind;
               kind != StreamKind::Compute && !between_stages(kind)) {
      busy[op.stream] += duration;
      if (op.stream == link && op.pass() == Phase::Backward && !floats(s, op)) floor.backward += duration;
    } else if (kind == StreamKind::Compute && op.layer == 0 && op.phase != Phase::Update && !floats(s, op) &&
               !synchronises(op.kind) && !shrinks_in_parts(op, plan)) {
      (op.pass() == Phase::Forward ? forward : backward) += computing_of(all, i);
    }
  }
  if (link.exists())
    floor.gradients += dense / static_cast<double>(elements) * static_cast<double>(times_.elements_after(-1));
  const std::vector<Interference> pairs = interference_of(least_, plan.all_to_all, plan.comm_sms);
  floor.dragged = drag_of(all, link, pairs) * backward;
  for (const StreamId stream : busy.ids()) {
    if (s.streams[stream].rank_class != 0) continue;
    const Seconds dragged = drag_of(all, stream, pairs) * (forward + backward);
    floor.busiest = std::max(
        floor.busiest, parts_ * of_stage_ * (busy[stream] + dragged) + (stream == link ? floor.gradients : Seconds(0)));
  }
  return floor;
}

Seconds StepBound::of(const PassSample& forward, const PassSample& backward) const {
  Seconds busiest = parts_ * of_stage_ * (forward.host + backward.host);
  for (std::size_t i = 0; i < forward.busy.size(); ++i)
    busiest = std::max(busiest, parts_ * of_stage_ * (forward.busy[i] + backward.busy[i]));
  if (!training_ || halves_) return std::max(busiest, moe_ * forward.chain + dense_forward_);
  const Seconds layer = std::max(backward.chain, busiest_resource(backward));
  const Seconds gather = stages_ > 1 ? first_gather_ : Seconds(0);  // of the last stage, which is not the sample's
  const Seconds chain = (moe_ - 1) * layer + backward.chain + dense_backward_ - gather;
  const Seconds all = dense_reduced_ + (backward.apart ? Seconds(0) : experts_reduced_);  // on the stream of `link`
  const Seconds reduced =
      std::max(chain - backward.tail + first_reduced_,
               moe_ * backward.link - backward.early - gather - backward.tail + all + dragged(backward));
  return std::max(busiest, moe_ * forward.chain + dense_forward_ + std::max(chain, reduced + update_));
}

// The layer that the backward pass reaches first may compute before the forward pass has ended.
Seconds StepBound::dragged(const PassSample& backward) const {
  const Seconds beside = (moe_ - 1) * backward.compute - moe_ * backward.link_fixed - reduce_fixed_;
  return std::max(Seconds(0), backward.drag * beside);
}

// Gradients are reduced after the forward pass. The layer that the backward pass reaches first may send before that,
// and the last one after.
Seconds StepBound::of(const StreamFloor& streams, Seconds forward, Seconds backward) const {
  const Seconds least = std::max(of(forward, backward), streams.busiest);
  if (!reduces_) return least;
  const Seconds link = std::max(moe_ - 2, 0.0) * (streams.backward + streams.dragged) + streams.gradients;
  return std::max(least, moe_ * forward + dense_forward_ + link + update_);
}

// Gradients of weights may fill every wait, so that a micro-batch's way back tells nothing of the step.
Seconds StepBound::of_halves(const StreamFloor& streams, Seconds forward, Seconds backward) const {
  return std::max({moe_ * forward + dense_forward_, parts_ * of_stage_ * (forward + backward), streams.busiest});
}

Seconds StepBound::of(Seconds forward, Seconds backward) const {
  return moe_ * (forward + backward) + dense_forward_ + (training_ ? dense_backward_ - first_gather_ : Seconds(0));
}

Seconds StepBound::reduced_after(const PassSample& forward, const PassSample& backward) const {
  if (halves_) return of(forward, backward);
  const Seconds all = backward.apart ? std::max(dense_reduced_, experts_reduced_) : dense_reduced_ + experts_reduced_;
  const Seconds reduced = moe_ * backward.chain + dense_backward_ - backward.tail + all + update_;
  return std::max(of(forward, backward), moe_ * forward.chain + dense_forward_ + reduced);
}

}  // namespace dovetail::planners
