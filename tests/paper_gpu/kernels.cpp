// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/kernels.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/paper_gpu/bodies.hpp"
#include "tests/paper_gpu/clock_kernels.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

std::map<const void*, Kernel>& kernels() {
  static auto* const all = new std::map<const void*, Kernel>;
  return *all;
}

std::string short_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                        std::free);
  std::string name = status == 0 ? readable.get() : mangled;
  for (const char* const dropped : {"dovetail::exec::", "(anonymous namespace)::", "void "})
    for (auto at = name.find(dropped); at != std::string::npos; at = name.find(dropped))
      name.erase(at, std::strlen(dropped));
  return name.substr(0, name.find('('));
}

std::string text(Blocks blocks) {
  return std::to_string(blocks.x) + " x " + std::to_string(blocks.y) + " x " + std::to_string(blocks.z);
}

bool within_limits(const Kernel& kernel, Blocks grid, Blocks block, std::size_t shared_bytes) {
  const auto refuse = [&](const std::string& what) {
    problem("a launch of " + kernel.name + " with " + what);
    return false;
  };
  constexpr unsigned most_x = 2147483647, most_yz = 65535, most_threads = 1024, most_threads_z = 64;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > most_x || grid.y > most_yz || grid.z > most_yz)
    return refuse("a grid of " + text(grid) + " blocks");
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || block.x > most_threads || block.y > most_threads || block.z > most_threads_z ||
      threads > most_threads)
    return refuse("blocks of " + text(block) + " threads");
  if (static_cast<std::int64_t>(shared_bytes) > kernel.shared_bytes)
    return refuse(std::to_string(shared_bytes) + " bytes of shared memory where " +
                  std::to_string(kernel.shared_bytes) + " were asked for");
  return true;
}

template <class Argument>
const Argument& argument(void** arguments, std::size_t index) {
  return *static_cast<const Argument*>(arguments[index]);
}

// A kernel that is no body's: as short as one can be.
Work unknown_work(const Kernel& kernel) {
  Work work;
  work.name = kernel.name;
  work.unit = Unit::Memory;
  work.seconds = settings().kernel_seconds;
  return work;
}

Work exchange_of(Blocks grid, const dovetail::exec::HeldExchange& exchange) {
  const auto blocks = static_cast<unsigned>(exchange.blocks);
  if (grid.x != blocks || exchange.blocks > settings().multiprocessors)
    problem("an exchange made for " + std::to_string(blocks) + " blocks is launched with " + std::to_string(grid.x) +
            ", on " + std::to_string(settings().multiprocessors) + " multiprocessors");
  return exchange_work(exchange);
}

Work work_of(const Kernel& kernel, Blocks grid, void** arguments) {
  if (kernel.name == "mark") return mark_work(argument<std::int64_t*>(arguments, 0));
  if (kernel.name == "hold") return hold_work(argument<dovetail::exec::Hold>(arguments, 0));
  if (kernel.name == "exchange") return exchange_of(grid, argument<dovetail::exec::HeldExchange>(arguments, 0));
  if (kernel.name.starts_with("run_")) {
    auto work = body_work(kernel.name, arguments[0], argument<std::int64_t>(arguments, 1));
    if (work != nullptr) return std::move(*work);
  }
  return unknown_work(kernel);
}

}  // namespace

void register_kernel(const void* function, const char* mangled_name) {
  kernels()[function].name = short_name(mangled_name);
}

Kernel* kernel_of(const void* function) {
  const auto found = kernels().find(function);
  if (found != kernels().end()) return &found->second;
  problem("a function that is no kernel");
  return nullptr;
}

bool allow_shared_bytes(Kernel& kernel, std::int64_t bytes) {
  if (bytes < 0 || bytes > settings().shared_bytes_opt_in) {
    problem(kernel.name + " asks for " + std::to_string(bytes) + " bytes of shared memory");
    return false;
  }
  kernel.shared_bytes = bytes;
  return true;
}

bool launch(const Kernel& kernel, Blocks grid, Blocks block, void** arguments, std::size_t shared_bytes,
            Stream& stream) {
  count_kernel(kernel.name);
  if (!within_limits(kernel, grid, block, shared_bytes)) return false;
  enqueue(stream, std::make_shared<const Work>(work_of(kernel, grid, arguments)));
  return true;
}

}  // namespace paper
