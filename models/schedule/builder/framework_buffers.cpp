// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/framework_buffers.hpp"

#include <cmath>
#include <set>
#include <utility>

#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"

namespace dovetail::builder {
namespace {

using Shapes = std::set<std::pair<std::int64_t, std::int64_t>>;  // rows and columns of a weight

void add_attention(const Model& m, const LayerVolumes& v, Shapes& shapes) {
  const Attention& a = m.attention;
  shapes.insert({v.hidden, v.value_width});
  if (v.windowed.share > 0) {
    shapes.insert({v.hidden, v.windowed.value_width()});
    shapes.insert({v.windowed.projected_width() + gate_columns(a, v.windowed.heads), v.hidden});
  }
  if (m.recurrence.layers > 0) {
    const RecurrenceSizes sizes = recurrence_sizes(m.recurrence, v.hidden, v.mp);
    for (const TokenProduct& product : sizes.products) shapes.insert({product.columns, product.inner});
    shapes.insert({sizes.output.columns, sizes.output.inner});
  }
  if (a.kind != AttentionKind::Latent) {
    shapes.insert({v.whole_heads().projected_width() + gate_columns(a, v.query_heads), v.hidden});
    return;
  }
  shapes.insert({a.kv_rank + a.rope_size, v.hidden});
  shapes.insert({v.query_heads * (a.nope_size + a.value_size), a.kv_rank});
  if (a.q_rank > 0) shapes.insert({a.q_rank, v.hidden});
  shapes.insert({v.query_width, a.q_rank > 0 ? a.q_rank : v.hidden});
}

// The first products of a gated part are one.
void add_ffn(const LayerVolumes& v, std::int64_t columns, Shapes& shapes) {
  if (columns == 0) return;
  shapes.insert({(v.expert_gemms - 1) * columns, v.hidden});
  shapes.insert({v.hidden, columns});
}

std::int64_t empty_gradients(const StepContext& c) {
  Shapes shapes;
  for (const int layer : c.layers_of_stage()) {
    const LayerVolumes& v = c.volumes(layer);
    add_attention(c.experiment().model, v, shapes);
    add_ffn(v, v.ffn_hidden, shapes);
    if (v.moe) add_ffn(v, v.worked_hidden(), shapes);
  }
  if (c.has_head()) shapes.insert({c.ends().words, c.volumes(0).hidden});
  std::int64_t elements = 0;
  for (const auto& [rows, columns] : shapes) elements += rows * columns;
  return elements;
}

// The weights of matrices; not those of embedding and output head, whose products stay in the workload's format.
std::int64_t product_weights(const StepContext& c) {
  std::int64_t sum = 0;
  for (const int layer : c.layers_of_stage())
    sum += c.volumes(layer).dense_parameters + c.volumes(layer).expert_parameters;
  return sum;
}

}  // namespace

void add_framework_buffers(StepContext& c) {
  const TrainingFramework& framework = c.experiment().framework;
  const Bytes element = size_of(c.experiment().workload.dtype);
  auto elements = static_cast<std::int64_t>(std::ceil(framework.workspace / element));
  if (framework.empty_weight_gradients && c.training()) elements += empty_gradients(c);
  if (c.experiment().workload.other_products() && c.training())
    elements +=
        static_cast<std::int64_t>(static_cast<double>(product_weights(c)) * framework.fp8_weights / element.value());
  if (elements > 0) c.persistent(TensorKind::FrameworkBuffers, c.layers_of_stage().front(), elements);
}

}  // namespace dovetail::builder
