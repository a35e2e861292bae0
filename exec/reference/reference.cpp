// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/reference.hpp"

#include <algorithm>
#include <cmath>

#include "exec/host/custom_gate.hpp"
#include "exec/reference/attention.hpp"
#include "exec/reference/experts.hpp"
#include "exec/reference/prediction.hpp"
#include "exec/step/gate_scores.hpp"
#include "exec/step/wire_format.hpp"
#include "models/question/capacity.hpp"
#include "models/question/expert_loads.hpp"

namespace dovetail::exec {
namespace {

using namespace naive;

// --- the gate and what it connects ---

// A link says how much of a token a slot of an expert takes, and how much of the slot's result the token takes. Each
// choice has one such link; soft gates have one for every token and slot.
struct Link {
  Size token, slot;  // of all ranks; expert C + capacity slot
  double dispatch, combine;
  Size entry;  // of the routing, or of the soft weights
};

// Tokens of one part that compete for the same capacity rows: all of them, or those of one chunk.
struct Competitors {
  LayerShape shape;
  Size first_token;  // of all ranks
  int part;          // micro-batch * token_ranks + holder of the tokens
  RowRange tokens;   // of the part's
};

struct MoePass {
  Values input;
  // Indexed by competitors.
  std::vector<Values> logits;
  std::vector<Routing> routing;
  std::vector<std::vector<Link>> links;
};

Matrix<const double> tokens_of(const Competitors& c, const MoePass& pass) {
  return {&pass.input[c.first_token * static_cast<Size>(c.shape.hidden)], c.shape.tokens, c.shape.hidden};
}

TokenPlace place_of(const Competitors& c, int layer) {
  return {layer, static_cast<std::int64_t>(c.first_token)};
}

// The choices that a routing model gives these tokens; empty: the router decides.
Routing preset_of(const Experiment& e, const Competitors& c, int layer) {
  const Parallelism& p = e.parallelism;
  const Routing all = modelled_choices(e, layer, c.part % p.token_ranks() * p.token_repeats());
  return all.empty() ? all : routing_of_part(c.shape, c.tokens, all);
}

std::vector<Link> links_of_choices(const Competitors& c, const Routing& routing, const Values& scores) {
  std::vector<Link> links;
  for (Size i = 0; i < routing.size(); ++i)
    if (const Choice& choice = routing[i]; choice.slot >= 0)
      links.push_back({c.first_token + static_cast<Size>(choice.token), static_cast<Size>(slot_place(c.shape, choice)),
                       1, scores[i], i});
  return links;
}

// The links of the competitors whose logits are the last ones of the pass.
std::vector<Link> links_of(const Competitors& c, Routing preset, MoePass& pass) {
  const LayerShape& shape = c.shape;
  std::vector<Link> links;
  if (shape.gate.kind == GateKind::SoftMoe) {
    const SoftWeights w = soft_weights(shape, pass.logits.back());
    const auto slots = static_cast<Size>(shape.slots());
    for (Size i = 0; i < w.combine.size(); ++i)
      links.push_back({c.first_token + i / slots, i % slots, w.dispatch[i], w.combine[i], i});
    pass.routing.emplace_back();
    return links;
  }
  const Values scores = expert_scores(shape, pass.logits.back());
  Routing routing = preset.empty() ? choose(shape, scores) : std::move(preset);
  assign_slots(shape, scores, routing);
  links = links_of_choices(c, routing, choice_scores(shape, scores, routing));
  pass.routing.push_back(std::move(routing));
  return links;
}

// A gate of the user's own has no logits.
std::vector<Link> custom_links(const Competitors& c, int layer, const Values& parameters, MoePass& pass) {
  const Matrix<const double> x = tokens_of(c, pass);
  pass.logits.emplace_back();
  pass.routing.push_back(custom_routing(c.shape, place_of(c, layer), x, parameters.data(), {}));
  return links_of_choices(c, pass.routing.back(),
                          custom_scores(c.shape, place_of(c, layer), x, parameters.data(), pass.routing.back()));
}

struct SlotPass {
  Values input;  // empty: no token
  ExpertPass expert;
};

// Rows and results as they arrive, in the formats that they are sent in.
std::vector<SlotPass> run_slots(const Sizes& s, const Competitors& c, const LayerWeights& w, const MoePass& pass,
                                const std::vector<Link>& links) {
  std::vector<SlotPass> slots(static_cast<Size>(c.shape.slots()));
  for (const Link& link : links) {
    Values& input = slots[link.slot].input;
    input.resize(s.hidden);
    add_scaled(link.dispatch, &pass.input[link.token * s.hidden], s.hidden, input.data());
  }
  for (Size i = 0; i < slots.size(); ++i)
    if (!slots[i].input.empty()) {
      round_row(s.rules.dispatch, slots[i].input);
      slots[i].expert = routed_expert(c.shape, s, w, i / static_cast<Size>(c.shape.capacity), slots[i].input.data());
      round_row(s.rules.combine, slots[i].expert.output);
    }
  return slots;
}

// sum += the experts' outputs, weighted by their scores.
void add_moe(const Experiment& e, const Sizes& s, const std::vector<Competitors>& all, const LayerWeights& w, int layer,
             MoePass& pass, Values& sum) {
  for (const Competitors& c : all) {
    if (c.shape.extensions.gate != nullptr) {
      pass.links.push_back(custom_links(c, layer, w.router, pass));
    } else {
      pass.logits.push_back(gate_logits(c.shape, place_of(c, layer), tokens_of(c, pass), w.router.data()));
      pass.links.push_back(links_of(c, preset_of(e, c, layer), pass));
    }
    const std::vector<SlotPass> slots = run_slots(s, c, w, pass, pass.links.back());
    for (const Link& link : pass.links.back())
      add_scaled(link.combine, slots[link.slot].expert.output.data(), s.hidden, &sum[link.token * s.hidden]);
  }
}

// Takes the gradients of what the links carry and returns the gradients of the gate's logits.
Values logits_gradient(const LayerShape& shape, const Values& logits, const Routing& routing, const Values& d_dispatch,
                       const Values& d_combine) {
  if (shape.gate.kind == GateKind::SoftMoe)
    return soft_weights_backward(shape, soft_weights(shape, logits), {d_dispatch, d_combine});
  return choice_scores_backward(shape, expert_scores(shape, logits), routing, d_combine);
}

struct GatePass {
  const MoePass* moe;
  Size unit;  // of its competitors
};

void gate_backward(const Competitors& c, int layer, const LayerWeights& w, GatePass pass, const Values& d_dispatch,
                   const Values& d_combine, Matrix<double> d_x, LayerWeights& gradient) {
  const Matrix<const double> x = tokens_of(c, *pass.moe);
  const Routing& routing = pass.moe->routing[pass.unit];
  if (c.shape.extensions.gate != nullptr)
    return custom_scores_backward(c.shape, place_of(c, layer), x, w.router.data(), routing, d_combine, d_x,
                                  gradient.router.data());
  gate_logits_backward(c.shape, place_of(c, layer), x, w.router.data(),
                       logits_gradient(c.shape, pass.moe->logits[pass.unit], routing, d_dispatch, d_combine), d_x,
                       gradient.router.data());
}

// Gradients are sent like rows, the other way; the gradient of rounding itself is left out.
Values moe_backward(const Sizes& s, const std::vector<Competitors>& all, const LayerWeights& w, int layer,
                    const MoePass& pass, const Values& d_sum, LayerWeights& gradient) {
  Values d_x(d_sum.size());
  for (Size unit = 0; unit < all.size(); ++unit) {
    const Competitors& c = all[unit];
    const std::vector<Link>& links = pass.links[unit];
    const std::vector<SlotPass> slots = run_slots(s, c, w, pass, links);
    std::vector<Values> d_output(slots.size(), Values(s.hidden)), d_input = d_output;
    for (const Link& link : links)
      add_scaled(link.combine, &d_sum[link.token * s.hidden], s.hidden, d_output[link.slot].data());
    for (Size i = 0; i < slots.size(); ++i)
      if (!slots[i].input.empty()) {
        round_row(s.rules.combine, d_output[i]);
        routed_expert_backward(c.shape, s, w, i / static_cast<Size>(c.shape.capacity), slots[i].input.data(),
                               slots[i].expert, d_output[i].data(), d_input[i].data(), gradient);
        round_row(s.rules.dispatch_back, d_input[i]);
      }
    const Size entries = std::max(pass.routing[unit].size(), links.size());
    Values d_dispatch(entries), d_combine(entries);
    for (const Link& link : links) {
      const Size token = link.token * s.hidden;
      d_combine[link.entry] = dot(&d_sum[token], slots[link.slot].expert.output.data(), s.hidden);
      d_dispatch[link.entry] = dot(&pass.input[token], d_input[link.slot].data(), s.hidden);
      add_scaled(link.dispatch, d_input[link.slot].data(), s.hidden, &d_x[token]);
    }
    gate_backward(c, layer, w, {&pass, unit}, d_dispatch, d_combine,
                  {&d_x[c.first_token * s.hidden], c.shape.tokens, c.shape.hidden}, gradient);
  }
  return d_x;
}

// --- dense feed-forward part ---

// It is one expert that all tokens go to.
struct DenseFfn {
  Sizes sizes;
  LayerWeights weights;
  DenseFfn(const Sizes& s, const LayerWeights& w) : sizes(s) {
    sizes.expert_hidden = w.dense_w1.size() / s.hidden;
    weights.w1 = w.dense_w1;
    weights.w2 = w.dense_w2;
    weights.w3 = w.dense_w3;
  }
};

void add_dense_ffn(const Sizes& s, const LayerWeights& w, const Values& x, Values& sum) {
  if (w.dense_w1.empty()) return;
  const DenseFfn ffn(s, w);
  for (Size t = 0; t < s.tokens; ++t)
    add_scaled(1, feed_forward(ffn.sizes, ffn.weights, 0, &x[t * s.hidden]).output.data(), s.hidden,
               &sum[t * s.hidden]);
}

void add_dense_ffn_backward(const Sizes& s, const LayerWeights& w, const Values& x, const Values& d_sum, Values& d_x,
                            LayerWeights& gradient) {
  if (w.dense_w1.empty()) return;
  const DenseFfn ffn(s, w);
  DenseFfn d(s, gradient);
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const token = &x[t * s.hidden];
    feed_forward_backward(ffn.sizes, ffn.weights, 0, token, feed_forward(ffn.sizes, ffn.weights, 0, token),
                          &d_sum[t * s.hidden], &d_x[t * s.hidden], d.weights);
  }
  gradient.dense_w1 = std::move(d.weights.w1);
  gradient.dense_w2 = std::move(d.weights.w2);
  gradient.dense_w3 = std::move(d.weights.w3);
}

// If nothing has resolved the capacity yet, it is as large as the factor allows.
LayerShape reference_shape(const Experiment& e) {
  LayerShape shape = layer_shape(e);
  if (shape.capacity == 0) shape.capacity = capacity_limit(e);
  return shape;
}

std::vector<Competitors> all_competitors(const Experiment& e, const Sizes& s) {
  const LayerShape whole = reference_shape(e);
  std::vector<Competitors> all;
  for (Size first = 0; first < s.tokens; first += s.tokens_of_part)
    for (const TokenPart& part : s.parts)
      all.push_back({s.parts.size() == 1 ? whole : part_shape(whole, part),
                     first + static_cast<Size>(part.tokens.first), static_cast<int>(first / s.tokens_of_part),
                     part.tokens});
  return all;
}

// The choices of each part, with its own numbers of tokens.
std::vector<Routing> routing_by_part(const std::vector<Competitors>& all, const std::vector<Routing>& routing) {
  std::vector<Routing> result;
  for (Size unit = 0; unit < all.size(); ++unit) {
    result.resize(static_cast<Size>(all[unit].part) + 1);
    for (Choice choice : routing[unit]) {
      choice.token += static_cast<std::int32_t>(all[unit].tokens.first);
      result.back().push_back(choice);
    }
  }
  return result;
}

// Rows between the order in which ranks hold tokens and that of samples and positions.
class TokenOrder {
 public:
  TokenOrder(const Sizes& s, const Experiment& e)
      : hidden_(s.hidden), rows_(token_rows(layer_volumes(e), s.rules.token_chunks)) {}
  Values by_position(const Values& held) const {
    return moved(held, [](Size position, Size row) { return std::pair{row, position}; });
  }
  Values as_held(const Values& by_position) const {
    return moved(by_position, [](Size position, Size row) { return std::pair{position, row}; });
  }

