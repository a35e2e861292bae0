// SPDX-License-Identifier: Apache-2.0
// The time of an op's kernels by what they do, whatever their shapes: the law of processors that have no table.
#pragma once
#include "models/base/units.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Done by the kernels of an op in all.
struct WorkAmounts {
  Flops products, attention;
  Bytes outputs;  // written by products: small inner sizes write more for each flop
  Bytes memory;   // read plus written by kernels bound by memory
  friend bool operator==(const WorkAmounts&, const WorkAmounts&) = default;
};

// t = products * flops of products + attention * flops of attention + outputs * bytes that products write
//     + memory * bytes of the kernels bound by memory.
struct WorkRates {
  SecondsPerFlop products, attention;
  SecondsPerByte outputs, memory;
};

// `element`: bytes of a number.
WorkAmounts amounts_of(const Schedule& schedule, const KernelWork& work, Bytes element);

Seconds seconds_of(const WorkAmounts& amounts, const WorkRates& rates);

}  // namespace dovetail
