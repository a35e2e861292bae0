// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_device/device_probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "exec/run/measure.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

// A queue, two events around what it is given, and memory for moments.
class Chain {
 public:
  Chain(ComputeDevice& device, std::int64_t moments, Place place)
      : device_(device),
        queue_(device.make_queue()),
        begin_(device.make_event()),
        end_(device.make_event()),
        memory_(device.allocate(moments * std::int64_t{sizeof(std::int64_t)}, place)),
        count_(moments) {
    mark_all();
    device.synchronize();  // kernels are loaded
    graph_ = device.capture(*queue_, [&] { mark_all(); });
  }

  // Marks all moments, one after another.
  Seconds run(bool captured) {
    queue_->record(*begin_);
    captured&& graph_ != nullptr ? graph_->launch(*queue_) : mark_all();
    queue_->record(*end_);
    device_.synchronize();
    return device_.elapsed(*begin_, *end_);
  }
  Seconds median_of(int times, bool captured) {
    std::vector<Seconds> all;
    for (int i = 0; i < times; ++i) all.push_back(run(captured));
    return median(std::move(all));
  }
  std::vector<std::int64_t> moments() const {
    std::vector<std::int64_t> result(static_cast<std::size_t>(count_));
    device_.copy_now(result.data(), memory_->data(), memory_->bytes());
    return result;
  }

 private:
  void mark_all() {
    for (std::int64_t i = 0; i < count_; ++i)
      device_.mark(*queue_, reinterpret_cast<std::int64_t*>(memory_->data()) + i);
  }

  ComputeDevice& device_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Event> begin_, end_;
  std::unique_ptr<Memory> memory_;
  std::int64_t count_;
  std::unique_ptr<Graph> graph_;
};

Seconds nanoseconds(std::int64_t count) {
  return Seconds(1e-9 * static_cast<double>(count));
}

std::string microseconds(Seconds time) {
  return fmt::format("{:.3f} us", 1e6 * time.value());
}

// Queues of products and of an exchange that begin together.
class Contest {
 public:
  Contest(ComputeDevice& device, std::int64_t size, int blocks) : device_(device) {
    for (auto& matrix : matrices_) matrix = device.allocate(2 * size * size, Place::Device);
    const auto matrix = [&](std::size_t i) {
      return Matrix<Bf16>(reinterpret_cast<Bf16*>(matrices_[i]->data()), size, size);
    };
    product_ = product<Bf16>(Matrix<const Bf16>(matrix(0)), Matrix<const Bf16>(matrix(1)), matrix(2));
    fill_matrices();
    const Piece piece{to_->data(), from_->data(), bytes};
    device.copy_now(pieces_->data(), &piece, sizeof piece);
    exchange_.hold.moments = moments();
    exchange_.hold.finish = Hold::first_op;
    exchange_.hold.tolerance = ComputeDevice::nanoseconds(Seconds(1));
    exchange_.pieces = reinterpret_cast<const Piece*>(pieces_->data());
    exchange_.count = 1;
    exchange_.bytes = bytes;
    exchange_.done = reinterpret_cast<std::int32_t*>(done_->data());
    exchange_.blocks = blocks;
    high_->fill(done_->data(), 0, done_->bytes());
    high_->fill(moments_->data(), 0, moments_->bytes());
    busy_->multiply(product_);
    device.synchronize();
  }

  // The time of all products, beside an exchange of the given time unless that is 0.
  Seconds products(Seconds exchange) {
    device_.mark(*high_, moments());
    high_->record(*begin_);
    busy_->wait(*begin_);
    // The exchange's blocks have their places before the first product looks for some.
    device_.hold(*busy_, moments(), Seconds(3e-4));
    if (exchange > Seconds(0)) {
      exchange_.hold.until = ComputeDevice::nanoseconds(exchange);
      device_.exchange(*high_, exchange_);
    }
    high_->record(*exchange_ends_);
    busy_->record(*products_begin_);
    for (int i = 0; i < count; ++i) busy_->multiply(product_);
    busy_->record(*products_end_);
    device_.synchronize();
    return device_.elapsed(*products_begin_, *products_end_);
  }
  Seconds exchange_ended() const { return device_.elapsed(*begin_, *exchange_ends_); }
  Seconds products_ended() const { return device_.elapsed(*begin_, *products_end_); }

  static constexpr int count = 20;

 private:
  static constexpr std::int64_t bytes = 16 << 20;

  std::int64_t* moments() const { return reinterpret_cast<std::int64_t*>(moments_->data()); }

