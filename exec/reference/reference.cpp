#include "exec/reference/reference.hpp"

#include <algorithm>
#include <cmath>

#include "exec/host/gate_logits.hpp"
#include "exec/reference/ends.hpp"
#include "exec/step/gate_scores.hpp"
#include "exec/step/wire_format.hpp"
#include "models/question/capacity.hpp"
#include "models/question/expert_loads.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec {
namespace {

using Size = std::size_t;

// y += x W, for W (rows, cols).
void add_product(const double* x, const double* w, Size rows, Size cols, double* y) {
  for (Size i = 0; i < rows; ++i)
    for (Size j = 0; j < cols; ++j) y[j] += x[i] * w[i * cols + j];
}

// dx += dy W^T and dW += x^T dy.
void add_gradients(const double* x, const double* w, const double* dy, Size rows, Size cols, double* dx, double* dw) {
  for (Size i = 0; i < rows; ++i) {
    double sum = 0;
    for (Size j = 0; j < cols; ++j) {
      sum += w[i * cols + j] * dy[j];
      dw[i * cols + j] += x[i] * dy[j];
    }
    dx[i] += sum;
  }
}

double dot(const double* a, const double* b, Size count) {
  double sum = 0;
  for (Size i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double scale, const double* x, Size count, double* y) {
  for (Size i = 0; i < count; ++i) y[i] += scale * x[i];
}

struct Sizes {
  Size tokens, sequence, hidden, heads, kv_heads, head_size, expert_hidden, tokens_of_part;
  // `e` is of one micro-batch, each of whose ranks holds a part of the tokens.
  Sizes(const Experiment& e, const ComputeRules& r)
      : tokens_of_part(static_cast<Size>(layer_volumes(e).tokens)),
        rules(r),
        parts(token_parts(layer_volumes(e), r.token_chunks)) {
    tokens = tokens_of_part * static_cast<Size>(e.parallelism.stage_ranks() * r.micro_batches);
    sequence = static_cast<Size>(e.workload.sequence);
    hidden = static_cast<Size>(e.model.hidden);
    heads = static_cast<Size>(e.model.attention.heads);
    kv_heads = static_cast<Size>(e.model.attention.kv_heads);
    head_size = static_cast<Size>(e.model.attention.head_size);
    expert_hidden = static_cast<Size>(e.model.expert_hidden);
  }
  ComputeRules rules;
  std::vector<TokenPart> parts;
  Size queries() const { return heads * head_size; }
  Size keys() const { return kv_heads * head_size; }
};

// --- attention ---

struct AttentionPass {
  Values query, key, value, context;
};

// Probabilities of `query_token` over the tokens of its sample up to itself, for one head.
Values attend(const Sizes& s, const AttentionPass& pass, Size query_token, Size head) {
  const Size first = query_token / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads;
  Values p;
  for (Size t = first; t <= query_token; ++t)
    p.push_back(dot(&pass.query[query_token * s.queries() + head * s.head_size],
                    &pass.key[t * s.keys() + kv * s.head_size], s.head_size) /
                std::sqrt(static_cast<double>(s.head_size)));
  softmax(p);
  return p;
}

// sum += attention(x).
void add_attention(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& sum) {
  pass.query.assign(s.tokens * s.queries(), 0);
  pass.key.assign(s.tokens * s.keys(), 0);
  pass.value.assign(s.tokens * s.keys(), 0);
  pass.context.assign(s.tokens * s.queries(), 0);
  for (Size t = 0; t < s.tokens; ++t) {
    add_product(&x[t * s.hidden], w.query.data(), s.hidden, s.queries(), &pass.query[t * s.queries()]);
    add_product(&x[t * s.hidden], w.key.data(), s.hidden, s.keys(), &pass.key[t * s.keys()]);
    add_product(&x[t * s.hidden], w.value.data(), s.hidden, s.keys(), &pass.value[t * s.keys()]);
    for (Size head = 0; head < s.heads; ++head) {
      const Values p = attend(s, pass, t, head);
      const Size first = t / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads;
      for (Size i = 0; i < p.size(); ++i)
        add_scaled(p[i], &pass.value[(first + i) * s.keys() + kv * s.head_size], s.head_size,
                   &pass.context[t * s.queries() + head * s.head_size]);
    }
    add_product(&pass.context[t * s.queries()], w.output.data(), s.queries(), s.hidden, &sum[t * s.hidden]);
  }
}

void attend_backward(const Sizes& s, const AttentionPass& pass, Size t, Size head, const double* d_context,
                     AttentionPass& d) {
  const Size first = t / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads, n = s.head_size;
  const Values p = attend(s, pass, t, head);
  const auto key_at = [&](Size i) { return (first + i) * s.keys() + kv * n; };
  const Size query_at = t * s.queries() + head * n;
  Values d_p(p.size());
  for (Size i = 0; i < p.size(); ++i) {
    d_p[i] = dot(d_context, &pass.value[key_at(i)], n);
    add_scaled(p[i], d_context, n, &d.value[key_at(i)]);
  }
  const double mean = dot(p.data(), d_p.data(), p.size());
  for (Size i = 0; i < p.size(); ++i) {
    const double d_score = p[i] * (d_p[i] - mean) / std::sqrt(static_cast<double>(n));
    add_scaled(d_score, &pass.key[key_at(i)], n, &d.query[query_at]);
    add_scaled(d_score, &pass.query[query_at], n, &d.key[key_at(i)]);
  }
}

// Takes the gradient of attention(x) and returns that of x.
Values attention_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                          const Values& d_sum, LayerWeights& gradient) {
  AttentionPass d{Values(pass.query.size()), Values(pass.key.size()), Values(pass.value.size()),
                  Values(pass.context.size())};
  for (Size t = 0; t < s.tokens; ++t) {
    add_gradients(&pass.context[t * s.queries()], w.output.data(), &d_sum[t * s.hidden], s.queries(), s.hidden,
                  &d.context[t * s.queries()], gradient.output.data());
    for (Size head = 0; head < s.heads; ++head)
      attend_backward(s, pass, t, head, &d.context[t * s.queries() + head * s.head_size], d);
  }
  Values d_x(d_sum.size());
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const token = &x[t * s.hidden];
    double* const to = &d_x[t * s.hidden];
    add_gradients(token, w.query.data(), &d.query[t * s.queries()], s.hidden, s.queries(), to, gradient.query.data());
    add_gradients(token, w.key.data(), &d.key[t * s.keys()], s.hidden, s.keys(), to, gradient.key.data());
    add_gradients(token, w.value.data(), &d.value[t * s.keys()], s.hidden, s.keys(), to, gradient.value.data());
  }
  return d_x;
}

