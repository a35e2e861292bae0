// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_memory.hpp"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "exec/device/device_op.hpp"
#include "exec/reference/in_parallel.hpp"
#include "exec/step/adam_rule.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/operands.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::exec {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

template <class Scalar>
std::vector<std::byte> encode_as(const Values& values) {
  std::vector<Scalar> numbers;
  numbers.reserve(values.size());
  for (double x : values) numbers.push_back(narrow<Scalar>(static_cast<Wide<Scalar>>(x)));
  std::vector<std::byte> bytes(numbers.size() * sizeof(Scalar));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

template <class Scalar>
Values decode_as(const std::vector<std::byte>& bytes) {
  std::vector<Scalar> numbers(bytes.size() / sizeof(Scalar));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  Values values;
  values.reserve(numbers.size());
  for (Scalar x : numbers) values.push_back(wide(x));
  return values;
}

// Few enough to stay in a core's cache; and what is copied to a device at once.
constexpr std::int64_t encoded_at_once = 1 << 14, copied_at_once = 1 << 22;
constexpr std::int64_t repeated_after = 1 << 20;  // elements: more than a GPU's multiprocessors hold at once

}  // namespace

IdVector<TensorId, Stored> stored_tensors(const Schedule& schedule, Stored scalar) {
  IdVector<TensorId, Stored> stored;
  for (const Tensor& t : schedule.tensors) stored.push_back(stored_as(t, scalar));
  for (const Op& op : schedule.ops) {
    if (!entry_of(op.kind).exchanges_rows && op.kind != OpKind::RestoreDispatch) continue;
    for (TensorId id : schedule.writes_of(op)) stored[id] = stored[schedule.reads_of(op).front()];
  }
  return stored;
}

ArenaLayout arena_layout(const Schedule& schedule, const IdVector<TensorId, Stored>& stored, int rank_class) {
  const Blocks blocks = memory_blocks(schedule);
  IdVector<BlockId, std::int64_t> sizes(blocks.all.size()), offsets(blocks.all.size(), -1);
  for (const TensorId i : schedule.tensors.ids()) {
    std::int64_t& size = sizes[blocks.of_tensor[i]];
    size = std::max(size, schedule.tensors[i].elements * size_of(stored[i]));
  }
  ArenaLayout layout;
  for (const BlockId i : blocks.all.ids()) {
    const Tensor& first = schedule.tensors[blocks.all[i].first];
    if (first.rank_class != rank_class) continue;
    std::int64_t& end = first.place == Place::Host ? layout.host_bytes : layout.device_bytes;
    offsets[i] = end;
    end += aligned(sizes[i]);
  }
  for (const BlockId block : blocks.of_tensor) layout.offsets.push_back(offsets[block]);
  return layout;
}

std::vector<std::byte> encode(const Values& values, Stored stored) {
  check(stored != Stored::Fp8, "messages alone are fp8");
  return stored == Stored::Double  ? encode_as<double>(values)
         : stored == Stored::Float ? encode_as<float>(values)
                                   : encode_as<Bf16>(values);
}

Values decode(const std::vector<std::byte>& bytes, Stored stored) {
  check(stored != Stored::Fp8, "messages alone are fp8");
  return stored == Stored::Double  ? decode_as<double>(bytes)
         : stored == Stored::Float ? decode_as<float>(bytes)
                                   : decode_as<Bf16>(bytes);
}

ModelData rounded(ModelData data, Stored stored) {
  const auto round = [stored](Values& values) { values = decode(encode(values, stored), stored); };
  for (LayerWeights& w : data.layers)
    for (const Weight weight : all_weights) round(w.*weight);
  for (Values* values : {&data.ends.embedding, &data.ends.head, &data.ends.norm}) round(*values);
  round(data.input);
  round(data.output_gradient);
  return data;
}

