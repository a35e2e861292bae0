// Forward and backward of the layers in the order of operands.md; chunks, streams and gradient slices as the plan says.
#include "models/schedule_builder.hpp"

#include <algorithm>
#include <array>

#include "models/errors.hpp"
#include "models/op_work.hpp"
#include "models/schedule_writer.hpp"

namespace dovetail {
namespace {

using TensorIds = std::vector<TensorId>;

// What the forward pass of a layer leaves for its backward pass. Where a group has one rank its collective is
// left out, and two of these are the same tensor.
struct SavedLayer {
  TensorId attention_input, query_key_value, context, log_sum_exp, moe_input, routing;
  TensorIds expert_input, hidden, combined;  // by forward chunk
};

class Builder {
 public:
  Builder(const Experiment& experiment, const Plan& plan)
      : e_(experiment), plan_(plan), v_(layer_volumes(experiment)), work_(v_, e_.workload.dtype), w_(op_estimate()) {
    compute_ = w_.add_stream(StreamKind::Compute);
    const bool split = plan.comm_streams == CommStreams::InterIntra;
    inter_ = w_.add_stream(split ? StreamKind::Inter : StreamKind::Communication);
    intra_ = split ? w_.add_stream(StreamKind::Intra) : inter_;
    add_persistent_tensors();
  }

  Schedule build() {
    TensorId x = w_.add_tensor(persistent(TensorKind::LayerInput, 0, v_.tokens * v_.hidden));
    for (int layer = 0; layer < e_.workload.layers; ++layer) x = forward(layer, x);
    if (e_.workload.phases == Phases::Training) {
      Tensor loss_gradient = persistent(TensorKind::LayerInput, e_.workload.layers, v_.tokens * v_.hidden);
      loss_gradient.gradient = true;
      TensorIds gradient{w_.add_tensor(loss_gradient)};
      for (int layer = e_.workload.layers - 1; layer >= 0; --layer) gradient = backward(layer, gradient);
      finish_step();
    }
    return w_.finish(e_.cluster.gpus());
  }

 private:
  std::size_t op_estimate() const {
    const std::size_t chunks = 5 * static_cast<std::size_t>(plan_.forward_degree + plan_.backward_degree);
    return static_cast<std::size_t>(e_.workload.layers) * (chunks + 16) + plan_.gradient_slices.size() + 4;
  }

  // --- tensors ---
  Tensor tensor(TensorKind kind, int layer, std::int64_t elements) const {
    Tensor t;
    t.kind = kind;
    t.dtype = e_.workload.dtype;
    t.layer = static_cast<std::int16_t>(layer);
    t.elements = elements;
    return t;
  }
  Tensor persistent(TensorKind kind, int layer, std::int64_t elements) const {
    Tensor t = tensor(kind, layer, elements);
    t.persistent = true;
    return t;
  }
  TensorId activation(TensorKind kind, int layer, std::int64_t elements, bool gradient = false) {
    Tensor t = tensor(kind, layer, elements);
    t.gradient = gradient;
    return w_.add_tensor(t);
  }
  TensorId chunked(TensorKind kind, const Op& op, std::int64_t elements) {
    Tensor t = tensor(kind, op.layer, elements);
    t.gradient = op.phase == Phase::Backward;
    t.chunk = op.chunk;
    t.rows = op.rows;
    return w_.add_tensor(t);
  }
  TensorId fp32(TensorKind kind, int layer, std::int64_t elements) {
    Tensor t = tensor(kind, layer, elements);
    t.dtype = DType::Fp32;
    return w_.add_tensor(t);
  }

  void add_persistent_tensors() {
    const int layers = e_.workload.layers;
    for (int layer = 0; layer < layers; ++layer) {
      dense_weights_.push_back(w_.add_tensor(persistent(TensorKind::DenseWeights, layer, v_.dense_parameters)));
      router_weights_.push_back(w_.add_tensor(persistent(TensorKind::RouterWeights, layer, v_.router_parameters)));
      expert_weights_.push_back(w_.add_tensor(persistent(TensorKind::ExpertWeights, layer, v_.expert_parameters)));
    }
    if (e_.workload.phases == Phases::ForwardOnly) return;
    dense_gradients_ = w_.add_tensor(persistent(TensorKind::DenseGradients, 0, layers * v_.dense_parameters));
    for (int layer = 0; layer < layers; ++layer) {
      router_gradient_.push_back(w_.add_tensor(persistent(TensorKind::RouterGradient, layer, v_.router_parameters)));
      expert_gradient_.push_back(w_.add_tensor(persistent(TensorKind::ExpertGradient, layer, v_.expert_parameters)));
    }
    // Two Adam moments, and a master weight where weights are not fp32.
    const int states = e_.workload.dtype == DType::Fp32 || e_.workload.dtype == DType::Fp64 ? 2 : 3;
    Tensor state = persistent(TensorKind::OptimizerState, 0, states * parameters());
    state.dtype = DType::Fp32;
    optimizer_state_ = w_.add_tensor(state);
  }
  std::int64_t parameters() const {
    return e_.workload.layers * (v_.dense_parameters + v_.router_parameters + v_.expert_parameters);
  }

