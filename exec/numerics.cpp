#include "exec/numerics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/errors.hpp"

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
    r.output_error = tokens_error([&](int i) { return TensorIds{find(TensorKind::LayerInput, false, layers, i)}; },
                                  reference_.output);
    if (reference_.gradients.empty()) return r;
    r.input_gradient_error = tokens_error([&](int i) { return input_gradient_parts(i); }, reference_.input_gradient);
    for (int layer = 0; layer < layers; ++layer) {
      r.dense_gradient_error = worse(dense_error(layer), r.dense_gradient_error);
      r.router_gradient_error = worse(router_error(layer), r.router_gradient_error);
      r.expert_gradient_error = worse(expert_error(layer), r.expert_gradient_error);
    }
    return r;
  }

 private:
  using TensorIds = std::vector<TensorId>;

  const Tensor& tensor(TensorId id) const { return s_.tensors[static_cast<std::size_t>(id)]; }

  TensorId find_or_none(TensorKind kind, bool gradient, int layer, int micro_batch) const {
    for (std::size_t i = 0; i < s_.tensors.size(); ++i)
      if (const Tensor& t = s_.tensors[i];
          t.kind == kind && t.gradient == gradient && t.layer == layer && t.micro_batch == micro_batch)
        return static_cast<TensorId>(i);
    return -1;
  }
  TensorId find(TensorKind kind, bool gradient, int layer, int micro_batch = 0) const {
    const TensorId id = find_or_none(kind, gradient, layer, micro_batch);
    check(id >= 0, "the schedule lacks a tensor that results are read from");
    return id;
  }

  // visit(index into the executor's ranks, rank within the stage) for the ranks that hold the tensor.
  template <class Visit>
  void for_each_rank(TensorId id, Visit visit) const {
    for (std::size_t local = 0; local < executor_.ranks().size(); ++local)
      if (const int rank = executor_.ranks()[local]; s_.class_of_rank(rank) == tensor(id).rank_class)
        visit(local, rank % e_.parallelism.stage_ranks());
  }

  std::int64_t drops() const {
    std::int64_t dropped = 0;
    for (std::size_t id = 0; id < s_.tensors.size(); ++id) {
      if (s_.tensors[id].kind != TensorKind::Routing) continue;
      for_each_rank(static_cast<TensorId>(id), [&](std::size_t local, int) {
        const Values routing = executor_.values(local, static_cast<TensorId>(id));
        for (std::size_t i = 1; i < routing.size(); i += 3) dropped += routing[i] < 0;
      });
    }
    return dropped;
  }

  TensorIds input_gradient_parts(int micro_batch) const {
    TensorId attention = find_or_none(TensorKind::AttentionSumGradient, false, 0, micro_batch);
    if (attention < 0) attention = find(TensorKind::AttentionInput, true, 0, micro_batch);
    return {find(TensorKind::MoeInput, true, 0, micro_batch), attention};
  }

  // Of the sum of tensors (T, M) of each micro-batch with the ranks' parts of `expected`.
  template <class Parts>
  double tokens_error(Parts parts_of, const Values& expected) const {
    RelativeError error;
    for (int i = 0; i < s_.micro_batches; ++i) {
      const TensorIds parts = parts_of(i);
      for_each_rank(parts.front(), [&](std::size_t local, int rank) {
        Values sum = executor_.values(local, parts.front());
        for (std::size_t more = 1; more < parts.size(); ++more)
          std::ranges::transform(sum, executor_.values(local, parts[more]), sum.begin(), std::plus());
        const auto part = static_cast<std::size_t>(i * e_.parallelism.stage_ranks() + rank);
        error.add(sum.data(), &expected[part * sum.size()], sum.size());
      });
    }
    return error.error();
  }

  double dense_error(int layer) const {
    const TensorId weights = find(TensorKind::DenseWeights, false, layer);
    std::size_t all = 0, first = 0;  // of the stage's gradients: those of its later layers come first
    for (std::size_t id = 0; id < s_.tensors.size(); ++id) {
      const Tensor& t = s_.tensors[id];
      if (t.rank_class != tensor(weights).rank_class) continue;
      if (t.kind == TensorKind::DenseGradients) all = id;
      if (t.kind == TensorKind::DenseWeights && t.layer > layer) first += static_cast<std::size_t>(t.elements);
    }
    RelativeError error;
    for_each_rank(weights, [&](std::size_t local, int rank) {
      const Values values = executor_.values(local, static_cast<TensorId>(all));
      const Values expected = dense_shard(e_, gradients(layer), rank);
      error.add(&values[first], expected.data(), expected.size());
    });
    return error.error();
  }

  // Each rank holds its own tokens' part of the sum.
  double router_error(int layer) const {
    const TensorId id = find(TensorKind::RouterGradient, false, layer);
    Values sum(gradients(layer).router.size());
    for_each_rank(id, [&](std::size_t local, int) {
      std::ranges::transform(sum, executor_.values(local, id), sum.begin(), std::plus());
    });
    RelativeError error;
    error.add(sum, gradients(layer).router);
    return error.error();
  }

  double expert_error(int layer) const {
    const TensorId id = find(TensorKind::ExpertGradient, false, layer);
    RelativeError error;
    for_each_rank(id, [&](std::size_t local, int rank) {
      error.add(executor_.values(local, id), expert_shard(e_, gradients(layer), rank));
    });
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

double tolerance_of(Element element) {
  return element == Element::Float ? 1e-5 : 1e-12;
}

NumericsReport compare(const Experiment& experiment, const Schedule& schedule, const HostExecutor& executor,
                       const Reference& reference) {
  return Comparison(experiment, schedule, executor, reference).report();
}

}  // namespace dovetail::exec