DeviceMemory::DeviceMemory(ComputeDevice& device, const Experiment& experiment, const Schedule& schedule,
                           const ModelData& data, int rank, Stored scalar)
    : device_(device),
      schedule_(schedule),
      rank_(rank),
      wide_(scalar == Stored::Double ? Stored::Double : Stored::Float),
      stored_(stored_tensors(schedule, scalar)),
      layout_(arena_layout(schedule, stored_, schedule.class_of_rank(rank))),
      arena_(device.allocate(layout_.device_bytes, Place::Device)),
      pinned_(device.allocate(layout_.host_bytes, Place::Host)),
      adam_scales_(device.allocate(2 * size_of(wide_), Place::Device)),
      users_(users_until_release(experiment, schedule, schedule.class_of_rank(rank))),
      released_(schedule.ops.size()) {
  for (const TensorId i : schedule.tensors.ids()) {
    Memory& memory = schedule.tensors[i].place == Place::Host ? *pinned_ : *arena_;
    tensors_.push_back(layout_.offsets[i] < 0 ? nullptr : memory.data() + layout_.offsets[i]);
  }
  const auto queue = device.make_queue();  // what nobody writes is zero, so that speed is that of finite numbers
  queue->fill(arena_->data(), 0, layout_.device_bytes);
  queue->fill(pinned_->data(), 0, layout_.host_bytes);
  device.synchronize();
  for (const TensorId i : users_.ids())
    if (!users_[i].empty()) released_[users_[i].back()].push_back(i);
  upload_initial(experiment, data, rank);
}

void DeviceMemory::upload_initial(const Experiment& experiment, const ModelData& data, int rank) {
  const IdVector<TensorId, std::vector<Master>> masters = master_weights(rank);
  for (const TensorId i : schedule_.tensors.ids())
    if (tensors_[i] != nullptr && starts_at_zero(schedule_.tensors[i]))
      initial_.push_back({i, tensors_[i], nullptr, bytes_of(i)});
  for (const TensorId i : schedule_.tensors.ids()) {
    const Tensor& t = schedule_.tensors[i];
    if (tensors_[i] == nullptr || starts_at_zero(t)) continue;
    const Numbers numbers = initial_values(experiment, t, data, rank);
    if (!numbers) continue;
    // Nobody looks at weights that are drawn later, and a GPU copies them faster than a host draws them. Gates are
    // drawn whole, since they decide where rows go.
    const bool repeats = data.drawn_later && is_trained(t) && t.kind != TensorKind::RouterWeights;
    const auto upload = [&](RowRange elements, Stored stored, void* to, std::optional<Stored> by_way) {
      const std::int64_t distinct = repeats ? std::min(elements.size(), repeated_after) : elements.size();
      upload_initial(numbers, elements, distinct, stored, {i, to, nullptr, 0}, by_way);
    };
    upload({0, t.elements}, stored_[i], tensors_[i], {});
    for (const Master& m : masters[i]) upload(m.elements, m.stored, m.at, stored_[i]);
  }
}

// Elements of the numbers, rounded to another format before if one is given: the first `distinct` of them over and
// over. Piece by piece, since a large layer in double would fill the host's memory.
void DeviceMemory::upload_initial(const Numbers& numbers, RowRange elements, std::int64_t distinct, Stored stored,
                                  const Initial& initial, std::optional<Stored> by_way) {
  const std::int64_t size = size_of(stored);
  kept_.push_back(device_.allocate(elements.size() * size, Place::Device));
  initial_.push_back({initial.tensor, initial.to, kept_.back()->data(), elements.size() * size});
  std::vector<std::byte> encoded;
  for (std::int64_t done = 0; done < distinct; done += copied_at_once) {
    const std::int64_t count = std::min(copied_at_once, distinct - done);
    encoded.resize(static_cast<std::size_t>(count * size));
    in_parallel(count, [&](std::int64_t from, std::int64_t last) {
      Values values;
      for (; from < last; from += std::ssize(values)) {
        values.resize(static_cast<std::size_t>(std::min(encoded_at_once, last - from)));
        numbers(elements.first + done + from, values);
        if (by_way) values = decode(encode(values, *by_way), *by_way);
        std::ranges::copy(encode(values, stored), encoded.begin() + from * size);
      }
    });
    device_.copy_now(kept_.back()->data() + done * size, encoded.data(), std::ssize(encoded));
  }
  repeat(*kept_.back(), distinct * size);
}

