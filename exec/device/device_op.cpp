// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_op.hpp"

#include <algorithm>
#include <cmath>

#include "exec/device/tensor_bodies.hpp"
#include "exec/device/wire_bodies.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_work.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::exec {
namespace {

// To and from pinned memory.
template <class Scalar>
void record_copy(const DeviceOp<Scalar>& op) {
  const std::int64_t count = op.read_tensor(roles::kept).elements;
  check(op.write_tensor(roles::kept).elements == count, "a copy of another size");
  op.out.copy(op.write(roles::kept), op.read(roles::kept), count * static_cast<std::int64_t>(sizeof(Scalar)));
}

// Gradients of weights that another stage has too.
template <class Scalar>
void record_shared_gradients(const DeviceOp<Scalar>& op) {
  const Scalar* from = op.read(TensorKind::SharedGradient);
  for (const auto& [id, range] : exchanged_ranges(op.schedule, op.op, op.rank)) {
    Scalar* const own = op.data(id) + range.first;
    record_sum<Scalar>(op.out, own, from, own, range.size());
    from += range.size();
  }
}

// The result may be the first of the parts.
template <class Scalar>
void record_residual(const DeviceOp<Scalar>& op) {
  if (op.find_read(TensorKind::SharedGradient).exists()) return record_shared_gradients(op);
  const std::int64_t count = op.shape.tokens * op.shape.hidden;
  Scalar* const sum = tokens_of(op, op.result());
  const Scalar* so_far = nullptr;
  for (TensorId part : op.reads()) {
    const Scalar* const from = tokens_of(op, part);
    if (so_far != nullptr) record_sum<Scalar>(op.out, so_far, from, sum, count);
    so_far = so_far == nullptr ? from : sum;
  }
  if (so_far != sum) op.out.copy(sum, so_far, count * static_cast<std::int64_t>(sizeof(Scalar)));
}

template <class Scalar>
void record_compress(const DeviceOp<Scalar>& op) {
  const Tensor& compressed = op.write_tensor(roles::compressed);
  const Scalar* const rows = op.read(roles::rows);
  const std::int64_t hidden = op.shape.hidden;
  if (compressed.dtype == DType::Bf16)
    return launch_packed<Bf16>(op.out, compressed.elements, [&]<int size>() {
      return ToBf16<Scalar, size>{rows, op.template write<Bf16>(roles::compressed)};
    });
  op.out.launch(compressed.elements / wire_row_elements(Wire::Fp8, hidden),
                CompressFp8<Scalar>{rows, op.template write<std::uint8_t>(roles::compressed), hidden});
}

template <class Scalar>
void record_decompress(const DeviceOp<Scalar>& op) {
  const Tensor& compressed = op.read_tensor(roles::compressed);
  Scalar* const rows = op.write(roles::rows);
  const std::int64_t hidden = op.shape.hidden;
  if (compressed.dtype == DType::Bf16)
    return launch_packed<Bf16>(op.out, compressed.elements, [&]<int size>() {
      return FromBf16<Scalar, size>{op.template read<Bf16>(roles::compressed), rows};
    });
  op.out.launch(compressed.elements / wire_row_elements(Wire::Fp8, hidden),
                DecompressFp8<Scalar>{op.template read<std::uint8_t>(roles::compressed), rows, hidden});
}

template <class Scalar>
void record_gradient_norm(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  constexpr std::int64_t segment = SquareParts<Scalar>::segment;
  const auto shares = gradient_shares(op.schedule, op.schedule.class_of(op.op), op.rank);
  const auto parts_of = [](const GradientShare& share) { return (share.elements.size() + segment - 1) / segment; };
  std::int64_t all = 0, done = 0;
  for (const GradientShare& share : shares) all += parts_of(share);
  auto* const parts = op.out.template scratch<Number>(all);
  for (const GradientShare& share : shares) {
    const RowRange at = share.elements;
    const bool packs = at.first % pack_size<Scalar> == 0 && at.size() % pack_size<Scalar> == 0;
    op.out.launch(parts_of(share), SquareParts<Scalar>{op.data(share.tensor) + at.first, at.size(), packs,
                                                       1 / static_cast<Number>(share.copies), parts + done});
    done += parts_of(share);
  }
  op.out.launch(1, AddSquares<Number>{parts, all, op.template write<Number>(TensorKind::GradientSquares)});
}

// States: means, variances and, of
// bf16, the weights in full precision; each in the order of the weights among the writes.
template <class Scalar>
void record_update(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const UpdatedParts parts = updated_parts(op, op.rank);
  const bool master = !std::is_same_v<Scalar, Number>;
  check(op.write_tensor(TensorKind::OptimizerState).elements >= (master ? 3 : 2) * parts.total,
        "an optimizer state too small");
  Number* const state = op.template write<Number>(TensorKind::OptimizerState);
  for (const UpdatedPart& part : parts.all) {
    const std::int64_t count = part.elements.size();
    const auto step = [&]<int size>() {
      return AdamStep<Scalar, size>{op.data(part.gradient.tensor) + part.gradient.first,
                                    op.data(part.weights) + part.elements.first,
                                    state + part.state,
                                    state + parts.total + part.state,
                                    master ? state + 2 * parts.total + part.state : nullptr,
                                    static_cast<const AdamScales<Number>*>(op.adam_scales),
                                    op.template data<Number>(op.find_read(roles::squares)),
                                    static_cast<Number>(op.clip)};
    };
    // Tensors begin at multiples of 256 bytes.
    const std::int64_t begins[] = {part.gradient.first, part.elements.first, part.state, parts.total, count};
    const bool packs = std::ranges::all_of(begins, [](std::int64_t at) { return at % pack_size<Scalar> == 0; });
    launch_packed<Scalar>(op.out, count, step, packs);
  }
}

}  // namespace

