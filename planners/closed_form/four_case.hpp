// SPDX-License-Identifier: Apache-2.0
// Time of one chunked MoE layer in closed form: FSMoE's four cases (section 4, eqs. 4-7) and the exact makespans
// that they approximate, with integer searches over the pipeline degree. Pure arithmetic: no plans, no schedules.
//
// Symbols, here and in four_case.cpp: r pipeline degree; A, G, S, E time of one chunk of an all-to-all, all-gather,
// reduce-scatter, expert computation at that degree; R gradient all-reduce that the layer carries.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "models/base/units.hpp"
#include "models/plan/plan.hpp"

namespace dovetail::planners {

// One of r equal chunks takes alpha + work / r.
struct ChunkTime {
  Seconds alpha, work;
  Seconds at(int degree) const { return alpha + work / degree; }
};

// One phase of one MoE layer. In both phases a chunk goes all-to-all, all-gather, expert, reduce-scatter, all-to-all.
struct MoeTimes {
  ChunkTime all_to_all, all_gather, reduce_scatter, expert;
};

// Exact for equal chunks and first in, first out streams.
//   inter_intra: inter A1..Ar R C1..Cr, intra G1..Gr S1..Sr, compute E1..Er
//     T = max{2rA + R, 2A+G+S + (r-1)(max(A,G) + max(A,S)), 2A+G+S+E + (r-1)max(A,G,S,E)}
//   one: A1 G1 .. Ar Gr R S1 C1 .. Sr Cr, with D = A+G, C = S+A:
//     T = max{r(D+C) + R, D+C+E + (r-1)max(D,C,E)}
Seconds exact_makespan(const MoeTimes& times, CommStreams streams, int degree, Seconds all_reduce);

// The work that the all-reduce queues with: 2rA or r(D+C) above. The makespan with R is max{makespan without, this +
// R}.
Seconds link_time(const MoeTimes& times, CommStreams streams, int degree);

// Exact with R = 0 for chunks as they are cut, which differ by one row where the degree does not divide the capacity.
Seconds chunked_makespan(const MoeTimes& times, CommStreams streams, std::int64_t capacity, int degree);

struct DegreeChoice {
  int degree = 1;
  Seconds time;
};
// The exact makespan is convex in r, so the search ends at the first degree that is no better. `candidates` ascend.
DegreeChoice best_degree(const MoeTimes& times, CommStreams streams, Seconds all_reduce, int largest);
DegreeChoice best_degree(const MoeTimes& times, CommStreams streams, Seconds all_reduce,
                         std::span<const int> candidates);

// The paper's case (1 to 4) and its T1..T4, for co-scheduled streams. Equals the exact makespan when G = S; else it
// may be too low, because T3 alone counts that the reduce-scatters queue behind the all-gathers.
struct PaperCase {
  int number = 0;
  Seconds time;
};
PaperCase paper_case(const MoeTimes& times, int degree, Seconds all_reduce);

// Says in words what limits the layer in that case.
std::string_view describe_case(int number);

}  // namespace dovetail::planners