// --- experts ---

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

struct ExpertPass {
  Values h1, h3, activation, output;
};

ExpertPass expert(const Sizes& s, const LayerWeights& w, Size e, const double* x) {
  const Size at = e * s.hidden * s.expert_hidden;
  ExpertPass pass{Values(s.expert_hidden), Values(s.expert_hidden), Values(s.expert_hidden), Values(s.hidden)};
  add_product(x, &w.w1[at], s.hidden, s.expert_hidden, pass.h1.data());
  if (!w.w3.empty()) add_product(x, &w.w3[at], s.hidden, s.expert_hidden, pass.h3.data());
  for (Size i = 0; i < s.expert_hidden; ++i)
    pass.activation[i] = w.w3.empty() ? std::max(pass.h1[i], 0.0) : pass.h1[i] * sigmoid(pass.h1[i]) * pass.h3[i];
  add_product(pass.activation.data(), &w.w2[at], s.expert_hidden, s.hidden, pass.output.data());
  return pass;
}

void expert_backward(const Sizes& s, const LayerWeights& w, Size e, const double* x, const ExpertPass& pass,
                     const double* d_output, double* d_x, LayerWeights& gradient) {
  const Size at = e * s.hidden * s.expert_hidden;
  Values d_activation(s.expert_hidden), d_h1(s.expert_hidden), d_h3(s.expert_hidden);
  add_gradients(pass.activation.data(), &w.w2[at], d_output, s.expert_hidden, s.hidden, d_activation.data(),
                &gradient.w2[at]);
  for (Size i = 0; i < s.expert_hidden; ++i) {
    const double h = pass.h1[i], g = sigmoid(h);
    if (w.w3.empty()) {
      d_h1[i] = h > 0 ? d_activation[i] : 0;
    } else {
      d_h1[i] = d_activation[i] * pass.h3[i] * (g + h * g * (1 - g));
      d_h3[i] = d_activation[i] * h * g;
    }
  }
  add_gradients(x, &w.w1[at], d_h1.data(), s.hidden, s.expert_hidden, d_x, &gradient.w1[at]);
  if (!w.w3.empty()) add_gradients(x, &w.w3[at], d_h3.data(), s.hidden, s.expert_hidden, d_x, &gradient.w3[at]);
}

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
  int part;          // micro-batch * data ranks + rank
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
  const Routing all = modelled_choices(e, layer, c.part % e.parallelism.stage_ranks());
  return all.empty() ? all : routing_of_part(c.shape, c.tokens, all);
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
  const Values chosen = choice_scores(shape, scores, routing);
  for (Size i = 0; i < routing.size(); ++i)
    if (const Choice& choice = routing[i]; choice.slot >= 0)
      links.push_back({c.first_token + static_cast<Size>(choice.token), static_cast<Size>(slot_place(shape, choice)), 1,
                       chosen[i], i});
  pass.routing.push_back(std::move(routing));
  return links;
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
      slots[i].expert = expert(s, w, i / static_cast<Size>(c.shape.capacity), slots[i].input.data());
      round_row(s.rules.combine, slots[i].expert.output);
    }
  return slots;
}

