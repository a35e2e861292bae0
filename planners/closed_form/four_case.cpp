// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/four_case.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "models/base/errors.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::planners {
namespace {

// Seconds of one chunk at a degree; symbols as in the header.
struct Chunk {
  double A, G, S, E;
};

Chunk chunk_at(const MoeTimes& t, int degree) {
  const double share = 1.0 / degree;
  const auto at = [share](const ChunkTime& c) { return c.alpha.value() + share * c.work.value(); };
  return {at(t.all_to_all), at(t.all_gather), at(t.reduce_scatter), at(t.expert)};
}

double co_scheduled(const Chunk& c, int r, double R) {
  const double fill = 2 * c.A + c.G + c.S;
  const double link = 2 * r * c.A + R;
  const double queues = fill + (r - 1) * (std::max(c.A, c.G) + std::max(c.A, c.S));
  const double slowest = fill + c.E + (r - 1) * std::max({c.A, c.G, c.S, c.E});
  return std::max({link, queues, slowest});
}

double one_stream(const Chunk& c, int r, double R) {
  const double D = c.A + c.G, C = c.S + c.A;
  return std::max(r * (D + C) + R, D + C + c.E + (r - 1) * std::max({D, C, c.E}));
}

double makespan(const MoeTimes& t, CommStreams streams, int r, double R) {
  const Chunk c = chunk_at(t, r);
  return streams == CommStreams::InterIntra ? co_scheduled(c, r, R) : one_stream(c, r, R);
}

template <class DegreeAt>
DegreeChoice search(const MoeTimes& t, CommStreams streams, double R, int count, DegreeAt degree_at) {
  DegreeChoice best{degree_at(0), Seconds(makespan(t, streams, degree_at(0), R))};
  for (int i = 1; i < count; ++i) {
    const double time = makespan(t, streams, degree_at(i), R);
    if (time >= best.time.value()) break;
    best = {degree_at(i), Seconds(time)};
  }
  return best;
}

}  // namespace

Seconds exact_makespan(const MoeTimes& times, CommStreams streams, int degree, Seconds all_reduce) {
  return Seconds(makespan(times, streams, degree, all_reduce.value()));
}

Seconds link_time(const MoeTimes& times, CommStreams streams, int degree) {
  const Chunk c = chunk_at(times, degree);
  const double per_chunk = streams == CommStreams::InterIntra ? 2 * c.A : 2 * c.A + c.G + c.S;
  return Seconds(degree * per_chunk);
}

Seconds chunked_makespan(const MoeTimes& t, CommStreams streams, std::int64_t capacity, int degree) {
  if (capacity % degree == 0) return exact_makespan(t, streams, degree, Seconds(0));
  const bool co_scheduling = streams == CommStreams::InterIntra;
  const auto at = [&](const ChunkTime& c, int i) {
    const double share = static_cast<double>(chunk_rows(capacity, degree, i).size()) / static_cast<double>(capacity);
    return c.alpha.value() + share * c.work.value();
  };
  // When each stream is done with what it has been given so far; without co-scheduling intra is not used.
  double inter = 0, intra = 0, compute = 0;
  std::vector<double> expert_done(static_cast<std::size_t>(degree));
  for (int i = 0; i < degree; ++i) {
    inter += at(t.all_to_all, i);
    double& gathers = co_scheduling ? intra : inter;
    gathers = std::max(gathers, inter) + at(t.all_gather, i);
    compute = std::max(compute, gathers) + at(t.expert, i);
    expert_done[static_cast<std::size_t>(i)] = compute;
  }
  for (int i = 0; i < degree; ++i) {
    double& scatters = co_scheduling ? intra : inter;
    scatters = std::max(scatters, expert_done[static_cast<std::size_t>(i)]) + at(t.reduce_scatter, i);
    inter = std::max(inter, scatters) + at(t.all_to_all, i);
  }
  return Seconds(inter);
}

DegreeChoice best_degree(const MoeTimes& times, CommStreams streams, Seconds all_reduce, int largest) {
  return search(times, streams, all_reduce.value(), largest, [](int i) { return i + 1; });
}

DegreeChoice best_degree(const MoeTimes& times, CommStreams streams, Seconds all_reduce,
                         std::span<const int> candidates) {
  check(!candidates.empty(), "no candidate degree");
  return search(times, streams, all_reduce.value(), static_cast<int>(candidates.size()),
                [&](int i) { return candidates[static_cast<std::size_t>(i)]; });
}

PaperCase paper_case(const MoeTimes& times, int degree, Seconds all_reduce) {
  const auto [A, G, S, E] = chunk_at(times, degree);
  const double r = degree, R = all_reduce.value();
  const bool Q1 = A > G;
  const bool Q2 = r * E > 2 * (r - 1) * A;
  const bool Q3 = r * E > (r - 1) * (G + S);
  const bool Q4 = R > G + S;
  const bool Q5 = R > r * E - 2 * (r - 1) * A + G + S;  // and Q7, which the paper states again for !Q1
  const bool Q6 = R > r * (G + S) - 2 * (r - 1) * A;
  const double T1 = 2 * r * A + R, T2 = 2 * A + G + S + r * E, T3 = 2 * r * A + G + S, T4 = 2 * A + r * (G + S);
  if (Q1 ? Q2 : Q3) return Q5 ? PaperCase{1, Seconds(T1)} : PaperCase{2, Seconds(T2)};
  if (Q1) return Q4 ? PaperCase{1, Seconds(T1)} : PaperCase{3, Seconds(T3)};
  return Q6 ? PaperCase{1, Seconds(T1)} : PaperCase{4, Seconds(T4)};
}

std::string_view describe_case(int number) {
  constexpr std::array<std::string_view, 4> words{
      "all-to-all and gradient all-reduce fill the network", "expert computation is the bottleneck",
      "all-to-all is the bottleneck", "gathers and scatters inside the nodes are the bottleneck"};
  check(number >= 1 && number <= 4, "FSMoE has four cases");
  return words[static_cast<std::size_t>(number - 1)];
}

}  // namespace dovetail::planners