// Fills the memory with what its first bytes hold.
void DeviceMemory::repeat(const Memory& memory, std::int64_t first_bytes) const {
  if (first_bytes == memory.bytes()) return;
  const auto queue = device_.make_queue();
  for (std::int64_t done = first_bytes; done < memory.bytes(); done = std::min(2 * done, memory.bytes()))
    queue->copy(memory.data() + done, memory.data(), std::min(done, memory.bytes() - done));
  device_.synchronize();
}

IdVector<TensorId, std::vector<DeviceMemory::Master>> DeviceMemory::master_weights(int rank) const {
  IdVector<TensorId, std::vector<Master>> masters(tensors_.size());
  for (const Op& op : schedule_.ops) {
    if (op.kind != OpKind::Update || schedule_.class_of(op) != schedule_.class_of_rank(rank)) continue;
    const OpRoles update{schedule_, op};
    const TensorId state = update.write_id(TensorKind::OptimizerState);
    const UpdatedParts parts = updated_parts(update, rank % schedule_.groups.stage_ranks());
    if (schedule_.tensors[state].elements < 3 * parts.total) continue;
    const std::int64_t size = size_of(stored_[state]);
    auto* const first = static_cast<std::byte*>(tensors_[state]) + 2 * parts.total * size;
    for (const UpdatedPart& part : parts.all)
      masters[part.weights].push_back({part.elements, first + part.state * size, stored_[state]});
  }
  return masters;
}

std::int64_t DeviceMemory::bytes_of(TensorId id) const {
  return schedule_.tensors[id].elements * size_of(stored_[id]);
}

void DeviceMemory::prepare(Queue& queue, bool poison) {
  set_training_step(1);
  if (poison) {  // all bits set: a NaN in every format
    queue.fill(arena_->data(), 0xff, layout_.device_bytes);
    queue.fill(pinned_->data(), 0xff, layout_.host_bytes);
  }
  for (const Initial& i : initial_) write(queue, i);
}

void DeviceMemory::prepare_training(Queue& queue, const Experiment& experiment, int step, const ModelData& batch) {
  set_training_step(step);
  for (const Initial& i : initial_) {
    const Tensor& t = schedule_.tensors[i.tensor];
    if (is_trained(t) && step > 1) continue;
    if (t.kind != TensorKind::Tokens) {
      write(queue, i);
      continue;
    }
    Values words(static_cast<std::size_t>(t.elements));
    initial_values(experiment, t, batch, rank_)(0, words);
    const std::vector<std::byte> encoded = encode(words, stored_[i.tensor]);
    device_.copy_now(i.to, encoded.data(), std::ssize(encoded));
  }
}

void DeviceMemory::write(Queue& queue, const Initial& initial) const {
  if (initial.from == nullptr)
    queue.fill(initial.to, 0, initial.bytes);
  else
    queue.copy(initial.to, initial.from, initial.bytes);
}

void DeviceMemory::set_training_step(int step) {
  if (std::exchange(training_step_, step) == step) return;
  const auto upload = [&](auto scales) { device_.copy_now(adam_scales_->data(), &scales, sizeof(scales)); };
  if (wide_ == Stored::Double)
    upload(AdamScales<double>(step));
  else
    upload(AdamScales<float>(step));
}

Values DeviceMemory::values(TensorId id) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(id)));
  device_.copy_now(bytes.data(), tensors_[id], std::ssize(bytes));
  return decode(bytes, stored_[id]);
}

}  // namespace dovetail::exec
