// SPDX-License-Identifier: Apache-2.0
// Rows in the formats they are sent in. The numbers are really rounded, but kept as Scalars.
#pragma once
#include <cstdint>
#include <span>

#include "models/plan/plan.hpp"

namespace dovetail::exec {

// To the nearest number that the format can hold, ties to even. E4M3: at most 448, steps of 2^-9 below 2^-6.
double to_bf16(double value);
double to_e4m3(double value);

// Rounds a row as sending it in `wire` does. Fp8: scaled so that the largest element becomes 448, by an fp32 scale.
void round_row(Wire wire, std::span<double> row);

// The distance between neighbouring numbers of the format, relative to them, at most.
double spacing_of(Wire wire);

// Rows of `hidden` elements, one after another, to rows of wire_row_elements(): fp8 rows end with their scale.
template <class Scalar>
void compress_rows(Wire wire, std::int64_t rows, std::int64_t hidden, const Scalar* from, Scalar* to);
template <class Scalar>
void decompress_rows(Wire wire, std::int64_t rows, std::int64_t hidden, const Scalar* from, Scalar* to);

}  // namespace dovetail::exec
