// SPDX-License-Identifier: Apache-2.0
// The gate: logits by products, scores, choices (or preset ones) and slots by kernels.
#include <algorithm>

#include "exec/device/cosine_op.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/gate_bodies.hpp"
#include "exec/device/soft_bodies.hpp"
#include "exec/host/gate_logits.hpp"
#include "models/base/errors.hpp"

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

// The noise of a part's tokens: the same numbers as on the host.
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

// Scores of all experts for all tokens (T, E), with what the backward pass needs of a noisy gate or of cosines.
template <class Scalar>
struct Scores {
  Wide<Scalar>* scores = nullptr;
  Wide<Scalar>* spread = nullptr;  // x Wnoise
  const Wide<Scalar>* noise = nullptr;
  CosineOperands<Wide<Scalar>> cosine;
};

template <class Scalar>
Scores<Scalar> record_scores(const DeviceOp<Scalar>& op, const Scalar* tokens, const Scalar* router) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const std::int64_t size = s.tokens * s.experts;
  const Matrix<const Scalar> x(tokens, s.tokens, s.hidden);
  Scores<Scalar> result;
  result.scores = op.out.template scratch<Number>(size);
  if (s.gate.cosine())
    result.cosine = record_cosines(op, tokens, router, result.scores);
  else
    op.out.multiply(product<Scalar>(x, Matrix<const Scalar>(router, s.hidden, s.experts),
                                    Matrix<Number>(result.scores, s.tokens, s.experts)));
  if (s.gate.kind == GateKind::Gshard) {
    result.spread = op.out.template scratch<Number>(size);
    op.out.multiply(product<Scalar>(x, Matrix<const Scalar>(router + s.hidden * s.experts, s.hidden, s.experts),
                                    Matrix<Number>(result.spread, s.tokens, s.experts)));
    result.noise = op.out.table(noise_of<Number>(op));
    launch_packed<Number>(op.out, size, [&]<int pack>() {
      return AddNoise<Number, pack>{result.scores, result.spread, result.noise};
    });
  }
  op.out.launch(s.tokens, ExpertScores<Number>{gate_shape(s), result.scores});
  return result;
}

// The entries of each token and, if tokens choose, experts and slots of all entries.
struct Chosen {
  TokenEntries entries;
  const std::int32_t *experts = nullptr, *slots = nullptr;
};

// Experts choose: all kept, each with its place.
template <class Scalar>
Chosen record_tokens_of_experts(const DeviceOp<Scalar>& op, const Wide<Scalar>* scores) {
  const LayerShape& s = op.shape;
  const Routing preset = preset_of_part(op);
  if (preset.empty()) {
    auto* const table = op.out.template scratch<std::int32_t>(s.tokens * s.experts);
    op.out.launch(s.tokens * s.experts, ChooseTokens<Wide<Scalar>>{s.tokens, s.experts, s.capacity, scores, table});
    return {{s.experts, table}};
  }
  check(static_cast<std::int64_t>(preset.size()) == s.slots(), "preset routing of another shape");
  std::vector<std::int32_t> table(static_cast<std::size_t>(s.tokens * s.experts), -1);
  for (const Choice& c : preset)
    table[static_cast<std::size_t>(c.token * s.experts + c.expert)] = static_cast<std::int32_t>(slot_place(s, c));
  return {{s.experts, op.out.table(table)}};
}

