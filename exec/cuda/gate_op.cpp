// The gate of tokens that choose: logits by products, scores, choices (or preset ones) and slots by kernels.
#include <algorithm>

#include "exec/cuda/device_op.hpp"
#include "exec/cuda/gate_bodies.hpp"
#include "exec/gate_logits.hpp"
#include "models/errors.hpp"

namespace dovetail::exec {
namespace {

GateShape gate_shape(const LayerShape& s) {
  return {s.tokens,
          s.experts,
          s.top_k,
          s.capacity,
          s.first_slot,
          s.gate.kind == GateKind::Sigmoid,
          s.gate.renormalise || s.gate.kind == GateKind::Gshard};
}

// Of a part's tokens: the same numbers as on the host.
template <class Number>
std::vector<Number> noise_of(const OpOperands& o) {
  const LayerShape& s = o.shape;
  const std::int64_t first = o.group * s.rank_tokens + o.part.tokens.first;
  std::vector<Number> noise;
  noise.reserve(static_cast<std::size_t>(s.tokens * s.experts));
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t e = 0; e < s.experts; ++e)
      noise.push_back(static_cast<Number>(gate_noise(s.gate.noise_seed, o.op.layer, first + t, e)));
  return noise;
}

// Scores of all experts for all tokens, with what the backward pass needs of a noisy gate.
template <class Scalar>
struct Scores {
  Wide<Scalar>* scores = nullptr;  // (T, E)
  Wide<Scalar>* spread = nullptr;  // x Wnoise
  const Wide<Scalar>* noise = nullptr;
};

template <class Scalar>
Scores<Scalar> record_scores(const DeviceOp<Scalar>& op, const Scalar* tokens, const Scalar* router) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const std::int64_t size = s.tokens * s.experts;
  const Matrix<const Scalar> x(tokens, s.tokens, s.hidden);
  Scores<Scalar> result;
  result.scores = op.out.template scratch<Number>(size);
  op.out.multiply(product<Scalar>(x, Matrix<const Scalar>(router, s.hidden, s.experts),
                                  Matrix<Number>(result.scores, s.tokens, s.experts)));
  if (s.gate.kind == GateKind::Gshard) {
    result.spread = op.out.template scratch<Number>(size);
    op.out.multiply(product<Scalar>(x, Matrix<const Scalar>(router + s.hidden * s.experts, s.hidden, s.experts),
                                    Matrix<Number>(result.spread, s.tokens, s.experts)));
    result.noise = op.out.table(noise_of<Number>(op));
    op.out.launch(size, AddNoise<Number>{result.scores, result.spread, result.noise});
  }
  op.out.launch(s.tokens, ExpertScores<Number>{gate_shape(s), result.scores});
  return result;
}

// Experts and slots of all entries.
struct Chosen {
  const std::int32_t *experts, *slots;
};

template <class Scalar>
Chosen record_choices(const DeviceOp<Scalar>& op, const Wide<Scalar>* scores) {
  const LayerShape& s = op.shape;
  const std::int64_t entries = s.routing_entries();
  const Routing preset = preset_of_part(op);
  Chosen chosen;
  if (preset.empty()) {
    std::int32_t* const experts = op.out.template scratch<std::int32_t>(entries);
    op.out.launch(s.tokens, ChooseExperts<Wide<Scalar>>{gate_shape(s), scores, experts});
    chosen.experts = experts;
  } else {
    check(static_cast<std::int64_t>(preset.size()) == entries, "preset routing of another shape");
    std::vector<std::int32_t> experts(preset.size()), slots(preset.size());
    std::ranges::transform(preset, experts.begin(), &Choice::expert);
    std::ranges::transform(preset, slots.begin(), &Choice::slot);
    chosen = {op.out.table(experts), op.out.table(slots)};
    if (preset.front().slot != Choice::no_slot_yet) return chosen;
  }
  if (s.gate.batch_prioritised) throw InputError("gate.batch_prioritised: a GPU gives slots in token order only");
  SlotOrder order{gate_shape(s), chosen.experts, nullptr};
  order.counts = op.out.template scratch<std::int32_t>(order.segments() * s.experts);
  std::int32_t* const slots = op.out.template scratch<std::int32_t>(entries);
  op.out.launch(order.segments() * s.experts, CountChoices{order});
  op.out.launch(s.experts, AddUpCounts{order});
  op.out.launch(order.segments() * s.experts, GiveSlots{order, slots});
  chosen.slots = slots;
  return chosen;
}

template <class Scalar>
void forward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  Scalar* const moe_input = write_tokens(op, 0);
  record_sum(op.out, read_tokens(op, 0), read_tokens(op, 1), moe_input, s.tokens * s.hidden);
  const Scores<Scalar> scores = record_scores<Scalar>(op, moe_input, op.read(2));
  const Chosen chosen = record_choices(op, scores.scores);
  op.out.launch(s.tokens, WriteRouting<Wide<Scalar>>{gate_shape(s), scores.scores, chosen.experts, chosen.slots,
                                                     op.template write<Wide<Scalar>>(1)});
}

// Through one matrix of the router: adds to the tokens' gradient and to the matrix's.
template <class Scalar>
void through_logits(const DeviceOp<Scalar>& op, const Scalar* d_logits, std::int64_t matrix) {
  const LayerShape& s = op.shape;
  const std::int64_t first = matrix * s.hidden * s.experts;
  const Matrix<const Scalar> d(d_logits, s.tokens, s.experts), x(read_tokens(op, 3), s.tokens, s.hidden),
      w(op.read(4) + first, s.hidden, s.experts);
  op.out.multiply(
      product<Scalar>(d, transposed(w), Matrix<Scalar>(write_tokens(op, 0), s.tokens, s.hidden), Into::Add));
  op.out.multiply(
      product<Scalar>(transposed(x), d, Matrix<Scalar>(op.write(1) + first, s.hidden, s.experts), Into::Add));
}

// Reads output_gradient, score_gradient, routing, moe_input, router_weights, d_moe_input.
template <class Scalar>
void backward(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const std::int64_t size = s.tokens * s.experts;
  const Scores<Scalar> scores = record_scores<Scalar>(op, read_tokens(op, 3), op.read(4));
  Scalar* const d_logits = op.out.template scratch<Scalar>(size);
  op.out.launch(size, LogitGradients<Scalar>{gate_shape(s), scores.scores, op.template read<Number>(2),
                                             op.template read<Number>(1), d_logits});
  Scalar* const d_tokens = write_tokens(op, 0);
  record_sum<Scalar>(op.out, d_tokens, read_tokens(op, 0), d_tokens, s.tokens * s.hidden);
  through_logits<Scalar>(op, d_logits, 0);
  if (s.gate.kind != GateKind::Gshard) return;
  Scalar* const d_spread = op.out.template scratch<Scalar>(size);
  op.out.launch(size, SpreadGradients<Scalar>{d_logits, scores.spread, scores.noise, d_spread});
  through_logits<Scalar>(op, d_spread, 1);
}

}  // namespace

template <class Scalar>
void record_gate(DeviceOp<Scalar>& op) {
  op.op.phase == Phase::Forward ? forward(op) : backward(op);
}

DOVETAIL_FOR_DEVICE(record_gate);

}  // namespace dovetail::exec
