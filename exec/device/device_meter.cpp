// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "exec/device/attention_heads.hpp"
#include "exec/device/device_memory.hpp"
#include "exec/device/device_run.hpp"
#include "exec/device/order_bodies.hpp"
#include "exec/device/recorder.hpp"
#include "exec/device/tensor_bodies.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// Queues begin together after it: by then all work has been given to them.
constexpr Seconds head_start{.001};

// A queue with the operands of one probe, several times over.
struct Lane {
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Event> done;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<DeviceWork> works;                 // one after the other, from the first again
  std::map<int, std::unique_ptr<Graph>> graphs;  // by repetitions; null: the device has none

  void issue(int times) {
    for (int i = 0; i < times; ++i) works[static_cast<std::size_t>(i) % works.size()](*queue);
  }
};

// To pieces at the front those whose numbers leave no remainder when divided by the stride, and so on: as routing
// scatters tokens, and as a transposition of blocks does pieces. By place: which piece.
std::vector<std::int64_t> in_strides(std::int64_t pieces) {
  constexpr std::int64_t stride = 8;
  std::vector<std::int64_t> order;
  for (std::int64_t first = 0; first < std::min(stride, pieces); ++first)
    for (std::int64_t i = first; i < pieces; i += stride) order.push_back(i);
  return order;
}

// Adds works to a lane.
template <class Scalar>
class LaneMaker {
 public:
  LaneMaker(ComputeDevice& device, const Probe& probe, Lane& lane) : device_(device), probe_(probe), lane_(lane) {}

  void make() {
    upload_noise();
    const std::int64_t copies = std::clamp<std::int64_t>(2 * device_.cache_bytes() / operand_bytes() + 1, 1, 64);
    for (std::int64_t i = 0; i < copies; ++i) add();
    lane_.issue(static_cast<int>(lane_.works.size()));  // libraries and kernels are loaded before any capture
    device_.synchronize();
  }

 private:
  static constexpr std::int64_t size = sizeof(Scalar);

  std::int64_t operand_bytes() const {
    const Probe& p = probe_;
    const std::int64_t elements = p.kind == ProbeKind::Gemm
                                      ? p.batch * (p.rows * p.inner + p.inner * p.columns + p.rows * p.columns)
                                  : p.heads > 0 ? attention_chunk().scores()
                                                : 2 * p.rows * p.columns;  // at least
    return std::max<std::int64_t>(elements * size, 1);
  }

  void add() {
    switch (probe_.kind) {
      case ProbeKind::Gemm:
        return add_gemm();
      case ProbeKind::Encode:
      case ProbeKind::Decode:
        return add_order();
      case ProbeKind::StridedCopy:
        return add_copy();
      case ProbeKind::HostCopy:
      case ProbeKind::CopyToHost:
      case ProbeKind::CopyFromHost:
        return add_host_copies();
      case ProbeKind::AttentionForward:
      case ProbeKind::AttentionBackward:
      case ProbeKind::AttentionBoth:
        return add_attention();
      case ProbeKind::Exchange:
        return add_exchange();
      case ProbeKind::Collective:
        break;
    }
    throw InternalError("a device alone has no collectives");
  }

  void add_gemm() {
    const Probe& p = probe_;
    const bool left = p.layout == ProductLayout::LeftTransposed, right = p.layout == ProductLayout::RightTransposed;
    const Matrix<const Scalar> a(tensor(p.batch * p.rows * p.inner), left ? p.inner : p.rows, left ? p.rows : p.inner);
    const Matrix<const Scalar> b(tensor(p.batch * p.inner * p.columns), right ? p.columns : p.inner,
                                 right ? p.inner : p.columns);
    const Matrix<Scalar> c(tensor(p.batch * p.rows * p.columns), p.rows, p.columns);
    lane_.works.push_back(
        [product = product<Scalar>(Factor<Scalar>(a, left), Factor<Scalar>(b, right), c, Into::Overwrite,
                                   {p.batch, p.rows * p.inner, p.inner * p.columns, p.rows * p.columns})](
            Queue& queue) { queue.multiply(product); });
  }

