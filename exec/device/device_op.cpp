#include "exec/device/device_op.hpp"

#include <algorithm>
#include <cmath>

#include "exec/device/tensor_bodies.hpp"
#include "exec/device/wire_bodies.hpp"
#include "models/base/errors.hpp"
#include "models/schedule/op_work.hpp"

namespace dovetail::exec {
namespace {

// To and from pinned memory, or between two tensors on the device.
template <class Scalar>
void record_copy(const DeviceOp<Scalar>& op) {
  check(op.read_tensor(0).elements == op.write_tensor(0).elements, "a copy of another size");
  op.out.copy(op.write(0), op.read(0), op.read_tensor(0).elements * static_cast<std::int64_t>(sizeof(Scalar)));
}

// The result may be the first of the parts.
template <class Scalar>
void record_residual(const DeviceOp<Scalar>& op) {
  const std::int64_t count = op.write_tensor(0).elements;
  Scalar* const sum = op.write(0);
  if (op.read_count() == 1) {
    if (op.read(0) != sum) record_copy(op);
    return;
  }
  record_sum<Scalar>(op.out, op.read(0), op.read(1), sum, count);
  for (std::size_t i = 2; i < op.read_count(); ++i) record_sum<Scalar>(op.out, sum, op.read(i), sum, count);
}

// Operands are compressed rows and rows, in the order of the op.
template <class Scalar>
void record_convert(const DeviceOp<Scalar>& op) {
  const bool compresses = op.op.kind == OpKind::Compress;
  const Tensor& compressed = compresses ? op.write_tensor(0) : op.read_tensor(0);
  const std::int64_t hidden = op.shape.hidden;
  if (compressed.dtype == DType::Bf16) {
    if (compresses)
      launch_packed<Bf16>(op.out, compressed.elements, [&]<int size>() {
        return ToBf16<Scalar, size>{op.read(0), op.template write<Bf16>(0)};
      });
    else
      launch_packed<Bf16>(op.out, compressed.elements, [&]<int size>() {
        return FromBf16<Scalar, size>{op.template read<Bf16>(0), op.write(0)};
      });
    return;
  }
  const std::int64_t rows = compressed.elements / wire_row_elements(Wire::Fp8, hidden);
  if (compresses)
    op.out.launch(rows, CompressFp8<Scalar>{op.read(0), op.template write<std::uint8_t>(0), hidden});
  else
    op.out.launch(rows, DecompressFp8<Scalar>{op.template read<std::uint8_t>(0), op.write(0), hidden});
}

// Every step starts from the same weights, so that this is always Adam's first one. States: means, variances and, of
// bf16, the weights in full precision; each in the order of the weights among the writes.
template <class Scalar>
void record_update(const DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const std::size_t weights = op.write_count() - 1;
  std::int64_t parameters = 0, done = 0;
  for (std::size_t i = 0; i < weights; ++i) parameters += op.write_tensor(i).elements;
  const bool master = !std::is_same_v<Scalar, Number>;
  check(op.write_tensor(weights).elements >= (master ? 3 : 2) * parameters, "an optimizer state too small");
  Number* const state = op.template write<Number>(weights);
  for (std::size_t i = 0; i < weights; ++i) {
    const Tensor& t = op.write_tensor(i);
    const GradientPlace gradient = gradient_of(op, t);
    const auto step = [&]<int size>() {
      return AdamStep<Scalar, size>{op.read(gradient.read) + gradient.first,
                                    op.write(i),
                                    state + done,
                                    state + parameters + done,
                                    master ? state + 2 * parameters + done : nullptr,
                                    static_cast<Number>(1e-3 / (1 - .9)),
                                    static_cast<Number>(1 / (1 - .999))};
    };
    const std::int64_t begins[] = {gradient.first, done, parameters, t.elements};  // tensors begin at multiples of 256
    const bool packs = std::ranges::all_of(begins, [](std::int64_t at) { return at % pack_size<Scalar> == 0; });
    launch_packed<Scalar>(op.out, t.elements, step, packs);
    done += t.elements;
  }
}

}  // namespace

bool is_wide(TensorKind kind) {
  return kind == TensorKind::Routing || kind == TensorKind::CombineWeights || kind == TensorKind::ScoreGradient ||
         kind == TensorKind::LogSumExp || kind == TensorKind::OptimizerState;
}

Stored stored_as(const Tensor& t, Stored scalar) {
  const bool compressed = t.kind == TensorKind::Compressed;
  if (compressed && t.dtype == DType::Fp8) return Stored::Fp8;
  if (compressed && t.dtype == DType::Bf16) return Stored::Bf16;
  return is_wide(t.kind) && scalar == Stored::Bf16 ? Stored::Float : scalar;
}

void require_device_ops(const Schedule& schedule) {
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
    case OpKind::Decompress:
      return record_convert(op);
    case OpKind::Offload:
    case OpKind::Prefetch:
      return record_copy(op);
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
