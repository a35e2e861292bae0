// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

constexpr std::int64_t page = 4096, granularity = 512;
constexpr std::uintptr_t address_space = std::uintptr_t{1} << 45;  // all that is ever allocated on the device

std::int64_t up_to(std::int64_t unit, std::int64_t bytes) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* map_memory(void* at, std::int64_t bytes, int protection) {
  constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const first = ::mmap(at, static_cast<std::size_t>(std::max(up_to(page, bytes), page)), protection,
                             at == nullptr ? how : how | MAP_FIXED, -1, 0);
  return first == MAP_FAILED ? nullptr : static_cast<std::byte*>(first);
}

struct AllMemory {
  std::uintptr_t device_first =
      reinterpret_cast<std::uintptr_t>(map_memory(nullptr, static_cast<std::int64_t>(address_space), PROT_NONE));
  std::uintptr_t next = device_first;
  std::map<std::uintptr_t, Allocation> allocations;
};

AllMemory& all_memory() {
  static auto* const all = new AllMemory;
  return *all;
}

void count_bytes(std::int64_t more, Place place) {
  Counts& c = counts();
  std::int64_t& now = place == Place::Device ? c.device_bytes : c.pinned_bytes;
  std::int64_t& peak = place == Place::Device ? c.device_peak : c.pinned_peak;
  now += more;
  peak = std::max(peak, now);
}

std::string bytes_text(std::int64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

}  // namespace

void* allocate(std::int64_t bytes, Place place) {
  AllMemory& all = all_memory();
  const std::int64_t taken = up_to(granularity, bytes);
  ++counts().allocations;
  std::byte* real = nullptr;
  const bool fits =
      place == Place::Pinned ||
      (static_cast<double>(counts().device_bytes + taken) <= settings().memory_bytes && all.device_first != 0 &&
       all.next + static_cast<std::uintptr_t>(taken) < all.device_first + address_space - granularity);
  if (!fits || (real = map_memory(nullptr, bytes, PROT_READ | PROT_WRITE)) == nullptr) {
    ++counts().refused;
    return nullptr;
  }
  auto first = reinterpret_cast<std::uintptr_t>(real);
  if (place == Place::Device) {
    first = all.next;
    all.next += static_cast<std::uintptr_t>(taken + granularity);  // a gap, so that neighbours are told apart
  }
  all.allocations[first] = {first, bytes, place, real};
  count_bytes(taken, place);
  return reinterpret_cast<void*>(first);
}

bool release(void* first, Place place) {
  const auto found = all_memory().allocations.find(reinterpret_cast<std::uintptr_t>(first));
  if (found == all_memory().allocations.end() || found->second.freed || found->second.place != place) return false;
  Allocation& a = found->second;
  a.freed = true;
  count_bytes(-up_to(granularity, a.bytes), place);
  if (place == Place::Device)
    ::munmap(a.real, static_cast<std::size_t>(std::max(up_to(page, a.bytes), page)));
  else
    map_memory(a.real, a.bytes, PROT_NONE);  // its addresses are given to nobody else
  return true;
}

const Allocation* allocation_of(const void* at) {
  const auto& allocations = all_memory().allocations;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  const Allocation& a = std::prev(after)->second;
  return address - a.first < static_cast<std::uintptr_t>(std::max<std::int64_t>(a.bytes, 1)) ? &a : nullptr;
}

bool is_device_address(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return address >= all_memory().device_first && address - all_memory().device_first < address_space;
}

bool reachable(const void* at, std::int64_t bytes, const std::string& who) {
  if (bytes <= 0) return true;
  const Allocation* const a = allocation_of(at);
  if (a == nullptr) {
    problem(who + " " + bytes_text(bytes) + (at == nullptr ? " at a null address" : " of nobody's memory"));
    return false;
  }
  if (a->freed) {
    problem(who + " freed memory");
    return false;
  }
  const auto from = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) - a->first);
  if (bytes <= a->bytes - from) return true;
  problem(who + " " + bytes_text(from + bytes - a->bytes) + " past the end of an allocation of " +
          bytes_text(a->bytes));
  return false;
}

}  // namespace paper