template <class Scalar>
Chosen record_choices(const DeviceOp<Scalar>& op, const Wide<Scalar>* scores) {
  const LayerShape& s = op.shape;
  const std::int64_t entries = s.routing_entries();
  const Routing preset = preset_of_part(op);
  Chosen chosen{{s.top_k}};
  if (preset.empty()) {
    std::int32_t* const experts = op.out.template scratch<std::int32_t>(entries);
    op.out.launch(s.tokens, ChooseExperts<Wide<Scalar>>{gate_shape(s), scores, experts});
    chosen.experts = experts;
  } else {
    check(static_cast<std::int64_t>(preset.size()) == entries, "preset routing of another shape");
    std::vector<std::int32_t> experts(preset.size()), slots(preset.size());
    std::ranges::transform(preset, experts.begin(), &Choice::expert);
    std::ranges::transform(preset, slots.begin(), &Choice::slot);
    chosen.experts = op.out.table(experts);
    chosen.slots = op.out.table(slots);
    if (preset.front().slot != Choice::no_slot_yet) return chosen;
  }
  if (s.gate.batch_prioritised) throw InputError("gate.batch_prioritised: a GPU gives slots in token order only");
  SlotOrder order{gate_shape(s), chosen.experts, nullptr};
  order.counts = op.out.template scratch<std::int32_t>(order.segments() * s.experts);
  std::int32_t* const slots = op.out.template scratch<std::int32_t>(entries);
  op.out.launch(order.segments(), CountChoices{order});
  op.out.launch(s.experts, AddUpCounts{order});
  op.out.launch(order.segments(), GiveSlots{order, slots});
  chosen.slots = slots;
  return chosen;
}

// The weights of a soft gate (T, E C).
template <class Scalar>
void record_soft_logits(const DeviceOp<Scalar>& op, const Scalar* tokens, const Scalar* router, Wide<Scalar>* logits) {
  const LayerShape& s = op.shape;
  op.out.multiply(product<Scalar>(Matrix<const Scalar>(tokens, s.tokens, s.hidden),
                                  Matrix<const Scalar>(router, s.hidden, s.slots()),
                                  Matrix<Wide<Scalar>>(logits, s.tokens, s.slots())));
}

// The norm's result or, without norms, the sum of the residual, which the gate makes unless it was kept.
template <class Scalar>
const Scalar* gate_input(const DeviceOp<Scalar>& op) {
  if (op.find_read(roles::moe_input).exists()) return read_tokens(op, roles::moe_input);
  Scalar* const sum = write_tokens(op, TensorKind::MoeInput);
  record_sum(op.out, read_tokens(op, TensorKind::LayerInput), read_tokens(op, roles::attended), sum,
             op.shape.tokens * op.shape.hidden);
  return sum;
}

template <class Scalar>
void forward(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const Scalar* const input = gate_input(op);
  const Scalar* const router = op.read(TensorKind::RouterWeights);
  auto* const combine = op.template data<Number>(op.find_write(TensorKind::CombineWeights));
  auto* const mask = op.template data<Scalar>(op.find_write(TensorKind::RoutingMask));
  if (s.gate.kind == GateKind::SoftMoe) {
    record_soft_logits<Scalar>(op, input, router, combine);
    op.out.launch(s.slots(), SoftDispatch<Scalar>{s.tokens, s.slots(), combine, mask});
    GateShape slots = gate_shape(s);
    slots.experts = s.slots();
    op.out.launch(s.tokens, ExpertScores<Number>{slots, combine});
    return;
  }
  const Scores<Scalar> scores = record_scores<Scalar>(op, input, router);
  const Chosen chosen = s.gate.kind == GateKind::ExpertChoice ? record_tokens_of_experts(op, scores.scores)
                                                              : record_choices(op, scores.scores);
  auto* const routing = op.template write<Number>(TensorKind::Routing);
  op.out.launch(s.tokens, WriteRouting<Number>{gate_shape(s), chosen.entries, scores.scores, chosen.experts,
                                               chosen.slots, routing});
  if (combine == nullptr) return;
  op.out.zero(combine, s.tokens * s.slots());
  op.out.zero(mask, s.tokens * s.slots());
  op.out.launch(s.routing_entries(), WriteDense<Scalar>{s.slots(), routing, combine, mask});
}