 private:
  template <class FromTo>
  Values moved(const Values& values, FromTo from_to) const {
    Values result(values.size());
    for (Size t = 0; t < values.size() / hidden_; ++t) {
      const Size in_group = t % rows_.size(), group = t - in_group;
      const auto [from, to] = from_to(t, group + static_cast<Size>(rows_[in_group]));
      std::copy_n(&values[from * hidden_], hidden_, &result[to * hidden_]);
    }
    return result;
  }
  Size hidden_;
  std::vector<std::int64_t> rows_;
};

struct LayerPass {
  Values input, normed;  // by position: the layer's, and the attention's
  AttentionPass attention;
  Values middle;  // as held: input + attention
  MoePass moe;    // its input is that of a dense feed-forward part too
};

template <class Norms>
auto first_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).first(s.hidden);
}
template <class Norms>
auto second_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(s.hidden, s.hidden);
}

// The layers of a step, forward and then backward. Values between layers are as ranks hold them.
class Layers {
 public:
  Layers(const Experiment& e, const Sizes& s, const ModelData& data)
      : e_(e), s_(s), data_(data), order_(s, e), competitors_(all_competitors(e, s)), passes_(data.layers.size()) {}

  const TokenOrder& order() const { return order_; }

  // Turns a layer's input into its output; returns the routing of its parts.
  std::vector<Routing> forward(Size layer, Values& x) {
    const LayerWeights& w = data_.layers[layer];
    LayerPass& pass = passes_[layer];
    pass.input = order_.by_position(x);
    pass.normed = norms() ? norm(first_norm(s_, w.norm), pass.input) : pass.input;
    Values sum = pass.input;
    add_attention(s_, w, pass.normed, pass.attention, sum);
    x = pass.middle = order_.as_held(sum);
    pass.moe.input = norms() ? norm(second_norm(s_, w.norm), pass.middle) : pass.middle;
    if (is_moe(layer)) add_moe(e_, s_, competitors_, w, static_cast<int>(layer), pass.moe, x);
    add_dense_ffn(s_, w, pass.moe.input, x);
    return is_moe(layer) ? routing_by_part(competitors_, pass.moe.routing) : std::vector<Routing>();
  }

