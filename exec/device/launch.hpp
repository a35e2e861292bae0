// Kernels are bodies: structs of operands whose call does one element, or one row with all lanes of a warp. The same
// body runs as a kernel on a GPU and as a loop on the host, where tests check it.
#pragma once
#include <type_traits>

#include "exec/device/queue.hpp"
#include "models/base/build_info.hpp"

namespace dovetail::exec {

// The threads that share a row. Of sum() and max() every lane gets the result.
struct OneLane {
  DOVETAIL_BOTH int index() const { return 0; }
  DOVETAIL_BOTH int count() const { return 1; }
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

// Elements that are loaded and stored at once: 16 bytes, or one element.
template <int size, class Scalar>
struct alignas(size * sizeof(Scalar)) Pack {
  Scalar at[size];
};
template <class Scalar>
constexpr int pack_size = 16 / static_cast<int>(sizeof(Scalar));

template <int size, class Scalar>
DOVETAIL_BOTH Pack<size, Scalar> load(const Scalar* from) {
  return *reinterpret_cast<const Pack<size, Scalar>*>(from);
}
template <int size, class Scalar>
DOVETAIL_BOTH void store(Scalar* to, const Pack<size, Scalar>& pack) {
  *reinterpret_cast<Pack<size, Scalar>*>(to) = pack;
}

// visit(first column, std::integral_constant: how many), shared out to the lanes. Rows must begin at multiples of 16
// bytes where their length is one.
template <class Scalar, class Lanes, class Visit>
DOVETAIL_BOTH void for_columns(const Lanes& lanes, std::int64_t cols, Visit visit) {
  constexpr int size = pack_size<Scalar>;
  if (cols % size == 0)
    for (std::int64_t i = std::int64_t{lanes.index()} * size; i < cols; i += std::int64_t{lanes.count()} * size)
      visit(i, std::integral_constant<int, size>());
  else
    for (std::int64_t i = lanes.index(); i < cols; i += lanes.count()) visit(i, std::integral_constant<int, 1>());
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