// Through one matrix (M, cols) of the router, from its element `first` on: adds to the tokens' gradient and to the
// matrix's.
template <class Scalar>
void through_logits(const DeviceOp<Scalar>& op, const Scalar* d_logits, std::int64_t first, std::int64_t cols) {
  const LayerShape& s = op.shape;
  const Matrix<const Scalar> d(d_logits, s.tokens, cols), x(read_tokens(op, roles::moe_input), s.tokens, s.hidden),
      w(op.read(TensorKind::RouterWeights) + first, s.hidden, cols);
  const Matrix<Scalar> d_x(write_tokens(op, gradient_of(roles::moe_input)), s.tokens, s.hidden),
      d_w(router_gradient(op) + first, s.hidden, cols);
  op.out.multiply(product<Scalar>(d, transposed(w), d_x, Into::Add));
  op.out.multiply(product<Scalar>(transposed(x), d, d_w, Into::Add));
}

template <class Scalar>
void soft_backward(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const std::int64_t size = s.tokens * s.slots();
  auto* const logits = op.out.template scratch<Number>(size);
  auto* const d_dispatch = op.out.template scratch<Number>(size);
  auto* const d_logits = op.out.template scratch<Scalar>(size);
  record_soft_logits<Scalar>(op, read_tokens(op, roles::moe_input), op.read(TensorKind::RouterWeights), logits);
  op.out.launch(s.slots(), SoftDispatchBackward<Scalar>{s.tokens, s.slots(), logits,
                                                        op.read(gradient_of(TensorKind::RoutingMask)), d_dispatch});
  op.out.launch(s.tokens, SoftCombineBackward<Scalar>{s.slots(), logits,
                                                      op.template read<Number>(gradient_of(TensorKind::CombineWeights)),
                                                      d_dispatch, d_logits});
  through_logits<Scalar>(op, d_logits, 0, s.slots());
}

// The gradients of the choices' scores, wherever they stand.
template <class Scalar>
const Wide<Scalar>* record_score_gradients(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing) {
  using Number = Wide<Scalar>;
  if (const auto* const given = op.template data<Number>(op.find_read(TensorKind::ScoreGradient))) return given;
  auto* const gradient = op.out.template scratch<Number>(op.shape.routing_entries());
  op.out.launch(op.shape.routing_entries(),
                ReadDense<Number>{op.shape.slots(), routing,
                                  op.template read<Number>(gradient_of(TensorKind::CombineWeights)), gradient});
  return gradient;
}

template <class Scalar>
void backward(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  if (op.find_read(TensorKind::OutputGradient).exists()) {
    Scalar* const d_tokens = write_tokens(op, gradient_of(TensorKind::MoeInput));
    record_sum<Scalar>(op.out, d_tokens, read_tokens(op, TensorKind::OutputGradient), d_tokens, s.tokens * s.hidden);
  }
  if (s.gate.kind == GateKind::SoftMoe) return soft_backward(op);
  const std::int64_t size = s.tokens * s.experts;
  const Scores<Scalar> scores =
      record_scores<Scalar>(op, read_tokens(op, roles::moe_input), op.read(TensorKind::RouterWeights));
  Scalar* const d_logits = op.out.template scratch<Scalar>(size);
  const auto* const routing = op.template read<Number>(TensorKind::Routing);
  op.out.launch(size, LogitGradients<Scalar>{gate_shape(s), token_entries(op, routing), scores.scores, routing,
                                             record_score_gradients(op, routing), d_logits});
  if (s.gate.cosine()) return record_cosine_backward(op, d_logits, scores.cosine);
  through_logits<Scalar>(op, d_logits, 0, s.experts);
  if (s.gate.kind != GateKind::Gshard) return;
  Scalar* const d_spread = op.out.template scratch<Scalar>(size);
  launch_packed<Scalar>(op.out, size, [&]<int pack>() {
    return SpreadGradients<Scalar, pack>{d_logits, scores.spread, scores.noise, d_spread};
  });
  through_logits<Scalar>(op, d_spread, s.hidden * s.experts, s.experts);
}

}  // namespace

template <class Scalar>
void record_gate(DeviceOp<Scalar>& op) {
  op.op.phase == Phase::Forward ? forward(op) : backward(op);
}

DOVETAIL_FOR_DEVICE(record_gate);

}  // namespace dovetail::exec
