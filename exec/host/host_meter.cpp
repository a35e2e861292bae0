// SPDX-License-Identifier: Apache-2.0
#include "exec/host/host_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>

#include "exec/host/gemm.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/host/host_run.hpp"
#include "exec/run/failure.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "exec/transport/rendezvous.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

using Task = std::function<void()>;
constexpr int most_probes = 2;

template <class Scalar>
std::shared_ptr<std::vector<Scalar>> buffer(std::int64_t elements) {
  return std::make_shared<std::vector<Scalar>>(static_cast<std::size_t>(elements), Scalar(1));
}

template <class Scalar>
Task gemm(const Probe& p) {
  const auto a = buffer<Scalar>(p.rows * p.inner), b = buffer<Scalar>(p.inner * p.columns),
             c = buffer<Scalar>(p.rows * p.columns);
  return [=] {
    multiply<Scalar>(Matrix<const Scalar>(a->data(), p.rows, p.inner),
                     Matrix<const Scalar>(b->data(), p.inner, p.columns), Matrix<Scalar>(c->data(), p.rows, p.columns));
  };
}

// Tokens go to the rows in strides, as routing scatters them.
Task order(const Probe& p) {
  LayerShape shape;
  shape.tokens = shape.rank_tokens = shape.capacity = p.rows;
  shape.hidden = p.columns;
  shape.experts = shape.local_experts = shape.row_copies = shape.top_k = 1;
  const auto routing = buffer<float>(3 * p.rows), tokens = buffer<float>(p.rows * p.columns),
             rows = buffer<float>(p.rows * p.columns), output = buffer<float>(p.rows * p.columns);
  constexpr std::int64_t stride = 8;
  std::int64_t place = 0;
  for (std::int64_t first = 0; first < std::min(stride, p.rows); ++first)
    for (std::int64_t token = first; token < p.rows; token += stride, ++place) {
      (*routing)[static_cast<std::size_t>(3 * token)] = static_cast<float>(token);
      (*routing)[static_cast<std::size_t>(3 * token + 1)] = static_cast<float>(place);
    }
  return [=, encodes = p.kind == ProbeKind::Encode] {
    const Matrix<float> from(tokens->data(), p.rows, p.columns), to(output->data(), p.rows, p.columns);
    if (encodes) {
      const Chunk<float> chunk{{0, p.rows}, rows->data()};
      encode_forward<float>(shape, from, routing->data(), {&chunk, 1});
    } else {
      const Chunk<const float> chunk{{0, p.rows}, rows->data()};
      decode_forward<float>(shape, from, routing->data(), ScoresAt::Decode, {&chunk, 1}, to);
    }
  };
}

// Pieces change places as in a transposition of blocks.
Task copy(const Probe& p) {
  const auto from = buffer<float>(p.rows * p.columns), to = buffer<float>(p.rows * p.columns);
  const std::int64_t pieces = p.kind == ProbeKind::HostCopy ? 1 : p.rows, piece = p.rows * p.columns / pieces;
  constexpr std::int64_t stride = 8;
  return [=] {
    std::int64_t place = 0;
    for (std::int64_t first = 0; first < std::min(stride, pieces); ++first)
      for (std::int64_t i = first; i < pieces; i += stride, ++place)
        std::copy_n(from->data() + i * piece, piece, to->data() + place * piece);
  };
}

// Sends go from each to the next, as those of pipeline stages do.
Task collective(const Probe& p, Communicator& c) {
  const bool in_blocks = p.collective == Collective::AllToAll || p.collective == Collective::AllGather ||
                         p.collective == Collective::ReduceScatter;
  const std::int64_t all = p.rows, block = in_blocks ? all / c.size() : all;
  const auto send = buffer<float>(all), receive = buffer<float>(all);
  const auto operands = [=] { return exchange<float>(send->data(), receive->data(), block, 0); };
  if (p.collective != Collective::Send) return [=, &c, kind = p.collective] { c.collective(kind, operands(), 0); };
  return [=, &c, tag = 0]() mutable {
    c.post(operands(), (c.rank() + 1) % c.size(), tag);
    c.take(operands(), tag++);
  };
}

