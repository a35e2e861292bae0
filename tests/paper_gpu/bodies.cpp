// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/bodies.hpp"

#include <memory>
#include <string_view>

#include "exec/device/expert_bodies.hpp"
#include "exec/device/order_bodies.hpp"
#include "exec/device/tensor_bodies.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

using dovetail::exec::Bf16;

// Bytes of a row and of an element of all other bodies, roughly.
constexpr double row_bytes = 8192, element_bytes = 32;

// Numbers that a row moves, and where it writes them.
struct Rows {
  std::int64_t numbers;
  const void* to = nullptr;
  std::int64_t written = 0;
};

// Operands lie at the same places for all formats, because they differ in what pointers point to alone.
template <class Body>
const Body& as(const void* body) {
  return *static_cast<const Body*>(body);
}

struct KnownBody {
  std::string_view begin;  // of the kernel's name
  Rows (*rows)(const void*);
};

constexpr KnownBody known_bodies[] = {
    {"run_rows<FillSlots<",
     [](const void* body) {
       const auto& b = as<dovetail::exec::FillSlots<Bf16>>(body);
       return Rows{2 * b.shape.hidden, b.chunk, b.shape.hidden};
     }},
    {"run_rows<CollectSlots<",
     [](const void* body) {
       const auto& b = as<dovetail::exec::CollectSlots<Bf16>>(body);
       return Rows{(1 + b.entries.count + (b.base == nullptr ? 0 : 1)) * b.shape.hidden, b.tokens, b.shape.hidden};
     }},
    {"run_rows<ScoreGradients<",
     [](const void* body) { return Rows{2 * as<dovetail::exec::ScoreGradients<Bf16>>(body).shape.hidden}; }},
    {"run_rows<MoveRows<", [](const void* body) { return Rows{2 * as<dovetail::exec::MoveRows<Bf16>>(body).cols}; }},
    {"run_rows<GatedActivation<",
     [](const void* body) {
       const auto& b = as<dovetail::exec::GatedActivation<Bf16>>(body);
       return Rows{3 * b.width * b.shards};
     }},
    {"run_rows<ActivationBackward<",
     [](const void* body) {
       const auto& b = as<dovetail::exec::ActivationBackward<Bf16>>(body);
       return Rows{5 * b.width * b.shards};
     }},
};

std::int64_t number_bytes(std::string_view kernel) {
  return kernel.find("<double") != kernel.npos ? 8 : kernel.find("<float") != kernel.npos ? 4 : 2;
}

}  // namespace

std::unique_ptr<Work> body_work(const std::string& kernel, const void* body, std::int64_t count) {
  const bool rows = kernel.starts_with("run_rows<");
  if (!rows && !kernel.starts_with("run_elements<")) return nullptr;
  auto work = std::make_unique<Work>();
  double bytes = rows ? row_bytes : element_bytes;
  for (const KnownBody& known : known_bodies) {
    if (!kernel.starts_with(known.begin)) continue;
    const Rows moved = known.rows(body);
    bytes = static_cast<double>(moved.numbers * number_bytes(kernel));
    if (moved.to != nullptr)
      work->accesses = {{moved.to, count * moved.written * number_bytes(kernel), kernel + " writes"}};
  }
  work->name = kernel;
  work->unit = Unit::Memory;
  work->seconds = settings().kernel_seconds + static_cast<double>(count) * bytes / settings().memory_bandwidth;
  return work;
}

}  // namespace paper
