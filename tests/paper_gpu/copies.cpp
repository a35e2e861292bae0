// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/copies.hpp"

#include <cstring>

#include "tests/paper_gpu/memory.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

// The place of these bytes in host memory; null where there is none.
std::byte* found(const void* at, std::int64_t bytes) {
  const Allocation* const a = allocation_of(at);
  if (a == nullptr) return is_device_address(at) ? nullptr : static_cast<std::byte*>(const_cast<void*>(at));
  const auto from = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) - a->first);
  return a->freed || bytes > a->bytes - from ? nullptr : a->real + from;
}

bool on_device(const void* at) {
  return is_device_address(at);
}

// Large operands are not filled: a run of some GB would take as much of this machine's memory, and nothing reads them.
bool really_written(const void* to, std::int64_t bytes, bool from_host) {
  const Allocation* const a = allocation_of(to);
  const bool real = bytes <= settings().real_bytes && (from_host || a == nullptr || a->bytes <= settings().real_bytes);
  if (!real) ++counts().not_copied;
  return real;
}

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  const bool host_takes_part = !on_device(to) || !on_device(from);
  if (!really_written(to, bytes, host_takes_part)) return;
  std::byte* const target = found(to, bytes);
  const std::byte* const source = found(from, bytes);
  if (target != nullptr && source != nullptr) std::memmove(target, source, static_cast<std::size_t>(bytes));
}

Unit unit_of_copy(const void* to, const void* from) {
  if (on_device(to)) return on_device(from) ? Unit::Memory : Unit::FromHost;
  return on_device(from) ? Unit::ToHost : Unit::FromHost;
}

double copy_seconds(Unit unit, std::int64_t bytes) {
  const auto moved = static_cast<double>(bytes);
  return settings().kernel_seconds +
         (unit == Unit::Memory ? 2 * moved / settings().memory_bandwidth : moved / settings().pcie_bandwidth);
}

bool is_pageable(const void* at) {
  return allocation_of(at) == nullptr && !is_device_address(at);
}

}  // namespace

void copy(Stream& stream, void* to, const void* from, std::int64_t bytes) {
  ++counts().copies;
  Work work;
  work.name = "copy";
  work.unit = unit_of_copy(to, from);
  work.seconds = copy_seconds(work.unit, bytes);
  if (is_pageable(to) || is_pageable(from)) {
    problem(is_pageable(to) ? "cudaMemcpyAsync to pageable memory" : "cudaMemcpyAsync from pageable memory");
    copy_bytes(to, from, bytes);
  } else {
    work.accesses = {{to, bytes, "a copy writes"}, {from, bytes, "a copy reads"}};
    work.end = [=](double) { copy_bytes(to, from, bytes); };
  }
  enqueue(stream, std::make_shared<const Work>(std::move(work)));
}

void fill(Stream& stream, void* first, int byte, std::int64_t bytes) {
  ++counts().copies;
  Work work;
  work.name = "fill";
  work.unit = on_device(first) ? Unit::Memory : Unit::ToHost;
  work.seconds =
      settings().kernel_seconds +
      static_cast<double>(bytes) / (on_device(first) ? settings().memory_bandwidth : settings().pcie_bandwidth);
  work.accesses = {{first, bytes, "a fill writes"}};
  work.end = [=](double) {
    if (!really_written(first, bytes, !on_device(first))) return;
    if (std::byte* const at = found(first, bytes)) std::memset(at, byte, static_cast<std::size_t>(bytes));
  };
  enqueue(stream, std::make_shared<const Work>(std::move(work)));
}

void copy_now(void* to, const void* from, std::int64_t bytes) {
  ++counts().copies;
  for (const void* const at : {static_cast<const void*>(to), from})
    if (!is_pageable(at)) reachable(at, bytes, at == to ? "a copy writes" : "a copy reads");
  copy_bytes(to, from, bytes);
  host_works(copy_seconds(unit_of_copy(to, from), bytes));
}

}  // namespace paper