  // Turns the gradient of a layer's output into that of its input.
  void backward(Size layer, Values& d_x, LayerWeights& gradient) const {
    const LayerWeights& w = data_.layers[layer];
    const LayerPass& pass = passes_[layer];
    Values d(d_x.size());
    if (is_moe(layer)) d = moe_backward(s_, competitors_, w, static_cast<int>(layer), pass.moe, d_x, gradient);
    add_dense_ffn_backward(s_, w, pass.moe.input, d_x, d, gradient);
    if (norms()) d = norm_backward(second_norm(s_, w.norm), pass.middle, d, second_norm(s_, gradient.norm));
    add_scaled(1, d.data(), d.size(), d_x.data());
    d_x = order_.by_position(d_x);
    d = attention_backward(s_, w, pass.normed, pass.attention, d_x, gradient);
    if (norms()) d = norm_backward(first_norm(s_, w.norm), pass.input, d, first_norm(s_, gradient.norm));
    add_scaled(1, d.data(), d.size(), d_x.data());
    d_x = order_.as_held(d_x);
  }

 private:
  bool norms() const { return e_.workload.whole_layers(); }
  bool is_moe(Size layer) const { return e_.model.is_moe(static_cast<int>(layer)); }

  const Experiment& e_;
  const Sizes& s_;
  const ModelData& data_;
  TokenOrder order_;
  std::vector<Competitors> competitors_;
  std::vector<LayerPass> passes_;
};