Task task_of(const Probe& p, Communicator& communicator) {
  switch (p.kind) {
    case ProbeKind::Gemm:
      return p.dtype == DType::Fp64 ? gemm<double>(p) : gemm<float>(p);
    case ProbeKind::Encode:
    case ProbeKind::Decode:
      return order(p);
    case ProbeKind::StridedCopy:
    case ProbeKind::HostCopy:
      return copy(p);
    case ProbeKind::Collective:
      return collective(p, communicator);
    default:
      throw InternalError("a probe of devices only");
  }
}

// How long this thread was ready to run and had no core, in seconds since its start; 0 where the system does not say.
double seconds_without_core() {
  double running = 0, waiting = 0;
  std::ifstream("/proc/thread-self/schedstat") >> running >> waiting;
  return waiting * 1e-9;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Span {
  double start = 0, finish = 0, without_core = 0;
};

class HostMeter final : public Meter {
 public:
  explicit HostMeter(int ranks)
      : ranks_(ranks), transport_(make_inproc_transport({.dp = ranks, .ep = ranks}, ranks, most_probes)) {}

  int ranks() const override { return ranks_; }
  bool oversubscribed(int streams) const override { return ranks_ * streams > free_cores(); }

  std::vector<Elapsed> run(std::span<const Repeated> work) override {
    const auto busy = std::ranges::count_if(work, [](const Repeated& r) { return r.times > 0; });
    Rendezvous together(static_cast<int>(busy) * ranks_);
    std::vector<std::future<Span>> threads;
    try {
      prepare(work);
      start(work, together, threads);
    } catch (const std::system_error& error) {
      together.cancel();  // those that have started wait for all
      throw no_thread(error, fmt::format("one for each probe of {} ranks: measure with fewer", ranks_));
    }
    return elapsed(work, threads);
  }

 private:
  void start(std::span<const Repeated> work, Rendezvous& together, std::vector<std::future<Span>>& threads) const {
    for (std::size_t i = 0; i < work.size(); ++i)
      for (const Task& task : tasks_[i])
        if (work[i].times > 0)
          threads.push_back(std::async(std::launch::async, [&task, &together, times = work[i].times] {
            const double before = seconds_without_core();
            together.arrive_and_wait();
            Span span{now(), 0, 0};
            for (int n = 0; n < times; ++n) task();
            span.finish = now();
            span.without_core = seconds_without_core() - before;
            return span;
          }));
  }

  // Each rank's buffers are first written by a thread of its own.
  void prepare(std::span<const Repeated> work) {
    const bool same = std::ranges::equal(work, probes_, {}, &Repeated::probe);
    if (same) return;
    check(work.size() <= most_probes, "too many probes at a time");
    tasks_.clear();
    probes_.clear();
    for (std::size_t i = 0; i < work.size(); ++i) {
      std::vector<std::future<Task>> made;
      for (int rank = 0; rank < ranks_; ++rank)
        made.push_back(std::async(std::launch::async, [&, rank] {
          return task_of(work[i].probe, transport_->communicator(rank, static_cast<StreamId>(i), GroupKind::Ep));
        }));
      tasks_.emplace_back();
      for (std::future<Task>& each : made) tasks_.back().push_back(each.get());
      probes_.push_back(work[i].probe);
    }
  }

  std::vector<Elapsed> elapsed(std::span<const Repeated> work, std::vector<std::future<Span>>& threads) const {
    std::vector<Span> spans;
    for (std::future<Span>& thread : threads) spans.push_back(thread.get());
    const double start = std::ranges::min(spans, {}, &Span::start).start;
    std::vector<Elapsed> result(work.size());
    auto next = spans.begin();
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (work[i].times == 0) continue;
      const std::span<const Span> of_probe(next, next + ranks_);
      next += ranks_;
      result[i].time = Seconds(std::ranges::max(of_probe, {}, &Span::finish).finish - start);
      result[i].without_core = Seconds(std::ranges::max(of_probe, {}, &Span::without_core).without_core);
    }
    return result;
  }

  int ranks_;
  std::unique_ptr<Transport> transport_;
  std::vector<Probe> probes_;
  std::vector<std::vector<Task>> tasks_;  // by probe and rank
};

}  // namespace

std::unique_ptr<Meter> make_host_meter(int ranks) {
  return std::make_unique<HostMeter>(ranks);
}

}  // namespace dovetail::exec