  // Random numbers, the same again and again: a GPU that multiplies equal ones draws less power and runs faster.
  void fill_matrices() {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<Bf16> noise(1 << 20);
    for (Bf16& value : noise) value = bf16(number(random));
    const auto all = static_cast<std::int64_t>(noise.size() * sizeof(Bf16));
    for (const auto& matrix : matrices_)
      for (std::int64_t at = 0; at < matrix->bytes(); at += all)
        device_.copy_now(matrix->data() + at, noise.data(), std::min(all, matrix->bytes() - at));
  }

  ComputeDevice& device_;
  std::unique_ptr<Queue> busy_ = device_.make_queue(), high_ = device_.make_queue(Priority::High);
  std::unique_ptr<Event> begin_ = device_.make_event(), exchange_ends_ = device_.make_event(),
                         products_begin_ = device_.make_event(), products_end_ = device_.make_event();
  std::unique_ptr<Memory> matrices_[3];
  std::unique_ptr<Memory> from_ = device_.allocate(bytes, Place::Device), to_ = device_.allocate(bytes, Place::Device),
                          pieces_ = device_.allocate(sizeof(Piece), Place::Device),
                          moments_ = device_.allocate(3 * sizeof(std::int64_t), Place::Device),
                          done_ = device_.allocate(sizeof(std::int32_t), Place::Device);
  Product product_;
  HeldExchange exchange_;
};

}  // namespace

ClockFigures measure_clock(ComputeDevice& device) {
  ClockFigures figures;
  Chain many(device, 10000, Place::Device), thousand(device, 1000, Place::Device), stamps(device, 1000, Place::Host),
      one(device, 1, Place::Device);
  many.run(true);
  std::vector<std::int64_t> moments = many.moments();
  std::ranges::sort(moments);
  std::int64_t divisor = 0, smallest = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const std::int64_t step = moments[i] - moments[i - 1];
    divisor = std::gcd(divisor, step);
    if (step > 0 && (smallest == 0 || step < smallest)) smallest = step;
  }
  figures.resolution = nanoseconds(divisor);
  figures.smallest_step = nanoseconds(smallest);
  figures.mark = thousand.median_of(5, false) / 1000;
  figures.captured_mark = thousand.median_of(5, true) / 1000;
  stamps.run(true);
  const std::vector<std::int64_t> stamped = stamps.moments();
  std::vector<Seconds> empty;
  for (std::size_t i = 0; i < stamped.size(); i += 2) empty.push_back(nanoseconds(stamped[i + 1] - stamped[i]));
  figures.empty_op = median(std::move(empty));
  figures.graph_launch = one.median_of(200, true);
  figures.launch = one.median_of(200, false);
  return figures;
}

std::string lines(const ClockFigures& f) {
  return fmt::format(
      "clock of marks, resolution (all steps are a multiple): {}\n"
      "clock of marks, smallest step of 10,000 marks: {}\n"
      "mark, in a chain of 1,000 launches: {}\n"
      "mark, in a chain of 1,000 in a graph: {}\n"
      "empty op, from its first stamp to its second, in a graph: {}\n"
      "launch of a graph of one small kernel, from event to event: {}\n"
      "launch of one small kernel, from event to event: {}\n",
      microseconds(f.resolution), microseconds(f.smallest_step), microseconds(f.mark), microseconds(f.captured_mark),
      microseconds(f.empty_op), microseconds(f.graph_launch), microseconds(f.launch));
}

ProductsBesideExchange measure_beside_exchange(ComputeDevice& device, std::int64_t size, int blocks) {
  Contest contest(device, size, blocks);
  ProductsBesideExchange figures{Seconds(1e9), Seconds(1e9), {}, {}};
  constexpr int tries = 5;
  for (int i = 0; i < tries; ++i) figures.alone = std::min(figures.alone, contest.products(Seconds(0)));
  // Products may take twice as long, and they begin .3 ms later.
  const Seconds exchange = 3 * figures.alone + Seconds(1e-3);
  for (int i = 0; i < tries; ++i) {
    const Seconds beside = contest.products(exchange);
    if (beside >= figures.beside) continue;
    figures.beside = beside;
    figures.exchange = contest.exchange_ended();
    figures.products = contest.products_ended();
  }
  figures.alone = figures.alone / Contest::count;
  figures.beside = figures.beside / Contest::count;
  return figures;
}

std::string line(const ProductsBesideExchange& f) {
  return fmt::format(
      "product alone {}, beside an exchange {}, kept speed {:.3f} (exchange until {}, products until {})\n",
      microseconds(f.alone), microseconds(f.beside), f.kept(), microseconds(f.exchange), microseconds(f.products));
}

}  // namespace dovetail::test