  LayerShape attention_shape() const {
    LayerShape shape;
    shape.samples = probe_.batch;
    shape.sequence = probe_.rows;
    shape.heads = probe_.heads;
    shape.kv_heads = probe_.kv_heads;
    shape.head_size = probe_.columns;
    return shape;
  }
  AttentionChunk attention_chunk() const { return {attention_shape(), {0, probe_.rows}, score_bytes<Scalar>}; }

  // The executor's launches between the projections, of all sequences; contents do not matter.
  void add_attention() {
    const LayerShape shape = attention_shape();
    const AttentionChunk chunk = attention_chunk();
    const std::int64_t tokens = shape.sequence_tokens(), width = shape.projected_width();
    Scalar* const projected = tensor(tokens * width);
    const Matrix<Scalar> contexts(tensor(tokens * shape.context_width()), tokens, shape.context_width());
    const auto wide = [&](std::int64_t count) {
      return reinterpret_cast<Wide<Scalar>*>(
          memory(count * static_cast<std::int64_t>(sizeof(Wide<Scalar>)), Place::Device));
    };
    Wide<Scalar>* const log_sum_exp = wide(tokens * shape.heads);
    const AttentionScratch<Scalar> scratch{wide(chunk.scores()), tensor(chunk.scores())};
    Recorder forward(nullptr, nullptr), backward(nullptr, nullptr);
    const ProjectionColumns<const Scalar> qkv(shape, projected);
    record_heads(forward, chunk, qkv, scratch, log_sum_exp, contexts);
    if (probe_.kind != ProbeKind::AttentionForward) {
      Scalar* const gradients = tensor(tokens * width);
      const AttentionBackwardScratch<Scalar> more{scratch.scores, wide(chunk.scores()), scratch.probabilities,
                                                  tensor(chunk.scores())};
      backward.zero(gradients, tokens * width);
      record_heads_backward(backward, chunk, AttentionForward<Scalar>{qkv, log_sum_exp}, Matrix<const Scalar>(contexts),
                            more, ProjectionColumns<Scalar>(shape, gradients));
    }
    std::vector<DeviceWork> works = forward.take();
    if (probe_.kind == ProbeKind::AttentionBackward) {
      for (const DeviceWork& work : works) work(*lane_.queue);  // leaves what the backward pass reads
      works.clear();
    }
    std::ranges::move(backward.take(), std::back_inserter(works));
    lane_.works.push_back([works = std::move(works)](Queue& queue) {
      for (const DeviceWork& work : works) work(queue);
    });
  }

  // Its deadline has passed when it begins, so that nothing holds it back.
  void add_exchange() {
    const std::int64_t elements = probe_.rows * probe_.columns;
    const std::vector<Piece> pieces{{reinterpret_cast<std::byte*>(tensor(elements)),
                                     reinterpret_cast<const std::byte*>(tensor(elements)), elements * size}};
    HeldExchange exchange;
    exchange.hold.moments = const_cast<std::int64_t*>(table(std::vector<std::int64_t>(3)));
    exchange.pieces = table(pieces);
    exchange.count = std::ssize(pieces);
    exchange.bytes = pieces.front().bytes;
    exchange.done = const_cast<std::int32_t*>(table(std::vector<std::int32_t>(1)));
    exchange.blocks = probe_.blocks;
    lane_.works.push_back([&device = device_, exchange](Queue& queue) { device.exchange(queue, exchange); });
  }

