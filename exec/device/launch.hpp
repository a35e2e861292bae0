// SPDX-License-Identifier: Apache-2.0
// Kernels are bodies: structs of operands whose call does one element, or one row with all lanes of a warp. The same
// body runs as a kernel on a GPU and as a loop on the host, where tests check it.
#pragma once
#include <cstring>
#include <type_traits>

#include "exec/device/queue.hpp"
#include "models/base/build_info.hpp"

namespace dovetail::exec {

// The lanes that gave the same key: how many, and how many of them before this one.
struct Alike {
  int before, count;
};

// The threads that share a row. Every lane gets the result of sum() and max(), and from before() the sum of the lanes
// before it. All lanes see after sync() what any lane wrote to memory.
struct OneLane {
  DOVETAIL_BOTH int index() const { return 0; }
  DOVETAIL_BOTH int count() const { return 1; }
  DOVETAIL_BOTH void sync() const {}
  DOVETAIL_BOTH Alike alike(int) const { return {0, 1}; }
  template <class Number>
  DOVETAIL_BOTH Number before(Number) const {
    return 0;
  }
  template <class Number>
  DOVETAIL_BOTH Number sum(Number x) const {
    return x;
  }
  template <class Number>
  DOVETAIL_BOTH Number max(Number x) const {
    return x;
  }
};

template <class Body>
constexpr bool per_row = requires(const Body& body) {
  body(std::int64_t{0}, OneLane{});
};

// Elements that are loaded and stored together: `pack_size` of them are 16 bytes.
template <int size, class Scalar>
struct Pack {
  Scalar at[size];
};
template <class Scalar>
constexpr int pack_size = 16 / static_cast<int>(sizeof(Scalar));

// The widest access that a GPU has for so many bytes.
template <int bytes>
auto widest() {
#ifdef __CUDACC__
  if constexpr (bytes % 16 == 0)
    return uint4();
  else
#endif
      if constexpr (bytes % 8 == 0)
    return std::uint64_t();
  else if constexpr (bytes % 4 == 0)
    return std::uint32_t();
  else if constexpr (bytes % 2 == 0)
    return std::uint16_t();
  else
    return std::uint8_t();
}

// Addresses are multiples of the pack's size, of 16 bytes where it is larger.
template <int size, class Scalar>
DOVETAIL_BOTH Pack<size, Scalar> load(const Scalar* from) {
  Pack<size, Scalar> pack;
#ifdef __CUDA_ARCH__
  using Access = decltype(widest<sizeof pack>());
  Access parts[sizeof pack / sizeof(Access)];
  for (int i = 0; i < static_cast<int>(sizeof pack / sizeof(Access)); ++i)
    parts[i] = reinterpret_cast<const Access*>(from)[i];
  memcpy(pack.at, parts, sizeof pack);
#else
  std::memcpy(static_cast<void*>(pack.at), from, sizeof pack);
#endif
  return pack;
}
// Reads memory that nothing writes while the kernel runs: stores to anything else need not come after.
template <int size, class Scalar>
DOVETAIL_BOTH Pack<size, Scalar> load_constant(const Scalar* from) {
#ifdef __CUDA_ARCH__
  Pack<size, Scalar> pack;
  using Access = decltype(widest<sizeof pack>());
  Access parts[sizeof pack / sizeof(Access)];
  for (int i = 0; i < static_cast<int>(sizeof pack / sizeof(Access)); ++i)
    parts[i] = __ldg(reinterpret_cast<const Access*>(from) + i);
  memcpy(pack.at, parts, sizeof pack);
  return pack;
#else
  return load<size>(from);
#endif
}
template <int size, class Scalar>
DOVETAIL_BOTH void store(Scalar* to, const Pack<size, Scalar>& pack) {
#ifdef __CUDA_ARCH__
  using Access = decltype(widest<sizeof pack>());
  Access parts[sizeof pack / sizeof(Access)];
  memcpy(parts, pack.at, sizeof pack);
  for (int i = 0; i < static_cast<int>(sizeof pack / sizeof(Access)); ++i) reinterpret_cast<Access*>(to)[i] = parts[i];
#else
  std::memcpy(static_cast<void*>(to), pack.at, sizeof pack);
#endif
}

// visit(first column, std::integral_constant: how many), shared out to the lanes, for the packs of columns that begin
// before `end`. Rows must begin at multiples of 16 bytes where their length is one.
template <class Scalar, class Lanes, class Visit>
DOVETAIL_BOTH void for_columns(const Lanes& lanes, std::int64_t cols, std::int64_t end, Visit visit) {
  constexpr int size = pack_size<Scalar>;
  if (cols % size == 0)
    for (std::int64_t i = std::int64_t{lanes.index()} * size; i < end; i += std::int64_t{lanes.count()} * size)
      visit(i, std::integral_constant<int, size>());
  else
    for (std::int64_t i = lanes.index(); i < end; i += lanes.count()) visit(i, std::integral_constant<int, 1>());
}
template <class Scalar, class Lanes, class Visit>
DOVETAIL_BOTH void for_columns(const Lanes& lanes, std::int64_t cols, Visit visit) {
  for_columns<Scalar>(lanes, cols, cols, visit);
}

// Defined and instantiated in the .cu files. Throws DeviceError.
template <class Body>
void launch_on_stream(void* stream, std::int64_t count, const Body& body);

// `count` elements or rows.
template <class Body>
void launch(Queue& queue, std::int64_t count, const Body& body) {
  if (count == 0) return;
#if DOVETAIL_HAS_CUDA && !defined(DOVETAIL_LOOPS_ALONE)
  if (queue.stream() != nullptr) return launch_on_stream(queue.stream(), count, body);
#endif
  queue.loop([count, body] {
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (per_row<Body>)
        body(i, OneLane());
      else
        body(i);
    }
  });
}

}  // namespace dovetail::exec