Stored stored_as(const Tensor& t, Stored scalar) {
  const bool compressed = t.kind == TensorKind::Compressed;
  if (compressed && t.dtype == DType::Fp8) return Stored::Fp8;
  if (compressed && t.dtype == DType::Bf16) return Stored::Bf16;
  return entry_of(t.kind).wide && scalar == Stored::Bf16 ? Stored::Float : scalar;
}

void require_device_ops(const Experiment& experiment, const Schedule& schedule) {
  if (!experiment.extensions.empty())
    throw InputError(experiment.extensions.names() +
                     ": sub-modules of a program's own are simulated and run on hosts, but not on devices");
  if (std::ranges::any_of(schedule.tensors, [](const Tensor& t) { return t.kind == TensorKind::RowCounts; }))
    throw InputError(Location{"", 0, 0, "/workload/message_sizes"},
                     "routed is simulated and runs on hosts, but not on devices yet; expected padded");
  if (std::ranges::any_of(schedule.tensors, [](const Tensor& t) { return t.kind == TensorKind::QueryKeySums; }))
    throw InputError(Location{"", 0, 0, "/model/attention/qk_norm"},
                     "width over several model-parallel ranks is simulated and runs on hosts, but not on devices yet");
  for (const Op& op : schedule.ops)
    if (op.profiled() != nullptr) throw InputError("a module known only by its times can be simulated, not executed");
}

template <class Scalar>
void record_sum(Recorder& out, const Scalar* a, const Scalar* b, Scalar* sum, std::int64_t count) {
  const auto aligned = [](const Scalar* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  launch_packed<Scalar>(
      out, count,
      [&]<int size>() {
        return Add<Scalar, size>{a, b, sum};
      },
      aligned(a) && aligned(b) && aligned(sum));
}

template <class Scalar>
void record_op(DeviceOp<Scalar>& op) {
  switch (op.op.kind) {
    case OpKind::Projection:
      return record_projection(op);
    case OpKind::Attention:
      return record_attention(op);
    case OpKind::QueryKeyNorm:
      return record_query_key_norm(op);
    case OpKind::Gate:
      return record_gate(op);
    case OpKind::Encode:
      return record_encode(op);
    case OpKind::Expert:
      return record_expert(op);
    case OpKind::Decode:
      return record_decode(op);
    case OpKind::DenseFfn:
      return record_dense_ffn(op);
    case OpKind::RestoreHidden:
      return record_restore_hidden(op);
    case OpKind::Residual:
      return record_residual(op);
    case OpKind::Compress:
      return record_compress(op);
    case OpKind::Decompress:
      return record_decompress(op);
    case OpKind::Offload:
    case OpKind::Prefetch:
      return record_copy(op);
    case OpKind::Norm:
      return record_norm(op);
    case OpKind::Embedding:
      return record_embedding(op);
    case OpKind::MtpProjection:
      return record_mtp_projection(op);
    case OpKind::OutputHead:
      return record_output_head(op);
    case OpKind::LossStatistics:
      return record_loss_statistics(op);
    case OpKind::Loss:
      return record_loss(op);
    case OpKind::GradientNorm:
      return record_gradient_norm(op);
    case OpKind::Update:
      return record_update(op);
    case OpKind::HostSync:
      return;
    default:
      throw InternalError("no device kernel for " + to_string(op.op));
  }
}

template void record_sum(Recorder&, const double*, const double*, double*, std::int64_t);
template void record_sum(Recorder&, const float*, const float*, float*, std::int64_t);
template void record_sum(Recorder&, const Bf16*, const Bf16*, Bf16*, std::int64_t);
DOVETAIL_FOR_DEVICE(record_op);

}  // namespace dovetail::exec