// sum += the experts' outputs, weighted by their scores.
void add_moe(const Experiment& e, const Sizes& s, const std::vector<Competitors>& all, const LayerWeights& w, int layer,
             MoePass& pass, Values& sum) {
  for (const Competitors& c : all) {
    pass.logits.push_back(gate_logits(c.shape, place_of(c, layer), tokens_of(c, pass), w.router.data()));
    pass.links.push_back(links_of(c, preset_of(e, c, layer), pass));
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
        expert_backward(s, w, i / static_cast<Size>(c.shape.capacity), slots[i].input.data(), slots[i].expert,
                        d_output[i].data(), d_input[i].data(), gradient);
        round_row(s.rules.dispatch, d_input[i]);
      }
    const Size entries = std::max(pass.routing[unit].size(), links.size());
    Values d_dispatch(entries), d_combine(entries);
    for (const Link& link : links) {
      const Size token = link.token * s.hidden;
      d_combine[link.entry] = dot(&d_sum[token], slots[link.slot].expert.output.data(), s.hidden);
      d_dispatch[link.entry] = dot(&pass.input[token], d_input[link.slot].data(), s.hidden);
      add_scaled(link.dispatch, d_input[link.slot].data(), s.hidden, &d_x[token]);
    }
    gate_logits_backward(c.shape, place_of(c, layer), tokens_of(c, pass), w.router.data(),
                         logits_gradient(c.shape, pass.logits[unit], pass.routing[unit], d_dispatch, d_combine),
                         {&d_x[c.first_token * s.hidden], c.shape.tokens, c.shape.hidden}, gradient.router.data());
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
    add_scaled(1, expert(ffn.sizes, ffn.weights, 0, &x[t * s.hidden]).output.data(), s.hidden, &sum[t * s.hidden]);
}

void add_dense_ffn_backward(const Sizes& s, const LayerWeights& w, const Values& x, const Values& d_sum, Values& d_x,
                            LayerWeights& gradient) {
  if (w.dense_w1.empty()) return;
  const DenseFfn ffn(s, w);
  DenseFfn d(s, gradient);
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const token = &x[t * s.hidden];
    expert_backward(ffn.sizes, ffn.weights, 0, token, expert(ffn.sizes, ffn.weights, 0, token), &d_sum[t * s.hidden],
                    &d_x[t * s.hidden], d.weights);
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

}  // namespace

