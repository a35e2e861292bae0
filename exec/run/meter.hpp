// SPDX-License-Identifier: Apache-2.0
// The questions of calibrate() to a device: how long operations of given sizes take, alone or beside each
// other.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/plan/communication.hpp"
#include "models/results/device_point.hpp"

namespace dovetail::exec {

// Encode, Decode: the kernels of an MoE layer; StridedCopy: between the exchanges of an all-to-all; HostCopy: between
// the device and its host, to and from it in turns. On devices only: copies of one direction; attention between its
// projections; the exchange of a rank that stands for all, as fast as its blocks can copy.
enum class ProbeKind {
  Gemm,
  Encode,
  Decode,
  StridedCopy,
  HostCopy,
  Collective,
  CopyToHost,
  CopyFromHost,
  AttentionForward,
  AttentionBackward,
  AttentionBoth,
  Exchange
};

// An operation that every rank does. Sizes are in elements of `dtype`.
struct Probe {
  ProbeKind kind = ProbeKind::Gemm;
  DType dtype = DType::Fp32;
  Collective collective = Collective::None;
  // Gemm: (rows, inner) times (inner, columns). Encode, Decode: `rows` tokens of `columns` elements, each to one
  // expert. StridedCopy: pieces of `columns` elements. Attention: sequences of `rows` tokens, heads of `columns`.
  // Collectives: as many elements as n has bytes, a multiple of the ranks.
  std::int64_t rows = 0, inner = 0, columns = 1;
  std::int64_t batch = 1;  // of devices: products, or sequences of attention
  ProductLayout layout = ProductLayout::Plain;
  int heads = 0, kv_heads = 0;  // of attention
  int blocks = 0;               // of an exchange
  int carve_out = 0;            // of a product on a device: multiprocessors that it leaves to exchanges

  double size() const;  // n of its cost: flops of a GEMM or of attention, else bytes
  bool computes() const;
  friend bool operator==(const Probe&, const Probe&) = default;
};

struct Repeated {
  Probe probe;
  int times = 1;  // 0: not now
};

struct Elapsed {
  Seconds time;             // until the slowest rank had done all repetitions
  Seconds without_core;     // the longest that one of its threads could have run and got no core
  ClockReading clock = {};  // of a device, in the middle of it
};

class Meter {
 public:
  virtual ~Meter() = default;
  virtual int ranks() const = 0;
  // Whether ops of so many streams on every rank at a time have to share cores.
  virtual bool oversubscribed(int streams) const = 0;
  // Begins all of them together on every rank. A series of calls with the same probes keeps their buffers.
  virtual std::vector<Elapsed> run(std::span<const Repeated> work) = 0;
};

}  // namespace dovetail::exec
