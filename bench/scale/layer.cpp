// SPDX-License-Identifier: Apache-2.0
// One MoE layer on all GPUs of a cluster of any size, simulated: dispatch of 32 MiB from each GPU, 1 ms of experts,
// combine and beside it an all-reduce of 64 MiB. Usage: scale_layer CLUSTER GPUS; prints what that took as JSON.
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/schedule/schedule_writer.hpp"
#include "sim/simgrid_backend.hpp"

using namespace dovetail;

namespace {

// Experts and all-reduces over all GPUs; whole nodes, so at least as many GPUs as asked for.
Experiment on_all_gpus(const std::string& cluster, int gpus) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.model = "mixtral-8x7b";
  FilesRead files;
  const ExperimentParts parts = load_parts(request, files);
  Experiment e{parts.cluster, parts.model, parts.calibration, {}, {}};
  e.cluster.nodes = (gpus + e.cluster.gpus_per_node - 1) / e.cluster.gpus_per_node;
  e.workload.dtype = parts.defaults.dtype.value_or(e.workload.dtype);
  e.parallelism.dp = e.parallelism.ep = e.cluster.gpus();
  return e;
}

Schedule layer(const Experiment& e) {
  constexpr double mebibyte = 1 << 20;
  ScheduleWriter writer(4);
  const StreamId compute = writer.add_stream(StreamKind::Compute), rows = writer.add_stream(StreamKind::Communication),
                 sums = writer.add_stream(StreamKind::Inter);
  const auto tensor = [&](TensorKind kind, double bytes) {
    Tensor t;
    t.kind = kind;
    t.persistent = kind == TensorKind::Encoded || kind == TensorKind::DenseGradients;
    t.elements = static_cast<std::int64_t>(bytes / size_of(t.dtype).value());
    return writer.add_tensor(t);
  };
  const TensorId encoded = tensor(TensorKind::Encoded, 32 * mebibyte),
                 dispatched = tensor(TensorKind::Dispatched, 32 * mebibyte),
                 worked = tensor(TensorKind::ExpertPartial, 32 * mebibyte),
                 combined = tensor(TensorKind::Combined, 32 * mebibyte),
                 gradients = tensor(TensorKind::DenseGradients, 64 * mebibyte);
  const auto op = [&](OpKind kind, StreamId stream, Collective collective, GroupKind group, double bytes) {
    Op o;
    o.kind = kind;
    o.stream = stream;
    o.work = ExchangeWork{collective, group, Protocol::Simple, Bytes(bytes), {}, {}};
    return o;
  };
  writer.add_op(op(OpKind::Dispatch, rows, Collective::AllToAll, GroupKind::Ep, 32 * mebibyte), std::array{encoded},
                std::array{dispatched});
  Op experts;
  experts.kind = OpKind::Expert;
  experts.stream = compute;
  experts.work = KernelWork{.flops = Flops(1e-3 / find_gemm(*e.calibration, e.workload.dtype).beta.value())};
  const OpId work = writer.add_op(experts, std::array{dispatched}, std::array{worked});
  writer.add_op(op(OpKind::Combine, rows, Collective::AllToAll, GroupKind::Ep, 32 * mebibyte), std::array{worked},
                std::array{combined});
  writer.add_op(op(OpKind::DenseGradientAllReduce, sums, Collective::AllReduce, GroupKind::Dp, 64 * mebibyte),
                std::array{gradients}, std::array{gradients}, work);
  Schedule schedule = writer.finish(e.cluster.gpus());
  schedule.groups = e.parallelism;
  return schedule;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print(const std::string& cluster, int gpus) {
  const auto start = std::chrono::steady_clock::now();
  const Experiment e = on_all_gpus(cluster, gpus);
  const double load = seconds_since(start);
  sim::SimGridBackend backend;
  double first = 0, least = 1e300, makespan = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Timeline timeline = backend.run(price(std::make_shared<const Schedule>(layer(e)), e));
    least = std::min(least, seconds_since(begin));
    if (i == 0) first = seconds_since(begin);
    for (const Interval& each : timeline.ops) makespan = std::max(makespan, each.finish.value());
  }
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  fmt::print(R"({{"gpus": {}, "nodes": {}, "load_s": {:.3g}, "first_s": {:.3g}, "again_s": {:.3g}, )"
             R"("makespan_s": {}, "peak_kib": {}}})"
             "\n",
             e.cluster.gpus(), e.cluster.nodes, load, first, least, makespan, use.ru_maxrss);
}

}  // namespace

int main(int argc, char** argv) try {
  const int gpus = argc == 3 ? std::atoi(argv[2]) : 0;
  if (gpus < 1) throw InputError("usage: scale_layer CLUSTER GPUS");
  print(argv[1], gpus);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "scale_layer: {}\n", error.what());
  return 2;
}