  // --- ops ---
  Op op(OpKind kind, Phase phase, int layer, StreamId stream, const Work& work) const {
    Op o;
    o.kind = kind;
    o.phase = phase;
    o.stream = stream;
    o.layer = static_cast<std::int16_t>(layer);
    o.work = work;
    return o;
  }
  Op chunk_op(OpKind kind, Phase phase, int layer, StreamId stream, int chunk, RowRange rows, const Work& work) const {
    Op o = op(kind, phase, layer, stream, work);
    o.chunk = static_cast<std::int16_t>(chunk);
    o.rows = rows;
    return o;
  }
  OpId add(const Op& o, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> writes) {
    return w_.add_op(o, {reads.begin(), reads.size()}, {writes.begin(), writes.size()});
  }

  // A chunk's collective: reads `input`, writes a new tensor of that kind.
  TensorId pass(const Op& o, TensorId input, TensorKind kind, std::int64_t elements) {
    const TensorId output = chunked(kind, o, elements);
    add(o, {input}, {output});
    return output;
  }

  TensorId forward(int layer, TensorId x);
  TensorId forward_attention(int layer, TensorId x, SavedLayer& saved);
  void forward_experts(int layer, const TensorIds& encoded, SavedLayer& saved);
  TensorIds backward(int layer, const TensorIds& gradient);
  TensorIds backward_experts(int layer, const TensorIds& d_combined);
  TensorId backward_attention(int layer, TensorId d_moe_input);
  void add_slices(Window window, int layer);
  void finish_step();