  // All that the executor launches for an encode or decode of one expert.
  void add_order() {
    const std::int64_t rows = probe_.rows;
    const SlotShape shape{probe_.columns, rows, 0};
    const std::vector<std::int64_t> order = in_strides(rows);
    std::vector<Wide<Scalar>> entries(static_cast<std::size_t>(3 * rows), 1);
    for (std::size_t place = 0; place < order.size(); ++place) {
      const auto token = static_cast<std::size_t>(order[place]);
      entries[3 * token] = static_cast<Wide<Scalar>>(token);
      entries[3 * token + 1] = static_cast<Wide<Scalar>>(place);
    }
    const auto* const routing = table(entries);
    const auto* const first_block = table(std::vector<std::int32_t>{0});
    Scalar* const from = tensor(rows * probe_.columns);
    Scalar* const to = tensor(rows * probe_.columns);
    if (probe_.kind == ProbeKind::Encode) {
      const std::int64_t slots = rows * static_cast<std::int64_t>(sizeof(std::int32_t));
      auto* const slot_entry = reinterpret_cast<std::int32_t*>(memory(slots, Place::Device));
      lane_.works.push_back([=](Queue& queue) {
        queue.fill(slot_entry, 0xff, slots);
        launch(queue, rows, InvertRouting<Wide<Scalar>>{routing, slot_entry});
        launch(queue, rows, FillSlots<Scalar>{shape, from, routing, slot_entry, first_block, false, 0, rows, to});
      });
    } else {
      const auto* const chunk = table(std::vector<ChunkView<Scalar>>{{0, rows, from, first_block, 1}});
      const Scalar* const residual = tensor(rows * probe_.columns);
      lane_.works.push_back([=](Queue& queue) {
        launch(queue, rows, CollectSlots<Scalar>{shape, {1}, residual, routing, true, chunk, 1, to});
      });
    }
  }

  void add_copy() {
    const std::int64_t pieces = probe_.rows, piece = probe_.columns;
    const auto* const order = table(in_strides(pieces));
    const Scalar* const from = tensor(pieces * piece);
    Scalar* const to = tensor(pieces * piece);
    lane_.works.push_back([=](Queue& queue) {
      if (pieces == 1)
        queue.copy(to, from, piece * size);
      else
        launch(queue, pieces, MoveRows<Scalar>{from, to, piece, order, nullptr});
    });
  }

  void add_host_copies() {
    const std::int64_t bytes = probe_.rows * probe_.columns * size;
    Scalar* const here = tensor(probe_.rows * probe_.columns);
    void* const there = memory(bytes, Place::Host);
    if (probe_.kind != ProbeKind::CopyFromHost)
      lane_.works.push_back([=](Queue& queue) { queue.copy(there, here, bytes); });
    if (probe_.kind != ProbeKind::CopyToHost)
      lane_.works.push_back([=](Queue& queue) { queue.copy(here, there, bytes); });
  }

  std::byte* memory(std::int64_t bytes, Place place) {
    lane_.memory.push_back(device_.allocate(bytes, place));
    return lane_.memory.back()->data();
  }

  template <class Item>
  const Item* table(const std::vector<Item>& items) {
    const auto bytes = static_cast<std::int64_t>(items.size() * sizeof(Item));
    std::byte* const to = memory(bytes, Place::Device);
    device_.copy_now(to, items.data(), bytes);
    return reinterpret_cast<const Item*>(to);
  }

  // Random numbers: a GPU that multiplies zeros draws less power and runs faster.
  void upload_noise() {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> number(-1, 1);
    Values values(1 << 16);
    for (double& value : values) value = number(random);
    const std::vector<std::byte> bytes = encode(values, StoredOf<Scalar>::value);
    noise_bytes_ = std::ssize(bytes);
    noise_ = memory(noise_bytes_, Place::Device);
    device_.copy_now(noise_, bytes.data(), noise_bytes_);
  }

  Scalar* tensor(std::int64_t elements) {
    const std::int64_t bytes = elements * size;
    std::byte* const first = memory(bytes, Place::Device);
    std::int64_t filled = std::min(noise_bytes_, bytes);
    lane_.queue->copy(first, noise_, filled);
    for (; filled < bytes; filled = std::min(2 * filled, bytes))  // each copies all that there is
      lane_.queue->copy(first + filled, first, std::min(filled, bytes - filled));
    return reinterpret_cast<Scalar*>(first);
  }

  ComputeDevice& device_;
  const Probe& probe_;
  Lane& lane_;
  std::byte* noise_ = nullptr;
  std::int64_t noise_bytes_ = 0;
};

