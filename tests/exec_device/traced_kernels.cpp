// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_device/traced_kernels.hpp"

#include <cstring>

#include "exec/device/launch.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

struct CopyNumbers {
  const double* from;
  double* to;
  void operator()(std::int64_t i) const { to[i] = from[i]; }
};

struct AddEverySecond {
  const double* from;
  double* to;
  void operator()(std::int64_t i) const { to[i] += from[2 * i]; }
};

struct CopyPacks {
  const std::uint16_t* from;
  std::uint16_t* to;
  void operator()(std::int64_t i) const { store<8>(to + 8 * i, load<8>(from + 8 * i)); }
};

struct Triple {
  std::int32_t at[3];
};
struct CopyStructs {
  const Triple* from;
  Triple* to;
  void operator()(std::int64_t i) const { to[i] = from[i]; }
};

struct CopyBytes {
  const std::byte* from;
  std::byte* to;
  std::int64_t bytes;
  void operator()(std::int64_t) const { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }
};

}  // namespace

void copy_numbers(Queue& queue, const double* from, double* to, std::int64_t count) {
  launch(queue, count, CopyNumbers{from, to});
}
void add_every_second(Queue& queue, const double* from, double* to, std::int64_t count) {
  launch(queue, count, AddEverySecond{from, to});
}
void copy_packs(Queue& queue, const std::uint16_t* from, std::uint16_t* to, std::int64_t count) {
  launch(queue, count, CopyPacks{from, to});
}
void copy_structs(Queue& queue, const std::int32_t* from, std::int32_t* to, std::int64_t count) {
  launch(queue, count, CopyStructs{reinterpret_cast<const Triple*>(from), reinterpret_cast<Triple*>(to)});
}
void copy_bytes(Queue& queue, const std::byte* from, std::byte* to, std::int64_t bytes) {
  launch(queue, 1, CopyBytes{from, to, bytes});
}

}  // namespace dovetail::test