// The model's output, its predictions and their losses, which add up. Rows by position.
class Heads {
 public:
  Heads(const Experiment& e, const Sizes& s, const ModelData& data, Layers& layers, Reference& result)
      : s_(s),
        data_(data),
        layers_(layers),
        result_(result),
        main_(static_cast<Size>(e.workload.layers)),
        trains_(e.workload.phases == Phases::Training) {
    if (trains_ && e.workload.extent == Extent::Model) result_.end_gradients = zero_end_weights(e);
  }

  // `note`: takes the routing of a layer's parts.
  template <class Note>
  void forward(Note note) {
    outputs_.push_back(layers_.order().by_position(result_.output));
    result_.loss = predict(0);
    for (Size layer = main_; layer < data_.layers.size(); ++layer) {
      const Size depth = depth_of(layer);
      inputs_.emplace_back(data_.layers[layer], data_.ends, words_after(data_.words, s_.sequence, depth),
                           normed_.back());
      Values x = layers_.order().as_held(inputs_.back().forward());
      note(layers_.forward(layer, x));
      outputs_.push_back(layers_.order().by_position(x));
      result_.further_losses.push_back(predict(depth));
    }
  }

  // Returns the gradient of the model's output.
  Values backward() {
    Values d_before;
    for (Size layer = data_.layers.size(); layer-- > main_;) {
      Values d = layers_.order().as_held(output_gradient(depth_of(layer), d_before));
      layers_.backward(layer, d, result_.gradients[layer]);
      d_before = inputs_[depth_of(layer) - 1].backward(layers_.order().by_position(d), result_.gradients[layer],
                                                       result_.end_gradients);
    }
    return layers_.order().as_held(output_gradient(0, d_before));
  }

