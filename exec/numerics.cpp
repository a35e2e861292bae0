#include "exec/numerics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "exec/wire_format.hpp"
#include "models/errors.hpp"
#include "models/volumes.hpp"

namespace dovetail::exec {
namespace {

class RelativeError {
 public:
  void add(const double* value, const double* expected, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      difference_ += (value[i] - expected[i]) * (value[i] - expected[i]);
      norm_ += expected[i] * expected[i];
    }
  }
  void add(const Values& value, const Values& expected) {
    check(value.size() == expected.size(), "values of another shape than the reference");
    add(value.data(), expected.data(), value.size());
  }
  double error() const { return difference_ == 0 ? 0 : std::sqrt(difference_ / norm_); }

 private:
  double difference_ = 0, norm_ = 0;
};

// NaN wins, unlike in std::max.
double worse(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

class Comparison {
 public:
  Comparison(const Experiment& e, const Schedule& s, const HostExecutor& executor, const Reference& reference)
      : e_(e), s_(s), executor_(executor), reference_(reference) {}

  NumericsReport report() const {
    NumericsReport r;
    const int layers = e_.workload.layers;
    r.reference_dropped = reference_.dropped;
    r.dropped = drops();
    r.output_error = output_error(reference_);
    if (reference_.gradients.empty()) return r;
    r.input_gradient_error = tokens_error(input_gradient_parts(), reference_.input_gradient);
    for (int layer = 0; layer < layers; ++layer) {
      r.dense_gradient_error = worse(dense_error(layer), r.dense_gradient_error);
      if (!e_.model.is_moe(layer)) continue;
      r.router_gradient_error = worse(router_error(layer), r.router_gradient_error);
      r.expert_gradient_error = worse(expert_error(layer), r.expert_gradient_error);
    }
    return r;
  }

  double output_error(const Reference& reference) const {
    return tokens_error({{TensorKind::LayerInput, false, e_.workload.layers}}, reference.output);
  }

 private:
  struct Result {
    TensorKind kind;
    bool gradient;
    int layer;
  };

  // Of one rank: the values of all chunks that the result consists of, empty if there is none.
  Values find(std::size_t rank, const Result& result) const {
    Values values;
    for (std::size_t i = 0; i < s_.tensors.size(); ++i) {
      const Tensor& t = s_.tensors[i];
      if (t.kind != result.kind || t.gradient != result.gradient || t.layer != result.layer) continue;
      const Values of_chunk = executor_.values(rank, static_cast<TensorId>(i));
      values.insert(values.end(), of_chunk.begin(), of_chunk.end());
    }
    return values;
  }
  Values require(std::size_t rank, const Result& result) const {
    Values values = find(rank, result);
    check(!values.empty(), "the schedule lacks a tensor that results are read from");
    return values;
  }

  std::int64_t drops() const {
    std::int64_t dropped = 0;
    if (e_.workload.gate.kind == GateKind::SoftMoe) return dropped;
    for (int layer = 0; layer < e_.workload.layers; ++layer)
      for (std::size_t rank = 0; e_.model.is_moe(layer) && rank < executor_.ranks().size(); ++rank) {
        const Values routing = require(rank, {TensorKind::Routing, false, layer});
        for (std::size_t i = 1; i < routing.size(); i += 3) dropped += routing[i] < 0;
      }
    return dropped;
  }

  std::vector<Result> input_gradient_parts() const {
    const Result sum{TensorKind::AttentionSumGradient, false, 0}, own{TensorKind::AttentionInput, true, 0};
    return {{TensorKind::MoeInput, true, 0}, find(0, sum).empty() ? own : sum};
  }

  // Of the sum of tensors (T, M) with the ranks' parts of `expected`.
  double tokens_error(const std::vector<Result>& parts, const Values& expected) const {
    RelativeError error;
    for (std::size_t rank = 0; rank < executor_.ranks().size(); ++rank) {
      Values sum = require(rank, parts.front());
      for (std::size_t i = 1; i < parts.size(); ++i)
        std::ranges::transform(sum, require(rank, parts[i]), sum.begin(), std::plus());
      const auto first = static_cast<std::size_t>(executor_.ranks()[rank]) * sum.size();
      error.add(sum.data(), &expected[first], sum.size());
    }
    return error.error();
  }

  double dense_error(int layer) const {
    RelativeError error;
    const std::vector<std::int64_t> elements = dense_elements(e_);
    const auto later = static_cast<std::size_t>(std::reduce(elements.begin() + layer + 1, elements.end()));
    for (std::size_t rank = 0; rank < executor_.ranks().size(); ++rank) {
      const Values all = require(rank, {TensorKind::DenseGradients, false, 0});
      const Values expected = dense_shard(e_, gradients(layer), executor_.ranks()[rank]);
      error.add(&all[later], expected.data(), expected.size());
    }
    return error.error();
  }

  // Each rank holds its own tokens' part of the sum.
  double router_error(int layer) const {
    Values sum(gradients(layer).router.size());
    for (std::size_t rank = 0; rank < executor_.ranks().size(); ++rank)
      std::ranges::transform(sum, require(rank, {TensorKind::RouterGradient, false, layer}), sum.begin(), std::plus());
    RelativeError error;
    error.add(sum, gradients(layer).router);
    return error.error();
  }

  double expert_error(int layer) const {
    RelativeError error;
    for (std::size_t rank = 0; rank < executor_.ranks().size(); ++rank)
      error.add(require(rank, {TensorKind::ExpertGradient, false, layer}),
                expert_shard(e_, gradients(layer), executor_.ranks()[rank]));
    return error.error();
  }

  const LayerWeights& gradients(int layer) const { return reference_.gradients[static_cast<std::size_t>(layer)]; }

  const Experiment& e_;
  const Schedule& s_;
  const HostExecutor& executor_;
  const Reference& reference_;
};

}  // namespace

double NumericsReport::gradient_error() const {
  return worse(worse(input_gradient_error, dense_gradient_error), worse(router_gradient_error, expert_gradient_error));
}

bool NumericsReport::ok(double tolerance) const {
  return output_error <= tolerance && gradient_error() <= tolerance && dropped == reference_dropped;
}

double tolerance_of(Element element, const ComputeRules& rules) {
  if (element == Element::Double) return 1e-12;
  const double spacing = std::max(spacing_of(rules.dispatch), spacing_of(rules.combine));
  return rules.rounds() ? std::sqrt(1e-5 * spacing) : 1e-5;
}

NumericsReport compare(const Experiment& experiment, const Schedule& schedule, const HostExecutor& executor,
                       const Reference& reference, const Reference* without_rounding) {
  const Comparison comparison(experiment, schedule, executor, reference);
  NumericsReport report = comparison.report();
  if (without_rounding != nullptr) report.rounding_error = comparison.output_error(*without_rounding);
  return report;
}

}  // namespace dovetail::exec