  const Experiment& e_;
  const Plan& plan_;
  const LayerVolumes v_;
  const OpWork work_;
  ScheduleWriter w_;
  StreamId compute_, inter_, intra_;
  TensorIds dense_weights_, router_weights_, expert_weights_, router_gradient_, expert_gradient_;
  TensorId dense_gradients_ = -1, optimizer_state_ = -1;
  std::vector<SavedLayer> saved_;
  std::vector<GradientSlice> slices_ =
      gradient_slices(plan_, e_.workload.layers, v_.dense_parameters);  // those not yet placed start at next_slice_
  std::size_t next_slice_ = 0;
  std::int64_t reduced_ = 0;  // dense gradients covered by the slices placed so far
};

TensorId Builder::forward_attention(int layer, TensorId x, SavedLayer& saved) {
  const std::int64_t gathered = v_.sequence_tokens * v_.hidden;
  saved.attention_input = x;
  if (e_.parallelism.mp > 1) {
    saved.attention_input = activation(TensorKind::AttentionInput, layer, gathered);
    add(op(OpKind::MpAllGather, Phase::Forward, layer, intra_, work_.mp(Collective::AllGather)), {x},
        {saved.attention_input});
  }
  saved.query_key_value =
      activation(TensorKind::QueryKeyValue, layer, v_.sequence_tokens * (v_.query_width + 2 * v_.key_value_width));
  saved.context = activation(TensorKind::AttentionContext, layer, v_.sequence_tokens * v_.query_width);
  saved.log_sum_exp = fp32(TensorKind::LogSumExp, layer, v_.sequence_tokens * v_.query_heads);
  const TensorId partial = activation(TensorKind::AttentionPartial, layer, gathered);
  add(op(OpKind::Attention, Phase::Forward, layer, compute_, work_.attention(Phase::Forward)),
      {saved.attention_input, dense_weights_[static_cast<std::size_t>(layer)]},
      {saved.query_key_value, saved.context, saved.log_sum_exp, partial});
  if (e_.parallelism.mp == 1) return partial;
  const TensorId output = activation(TensorKind::AttentionOutput, layer, v_.tokens * v_.hidden);
  add(op(OpKind::MpReduceScatter, Phase::Forward, layer, intra_, work_.mp(Collective::ReduceScatter)), {partial},
      {output});
  return output;
}

TensorId Builder::forward(int layer, TensorId x) {
  const auto at = static_cast<std::size_t>(layer);
  const std::int64_t tokens = v_.tokens * v_.hidden;
  SavedLayer saved{};
  const TensorId attended = forward_attention(layer, x, saved);
  saved.moe_input = activation(TensorKind::MoeInput, layer, tokens);
  saved.routing = fp32(TensorKind::Routing, layer, 3 * v_.tokens * e_.workload.top_k);
  add(op(OpKind::Gate, Phase::Forward, layer, compute_, work_.gate(Phase::Forward)), {x, attended, router_weights_[at]},
      {saved.moe_input, saved.routing});

  TensorIds encoded;
  for (int i = 0; i < plan_.forward_degree; ++i) {
    const RowRange rows = chunk_rows(v_.capacity, plan_.forward_degree, i);
    const Op o = chunk_op(OpKind::Encode, Phase::Forward, layer, compute_, i, rows, {});
    encoded.push_back(chunked(TensorKind::Encoded, o, v_.all_to_all_elements(rows.size())));
  }
  const std::array encode_reads{saved.moe_input, saved.routing};
  w_.add_op(op(OpKind::Encode, Phase::Forward, layer, compute_, work_.encode(Phase::Forward)), encode_reads, encoded);
  forward_experts(layer, encoded, saved);

  const TensorId y = activation(TensorKind::LayerInput, layer + 1, tokens);
  TensorIds reads{saved.moe_input, saved.routing};
  reads.insert(reads.end(), saved.combined.begin(), saved.combined.end());
  w_.add_op(op(OpKind::Decode, Phase::Forward, layer, compute_, work_.decode(Phase::Forward)), reads, {&y, 1});
  saved_.push_back(std::move(saved));
  return y;
}

// D1 G1 D2 G2 ..., E1 E2 ..., S1 C1 S2 C2 ...: on one communication stream that is the order; on two,
// each keeps its own part of it.
void Builder::forward_experts(int layer, const TensorIds& encoded, SavedLayer& saved) {
  const int degree = plan_.forward_degree;
  const bool exchanges = e_.parallelism.ep > 1, gathers = e_.parallelism.esp > 1;
  const auto chunk = [&](OpKind kind, StreamId stream, int i, const Work& work) {
    return chunk_op(kind, Phase::Forward, layer, stream, i, chunk_rows(v_.capacity, degree, i), work);
  };
  for (int i = 0; i < degree; ++i) {
    const std::int64_t rows = chunk_rows(v_.capacity, degree, i).size();
    TensorId input = encoded[static_cast<std::size_t>(i)];
    if (exchanges)
      input = pass(chunk(OpKind::Dispatch, inter_, i, work_.all_to_all(rows)), input, TensorKind::Dispatched,
                   v_.all_to_all_elements(rows));
    if (gathers)
      input = pass(chunk(OpKind::EspAllGather, intra_, i, work_.esp(Collective::AllGather, rows)), input,
                   TensorKind::ExpertInput, v_.gathered_elements(rows));
    saved.expert_input.push_back(input);
  }
  TensorIds partial;
  for (int i = 0; i < degree; ++i) {
    const std::int64_t rows = chunk_rows(v_.capacity, degree, i).size();
    const Op o = chunk(OpKind::Expert, compute_, i, work_.expert(Phase::Forward, rows));
    saved.hidden.push_back(
        chunked(TensorKind::Hidden, o, v_.expert_rows(rows) * (v_.expert_gemms - 1) * v_.hidden_shard));
    partial.push_back(chunked(TensorKind::ExpertPartial, o, v_.gathered_elements(rows)));
    add(o, {saved.expert_input[static_cast<std::size_t>(i)], expert_weights_[static_cast<std::size_t>(layer)]},
        {saved.hidden.back(), partial.back()});
  }
  for (int i = 0; i < degree; ++i) {
    const std::int64_t rows = chunk_rows(v_.capacity, degree, i).size();
    TensorId output = partial[static_cast<std::size_t>(i)];
    if (gathers)
      output = pass(chunk(OpKind::EspReduceScatter, intra_, i, work_.esp(Collective::ReduceScatter, rows)), output,
                    TensorKind::ExpertOutput, v_.all_to_all_elements(rows));
    if (exchanges)
      output = pass(chunk(OpKind::Combine, inter_, i, work_.all_to_all(rows)), output, TensorKind::Combined,
                    v_.all_to_all_elements(rows));
    saved.combined.push_back(output);
  }
}

TensorIds Builder::backward(int layer, const TensorIds& gradient) {
  const auto at = static_cast<std::size_t>(layer);
  const SavedLayer& saved = saved_[at];
  const int degree = plan_.backward_degree_of(layer);
  const std::int64_t tokens = v_.tokens * v_.hidden;
  const TensorId output_gradient = activation(TensorKind::OutputGradient, layer, tokens);
  const TensorId score_gradient = fp32(TensorKind::ScoreGradient, layer, v_.tokens * e_.workload.top_k);
  TensorIds reads = gradient, writes{output_gradient, score_gradient}, d_combined;
  reads.push_back(saved.routing);
  reads.insert(reads.end(), saved.combined.begin(), saved.combined.end());
  for (int j = 0; j < degree; ++j) {
    const RowRange rows = chunk_rows(v_.capacity, degree, j);
    const Op o = chunk_op(OpKind::Decode, Phase::Backward, layer, compute_, j, rows, {});
    d_combined.push_back(chunked(TensorKind::Combined, o, v_.all_to_all_elements(rows.size())));
  }
  writes.insert(writes.end(), d_combined.begin(), d_combined.end());
  w_.add_op(op(OpKind::Decode, Phase::Backward, layer, compute_, work_.decode(Phase::Backward)), reads, writes);

  TensorIds encode_reads = backward_experts(layer, d_combined);
  encode_reads.insert(encode_reads.begin(), saved.routing);
  const TensorId d_moe_input = activation(TensorKind::MoeInput, layer, tokens, true);
  w_.add_op(op(OpKind::Encode, Phase::Backward, layer, compute_, work_.encode(Phase::Backward)), encode_reads,
            {&d_moe_input, 1});
  add(op(OpKind::Gate, Phase::Backward, layer, compute_, work_.gate(Phase::Backward)),
      {output_gradient, score_gradient, saved.routing, saved.moe_input, router_weights_[at], d_moe_input},
      {d_moe_input, router_gradient_[at]});
  return {d_moe_input, backward_attention(layer, d_moe_input)};
}

// The forward order mirrored: C'1 S'1 C'2 S'2 ..., R, E'1 E'2 ..., G'1 D'1 G'2 D'2 ...
TensorIds Builder::backward_experts(int layer, const TensorIds& d_combined) {
  const auto at = static_cast<std::size_t>(layer);
  const SavedLayer& saved = saved_[at];
  const int degree = plan_.backward_degree_of(layer);
  const bool exchanges = e_.parallelism.ep > 1, gathers = e_.parallelism.esp > 1;
  const auto chunk = [&](OpKind kind, StreamId stream, int j, const Work& work) {
    return chunk_op(kind, Phase::Backward, layer, stream, j, chunk_rows(v_.capacity, degree, j), work);
  };
  TensorIds d_partial;
  for (int j = 0; j < degree; ++j) {
    const std::int64_t rows = chunk_rows(v_.capacity, degree, j).size();
    TensorId gradient = d_combined[static_cast<std::size_t>(j)];
    if (exchanges)
      gradient = pass(chunk(OpKind::Combine, inter_, j, work_.all_to_all(rows)), gradient, TensorKind::ExpertOutput,
                      v_.all_to_all_elements(rows));
    if (gathers)
      gradient = pass(chunk(OpKind::EspReduceScatter, intra_, j, work_.esp(Collective::AllGather, rows)), gradient,
                      TensorKind::ExpertPartial, v_.gathered_elements(rows));
    d_partial.push_back(gradient);
  }
  add_slices(Window::Moe, layer);
  TensorIds d_input;
  for (int j = 0; j < degree; ++j) {
    const RowRange rows = chunk_rows(v_.capacity, degree, j);
    const Op o = chunk(OpKind::Expert, compute_, j, work_.expert(Phase::Backward, rows.size()));
    d_input.push_back(chunked(TensorKind::ExpertInput, o, v_.gathered_elements(rows.size())));
    TensorIds reads{d_partial[static_cast<std::size_t>(j)], expert_weights_[at], expert_gradient_[at]};
    for (const TensorIds* kept : {&saved.expert_input, &saved.hidden})
      for (int i = 0; i < plan_.forward_degree; ++i) {
        const RowRange forward_rows = chunk_rows(v_.capacity, plan_.forward_degree, i);
        if (forward_rows.first < rows.last && rows.first < forward_rows.last)
          reads.push_back((*kept)[static_cast<std::size_t>(i)]);
      }
    const std::array writes{expert_gradient_[at], d_input.back()};
    w_.add_op(o, reads, writes);
  }
  TensorIds d_encoded;
  for (int j = 0; j < degree; ++j) {
    const std::int64_t rows = chunk_rows(v_.capacity, degree, j).size();
    TensorId gradient = d_input[static_cast<std::size_t>(j)];
    if (gathers)
      gradient = pass(chunk(OpKind::EspAllGather, intra_, j, work_.esp(Collective::ReduceScatter, rows)), gradient,
                      TensorKind::Dispatched, v_.all_to_all_elements(rows));
    if (exchanges)
      gradient = pass(chunk(OpKind::Dispatch, inter_, j, work_.all_to_all(rows)), gradient, TensorKind::Encoded,
                      v_.all_to_all_elements(rows));
    d_encoded.push_back(gradient);
  }
  return d_encoded;
}

TensorId Builder::backward_attention(int layer, TensorId d_moe_input) {
  const SavedLayer& saved = saved_[static_cast<std::size_t>(layer)];
  const std::int64_t gathered = v_.sequence_tokens * v_.hidden;
  TensorId gradient = d_moe_input;
  if (e_.parallelism.mp > 1) {
    gradient = activation(TensorKind::AttentionPartial, layer, gathered, true);
    add(op(OpKind::MpReduceScatter, Phase::Backward, layer, intra_, work_.mp(Collective::AllGather)), {d_moe_input},
        {gradient});
  }
  add_slices(Window::Dense, layer);
  const TensorId d_input = activation(TensorKind::AttentionInput, layer, gathered, true);
  Op attention = op(OpKind::Attention, Phase::Backward, layer, compute_, work_.attention(Phase::Backward));
  const std::int64_t later_layers = e_.workload.layers - 1 - layer;
  attention.rows = {later_layers * v_.dense_parameters, (later_layers + 1) * v_.dense_parameters};
  add(attention,
      {gradient, saved.attention_input, saved.query_key_value, saved.context, saved.log_sum_exp,
       dense_weights_[static_cast<std::size_t>(layer)]},
      {dense_gradients_, d_input});
  if (e_.parallelism.mp == 1) return d_input;
  const TensorId sum = activation(TensorKind::AttentionSumGradient, layer, v_.tokens * v_.hidden);
  add(op(OpKind::MpAllGather, Phase::Backward, layer, intra_, work_.mp(Collective::ReduceScatter)), {d_input}, {sum});
  return sum;
}

// The all-reduces of the slices in this window, after the gradients that exist by now.
void Builder::add_slices(Window window, int layer) {
  for (; next_slice_ < slices_.size(); ++next_slice_) {
    const GradientSlice& slice = slices_[next_slice_];
    if (slice.window != window || (window != Window::Tail && slice.layer != layer)) return;
    const RowRange elements{reduced_, reduced_ + slice.elements};
    reduced_ = elements.last;
    if (e_.parallelism.dp == 1) continue;
    Op o = op(OpKind::DenseGradientAllReduce, Phase::Backward, layer, inter_,
              work_.all_reduce(GroupKind::Dp, slice.elements));
    o.rows = elements;
    add(o, {dense_gradients_}, {dense_gradients_});
  }
}

void Builder::finish_step() {
  if (e_.parallelism.edp > 1)
    for (int layer = e_.workload.layers - 1; layer >= 0; --layer) {
      const TensorId gradient = expert_gradient_[static_cast<std::size_t>(layer)];
      add(op(OpKind::ExpertGradientAllReduce, Phase::Backward, layer, inter_,
             work_.all_reduce(GroupKind::Edp, v_.expert_parameters)),
          {gradient}, {gradient});
    }
  add_slices(Window::Tail, 0);
  check(next_slice_ == slices_.size(), "a gradient slice was not placed");
  TensorIds reads, writes;
  for (const TensorIds* weights : {&dense_weights_, &router_weights_, &expert_weights_})
    writes.insert(writes.end(), weights->begin(), weights->end());
  reads = writes;
  reads.push_back(dense_gradients_);
  reads.insert(reads.end(), router_gradient_.begin(), router_gradient_.end());
  reads.insert(reads.end(), expert_gradient_.begin(), expert_gradient_.end());
  reads.push_back(optimizer_state_);
  writes.push_back(optimizer_state_);
  w_.add_op(op(OpKind::Update, Phase::Update, 0, compute_, work_.update(parameters())), reads, writes);
}

}  // namespace

Schedule build_schedule(const Experiment& experiment, const Plan& plan) {
  validate(experiment);
  validate(plan, experiment);
  return Builder(experiment, plan).build();
}

}  // namespace dovetail