void make_works(ComputeDevice& device, const Probe& probe, Lane& lane) {
  switch (stored_as(probe.dtype)) {
    case Stored::Double:
      return LaneMaker<double>(device, probe, lane).make();
    case Stored::Float:
      return LaneMaker<float>(device, probe, lane).make();
    default:
      return LaneMaker<Bf16>(device, probe, lane).make();
  }
}

class DeviceMeter final : public Meter {
 public:
  explicit DeviceMeter(ComputeDevice& device)
      : device_(device),
        origin_(device.make_queue()),
        begin_(device.make_event()),
        moment_(device.allocate(sizeof(std::int64_t), Place::Device)) {}

  int ranks() const override { return 1; }
  bool oversubscribed(int) const override { return false; }

  std::vector<Elapsed> run(std::span<const Repeated> work) override {
    prepare(work);
    for (std::size_t i = 0; i < work.size(); ++i)
      if (work[i].times > 0) capture(lanes_[i], work[i].times);
    auto* const moment = reinterpret_cast<std::int64_t*>(moment_->data());
    device_.mark(*origin_, moment);
    device_.hold(*origin_, moment, head_start);
    origin_->record(*begin_);
    for (std::size_t i = 0; i < work.size(); ++i)
      if (work[i].times > 0) start(lanes_[i], work[i].times);
    const ClockReading clock = clock_during(work);
    device_.synchronize();
    longest_ = Seconds(0);
    std::vector<Elapsed> elapsed(work.size());
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (work[i].times == 0) continue;
      elapsed[i] = {device_.elapsed(*begin_, *lanes_[i].done), {}, clock};
      longest_ = std::max(longest_, elapsed[i].time);
    }
    return elapsed;
  }

 private:
  void prepare(std::span<const Repeated> work) {
    if (std::ranges::equal(work, probes_, {}, &Repeated::probe)) return;
    longest_ = Seconds(0);
    lanes_.clear();
    probes_.clear();
    for (const Repeated& each : work) {
      Lane lane;
      lane.queue = device_.make_queue(each.probe.kind == ProbeKind::Exchange ? Priority::High : Priority::Normal,
                                      multiprocessors_for(each.probe));
      lane.done = device_.make_event();
      make_works(device_, each.probe, lane);
      lanes_.push_back(std::move(lane));
      probes_.push_back(each.probe);
    }
  }

  int multiprocessors_for(const Probe& probe) const {
    return probe.carve_out == 0 ? 0 : std::max(0, device_.multiprocessors() - probe.carve_out);
  }

  // The clock in the middle of the work, which is expected to take so long.
  ClockReading clock_during(std::span<const Repeated> work) {
    if (longest_ == Seconds(0) || steady_time() - clock_read_ < between_clock_readings) return {};
    clock_read_ = steady_time();
    std::this_thread::sleep_for(std::chrono::duration<double>(.5 * longest_.value()));
    for (std::size_t i = 0; i < work.size(); ++i)
      if (work[i].times > 0 && !device_.reached(*lanes_[i].done)) return device_.clock();
    return {};
  }

  void capture(Lane& lane, int times) {
    if (!lane.graphs.contains(times)) lane.graphs[times] = device_.capture(*lane.queue, [&] { lane.issue(times); });
  }

  void start(Lane& lane, int times) {
    lane.queue->wait(*begin_);
    if (Graph* const graph = lane.graphs.at(times).get())
      graph->launch(*lane.queue);
    else
      lane.issue(times);
    lane.queue->record(*lane.done);
  }

  ComputeDevice& device_;
  std::unique_ptr<Queue> origin_;
  std::unique_ptr<Event> begin_;
  std::unique_ptr<Memory> moment_;
  std::vector<Probe> probes_;
  std::vector<Lane> lanes_;
  Seconds longest_;     // of the last run of these probes
  Seconds clock_read_;  // when it was
};

}  // namespace

std::unique_ptr<Meter> make_device_meter(ComputeDevice& device) {
  return std::make_unique<DeviceMeter>(device);
}

}  // namespace dovetail::exec
