// SPDX-License-Identifier: Apache-2.0
// The kernels that tell and spend time, run by the arithmetic of exec/device/hold.hpp.
#pragma once
#include "exec/device/hold.hpp"
#include "tests/paper_gpu/engine.hpp"

namespace paper {

// Arguments are as kernels get them: addresses on the device.
Work mark_work(std::int64_t* moment);
Work hold_work(const dovetail::exec::Hold& hold);
Work exchange_work(const dovetail::exec::HeldExchange& exchange);

}  // namespace paper