 private:
  Size depth_of(Size layer) const { return layer - main_ + 1; }
  // The final norm, or that of a layer of multi-token prediction.
  std::span<const double> norm_of(Size depth) const {
    if (depth == 0) return data_.ends.norm;
    return prediction_norm(s_.hidden, data_.layers[main_ + depth - 1].norm, own_norm);
  }
  std::span<double> norm_gradient(Size depth) {
    if (depth == 0) return result_.end_gradients.norm;
    return prediction_norm(s_.hidden, result_.gradients[main_ + depth - 1].norm, own_norm);
  }

  Values predict(Size depth) {
    normed_.push_back(norm(norm_of(depth), outputs_.back()));
    return head_losses(data_.ends, normed_.back(), words_after(data_.words, s_.sequence, depth + 1),
                       trains_ ? &result_.end_gradients : nullptr, &d_normed_.emplace_back());
  }
  // `further`: what comes through the layer after it; may be empty.
  Values output_gradient(Size depth, const Values& further) {
    Values& d = d_normed_[depth];
    add_scaled(1, further.data(), further.size(), d.data());
    return norm_backward(norm_of(depth), outputs_[depth], d, norm_gradient(depth));
  }

  const Sizes& s_;
  const ModelData& data_;
  Layers& layers_;
  Reference& result_;
  Size main_;
  bool trains_;
  std::vector<PredictionInput> inputs_;              // by layer of multi-token prediction
  std::vector<Values> outputs_, normed_, d_normed_;  // by depth
};

}  // namespace

Reference compute_reference(const Experiment& experiment, const ModelData& data, const ComputeRules& rules) {
  const Experiment e = one_micro_batch(experiment, rules.micro_batches);
  const Sizes s(e, rules);
  Layers all(e, s, data);
  const bool ends = e.workload.extent == Extent::Model, trains = e.workload.phases == Phases::Training;
  const auto layers = static_cast<Size>(e.workload.layers);
  Reference result;
  for (Size l = 0; l < data.layers.size() && trains; ++l)
    result.gradients.push_back(zero_weights(e, static_cast<int>(l)));
  const auto note = [&](std::vector<Routing> of_layer) {
    for (const Routing& routing : result.routing.emplace_back(std::move(of_layer))) {
      result.dropped += drop_count(routing);
      result.largest_load = std::max(result.largest_load, largest_load(routing, e.model.experts));
    }
  };
  result.output = ends ? all.order().as_held(look_up(data.ends, data.words, s.hidden)) : data.input;
  for (Size l = 0; l < layers; ++l) note(all.forward(l, result.output));
  Heads heads(e, s, data, all, result);
  if (ends) heads.forward(note);
  if (!trains) return result;
  result.input_gradient = ends ? heads.backward() : data.output_gradient;
  for (Size l = layers; l-- > 0;) all.backward(l, result.input_gradient, result.gradients[l]);
  if (ends)
    look_up_backward(data.words, all.order().by_position(result.input_gradient), s.hidden, result.end_gradients);
  return result;
}

double gradient_norm(const Reference& reference) {
  double squares = 0;
  const auto add = [&](const Values& values) { squares += dot(values.data(), values.data(), values.size()); };
  for (const LayerWeights& g : reference.gradients)
    for (const Weight weight : all_weights) add(g.*weight);
  for (const Values* values :
       {&reference.end_gradients.embedding, &reference.end_gradients.head, &reference.end_gradients.norm})
    add(*values);
  return std::sqrt(squares);
}

}  // namespace dovetail::exec
