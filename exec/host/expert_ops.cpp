// SPDX-License-Identifier: Apache-2.0
#include "exec/host/expert_ops.hpp"

#include <algorithm>
#include <optional>

#include "exec/host/custom_expert.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/host/row_exchange.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// The rows of each block that a grouped kernel computes.
template <class Scalar>
std::optional<OwnRows> own_rows(const OpContext<Scalar>& c) {
  if (c.schedule.expert_kernel != ExpertKernel::Grouped) return std::nullopt;
  const TensorId counts = c.read_id(roles::row_counts);
  const std::int64_t blocks = c.tensor(counts).elements;
  return OwnRows{taken_rows<Scalar>(c.data(counts), blocks, {0, c.shape.capacity}), std::max(1, c.schedule.row_tile)};
}

}  // namespace

template <class Scalar>
void forward_expert(OpContext<Scalar>& c) {
  if (c.shape.extensions.expert != nullptr)
    return custom_expert_forward<Scalar>(expert_shape(c), {c.op.rows, c.read(roles::expert_input)},
                                         c.read(roles::expert_weights), c.write(TensorKind::Hidden),
                                         c.write(roles::expert_output));
  if (const auto own = own_rows(c))
    return grouped_forward<Scalar>(expert_shape(c), *own, {c.op.rows, c.read(roles::expert_input)},
                                   c.read(roles::expert_weights), c.write(TensorKind::Hidden),
                                   c.write(roles::expert_output), c.data(c.find_write(TensorKind::Activated)),
                                   c.data(c.find_read(roles::row_scores)));
  expert_forward<Scalar>(expert_shape(c), {c.op.rows, c.read(roles::expert_input)}, c.read(roles::expert_weights),
                         c.write(TensorKind::Hidden), c.write(roles::expert_output),
                         c.data(c.find_write(TensorKind::Activated)), c.data(c.find_read(roles::row_scores)));
}

template <class Scalar>
void restore_hidden(OpContext<Scalar>& c) {
  if (c.shape.extensions.expert != nullptr)
    return custom_expert_forward<Scalar>(expert_shape(c), {c.op.rows, c.read(roles::expert_input)},
                                         c.read(roles::expert_weights), c.write(TensorKind::Hidden), nullptr);
  if (const auto own = own_rows(c))
    return grouped_hidden<Scalar>(expert_shape(c), *own, {c.op.rows, c.read(roles::expert_input)},
                                  c.read(roles::expert_weights), c.write(TensorKind::Hidden));
  expert_hidden<Scalar>(expert_shape(c), {c.op.rows, c.read(roles::expert_input)}, c.read(roles::expert_weights),
                        c.write(TensorKind::Hidden));
}

// The chunks that the half of an expert's backward op reads of the forward pass.
template <class Scalar>
std::vector<KeptChunk<Scalar>> kept_chunks(const OpContext<Scalar>& c) {
  const std::vector<TensorId> inputs = c.all_reads(roles::expert_input), hidden = c.all_reads(TensorKind::Hidden),
                              activated = c.all_reads(TensorKind::Activated), scores = c.all_reads(roles::row_scores);
  const auto fits = [&](const std::vector<TensorId>& ids) { return ids.empty() || ids.size() == hidden.size(); };
  check(fits(inputs) && fits(activated) && fits(scores), "hidden rows for each input of an expert");
  std::vector<KeptChunk<Scalar>> kept;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const auto data = [&](const std::vector<TensorId>& ids) { return ids.empty() ? nullptr : c.data(ids[i]); };
    kept.push_back({{c.tensor(hidden[i]).rows, data(inputs)}, c.data(hidden[i]), data(activated), data(scores)});
  }
  return kept;
}

// The gradients that it makes. They are read only if they have a value already.
template <class Scalar>
Scalar* begun_gradient(const OpContext<Scalar>& c) {
  if (c.op.half == Half::Inputs) return nullptr;
  Scalar* const gradient = c.write(roles::expert_gradient);
  if (!c.find_read(roles::expert_gradient).exists())
    std::fill_n(gradient, c.write_tensor(roles::expert_gradient).elements, Scalar(0));
  return gradient;
}

template <class Scalar>
void backward_expert(OpContext<Scalar>& c) {
  const std::vector<KeptChunk<Scalar>> kept = kept_chunks(c);
  const Chunk<const Scalar> d_output{c.op.rows, c.read(roles::d_expert_output)};
  const Role d_hidden = gradient_of(TensorKind::Hidden);
  const Half half = c.op.half;
  const ExpertGradients<Scalar> gradients{begun_gradient(c), c.data(c.find_write(gradient_of(roles::expert_input))),
                                          half == Half::Weights ? c.data(c.read_id(d_hidden)) : c.write(d_hidden),
                                          c.data(c.find_write(gradient_of(roles::row_scores)))};
  const Scalar* const weights = c.data(c.find_read(roles::expert_weights));
  if (c.shape.extensions.expert != nullptr)
    custom_expert_backward<Scalar>(expert_shape(c), d_output, weights, kept, gradients);
  else if (const auto own = own_rows(c))
    grouped_backward<Scalar>(expert_shape(c), *own, d_output, weights, kept, gradients, half);
  else
    expert_backward<Scalar>(expert_shape(c), d_output, weights, kept, gradients, half);
}

template void forward_expert(OpContext<float>&);
template void forward_expert(OpContext<double>&);
template void backward_expert(OpContext<float>&);
template void backward_expert(OpContext<double>&);
template void restore_hidden(OpContext<float>&);
template void restore_hidden(OpContext<double>&);

}  // namespace dovetail::exec
