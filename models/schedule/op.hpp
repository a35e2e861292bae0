// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a schedule: tensors, and ops that read and write them on streams.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/dtype.hpp"
#include "models/base/id.hpp"
#include "models/base/shared.hpp"
#include "models/base/units.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op_kind.hpp"
#include "models/schedule/tensor_kind.hpp"
#include "models/schedule/work.hpp"

namespace dovetail {

using OpId = Id<struct OpKey>;
using TensorId = Id<struct TensorKey>;
using StreamId = Id<struct StreamKey>;

// Combine: of the second all-to-all, with dispatch_combine. Copy: between device and pinned host memory. Send, Receive:
// between pipeline stages.
enum class StreamKind : std::uint8_t {
  Compute,
  Communication,
  Inter,
  Intra,
  Combine,
  Gradients,
  ExpertGradients,
  Copy,
  Send,
  Receive
};
inline constexpr Names<StreamKind, 10> stream_kind_names{{{"compute", StreamKind::Compute},
                                                          {"communication", StreamKind::Communication},
                                                          {"inter", StreamKind::Inter},
                                                          {"intra", StreamKind::Intra},
                                                          {"combine", StreamKind::Combine},
                                                          {"gradients", StreamKind::Gradients},
                                                          {"expert_gradients", StreamKind::ExpertGradients},
                                                          {"copy", StreamKind::Copy},
                                                          {"send", StreamKind::Send},
                                                          {"receive", StreamKind::Receive}}};

enum class Place : std::uint8_t { Device, Host };  // Host: pinned memory
inline constexpr Names<Place, 2> place_names{{{"device", Place::Device}, {"host", Place::Host}}};

// A RowRange in half the bytes: a long step has millions of ops and tensors.
struct PlaceRange {
  std::int32_t first = 0, last = 0;

  PlaceRange() = default;
  PlaceRange(RowRange range);  // throws InputError for rows beyond 2^31
  PlaceRange(std::int64_t first_row, std::int64_t last_row) : PlaceRange(RowRange{first_row, last_row}) {}
  operator RowRange() const { return {first, last}; }
  std::int64_t size() const { return last - first; }
  friend bool operator==(PlaceRange, PlaceRange) = default;
};

// The place in the step at which an op works or a tensor is made.
struct StepPlace {
  std::int16_t layer = 0;
  std::int16_t micro_batch = 0;
  std::int16_t chunk = -1;   // -1: not chunked
  std::int16_t step = -1;    // of a collective in several steps
  std::int16_t expert = -1;  // a shadowed expert, of all; -1: not of one
  PlaceRange rows;           // capacity rows of a chunk
  PlaceRange peers;          // with split peers: offsets of the ranks it is for; else empty
  bool recomputed = false;   // once more, in the backward pass (plan.recompute)
};

struct Tensor : StepPlace {
  TensorKind kind = TensorKind::LayerInput;
  bool gradient = false;    // the gradient of an activation of this kind
  bool persistent = false;  // lives through the step: weights, their gradients, optimizer states, the step's input
  DType dtype = DType::Fp32;
  Place place = Place::Device;
  std::int16_t rank_class = 0;  // whose memory it is in
  TensorId buffer;              // an earlier tensor whose memory it takes over; none: memory of its own
  std::int64_t elements = 0;
  // How much of it memory holds: with routed messages the share of its rows that are there, on the rank that has most;
  // above 1 where the framework has further copies of it. Executors have room for all, once.
  double held = 1;

  Bytes bytes() const { return held * static_cast<double>(elements) * size_of(dtype); }
};
std::string to_string(const Tensor& tensor);  // "d_expert_input[3].2": layer 3, chunk 2; "r_..": recomputed

struct Op : StepPlace {
  OpKind kind = OpKind::Attention;
  Phase phase = Phase::Forward;  // what it computes: an op of the forward pass that runs again has the same
  Half half = Half::Both;        // Both: also of ops that have no halves
  StreamId stream{0};
  // Elements of Dense- or ReplicatedGradients that it writes or sums; of the weights, one tensor after another, that it
  // gathers; else empty.
  RowRange gradients;
  Shared<Work> work;  // that of all micro-batches alike
  Span dependencies, reads, writes;

  Phase pass() const { return recomputed ? Phase::Backward : phase; }           // in which it runs
  const KernelWork* kernel() const { return std::get_if<KernelWork>(&*work); }  // null: the work is of another kind
  const ProfiledWork* profiled() const { return std::get_if<ProfiledWork>(&*work); }  // the same
  const ExchangeWork* exchange() const { return std::get_if<ExchangeWork>(&*work); }  // the same
  // None where the op is no exchange, and for the exchanges that have no collective.
  Collective collective() const { return exchange() == nullptr ? Collective::None : exchange()->collective; }
  GroupKind group() const { return std::get<ExchangeWork>(*work).group; }  // of an exchange only
  // Sums for reports: 0 where the work has no such part.
  Flops flops() const { return kernel() == nullptr ? Flops() : kernel()->flops; }
  Bytes message() const { return exchange() == nullptr ? Bytes() : exchange()->message; }
  Bytes memory_traffic() const;  // of kernels, without matrix products, and of copies between the steps of an exchange
};
// "dispatch[3].2"; "d_dispatch[3].2": backward; "r_dispatch[3].2": recomputed; "di_expert[3]", "dw_expert[3]": the
// halves
std::string to_string(const Op& op);

struct Stream {
  StreamKind kind = StreamKind::Compute;
  int rank_class = 0;
};

}  // namespace dovetail