namespace {

struct LayerPass {
  Values input, normed;  // by position: the layer's, and the attention's
  AttentionPass attention;
  Values middle;  // as held: input + attention
  MoePass moe;    // its input is that of a dense feed-forward part too
};

}  // namespace

Reference compute_reference(const Experiment& experiment, const ModelData& data, const ComputeRules& rules) {
  const Experiment e = one_micro_batch(experiment, rules.micro_batches);
  const Sizes s(e, rules);
  const std::vector<Competitors> competitors = all_competitors(e, s);
  const TokenOrder order(s, e);
  const Size layers = data.layers.size();
  const auto is_moe = [&](Size layer) { return e.model.is_moe(static_cast<int>(layer)); };
  const bool norms = e.workload.whole_layers(), ends = e.workload.extent == Extent::Model;
  const auto first_norm = [&](auto& weights) { return std::span(weights).first(s.hidden); };
  const auto second_norm = [&](auto& weights) { return std::span(weights).last(s.hidden); };
  std::vector<LayerPass> passes(layers);
  Reference result;
  result.output = ends ? order.as_held(look_up(data.ends, data.words, s.hidden)) : data.input;
  for (Size l = 0; l < layers; ++l) {
    const LayerWeights& w = data.layers[l];
    LayerPass& pass = passes[l];
    pass.input = order.by_position(result.output);
    pass.normed = norms ? norm(first_norm(w.norm), pass.input) : pass.input;
    Values sum = pass.input;
    add_attention(s, w, pass.normed, pass.attention, sum);
    result.output = pass.middle = order.as_held(sum);
    pass.moe.input = norms ? norm(second_norm(w.norm), pass.middle) : pass.middle;
    result.routing.emplace_back();
    if (is_moe(l)) {
      add_moe(e, s, competitors, w, static_cast<int>(l), pass.moe, result.output);
      result.routing.back() = routing_by_part(competitors, pass.moe.routing);
    }
    add_dense_ffn(s, w, pass.moe.input, result.output);
    for (const Routing& routing : result.routing.back()) {
      result.dropped += drop_count(routing);
      result.largest_load = std::max(result.largest_load, largest_load(routing, e.model.experts));
    }
  }
  const bool trains = e.workload.phases == Phases::Training;
  Values d_output = data.output_gradient;  // as held
  if (ends) {
    result.end_gradients = zero_end_weights(e);
    result.loss = head_losses(data.ends, order.by_position(result.output), next_words(data.words, s.sequence),
                              trains ? &result.end_gradients : nullptr, &d_output);
    if (trains) d_output = order.as_held(d_output);
  }
  if (!trains) return result;
  for (Size l = 0; l < layers; ++l) result.gradients.push_back(zero_weights(e, static_cast<int>(l)));
  result.input_gradient = std::move(d_output);
  for (Size l = layers; l-- > 0;) {
    const LayerWeights& w = data.layers[l];
    const LayerPass& pass = passes[l];
    LayerWeights& gradient = result.gradients[l];
    Values& d_sum = result.input_gradient;
    Values d(d_sum.size());
    if (is_moe(l)) d = moe_backward(s, competitors, w, static_cast<int>(l), pass.moe, d_sum, gradient);
    add_dense_ffn_backward(s, w, pass.moe.input, d_sum, d, gradient);
    if (norms) d = norm_backward(second_norm(w.norm), pass.middle, d, second_norm(gradient.norm));
    add_scaled(1, d.data(), d.size(), d_sum.data());
    d_sum = order.by_position(d_sum);
    d = attention_backward(s, w, pass.normed, pass.attention, d_sum, gradient);
    if (norms) d = norm_backward(first_norm(w.norm), pass.input, d, first_norm(gradient.norm));
    add_scaled(1, d.data(), d.size(), d_sum.data());
    d_sum = order.as_held(d_sum);
  }
  if (ends) look_up_backward(data.words, order.by_position(result.input_gradient), s.hidden, result.end_gradients);
  return result;
}

}  // namespace dovetail::exec
