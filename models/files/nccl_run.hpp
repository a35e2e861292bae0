// SPDX-License-Identifier: Apache-2.0
// One test of nccl-tests, as its output has it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"
#include "models/plan/communication.hpp"

namespace dovetail {

inline constexpr int most_nccl_ranks = 1'000'000;

struct Printed {
  double value = 0;
  double half_digit = 0;  // half a unit of the last digit: by so much rounding may have changed it
};

// One size, out of place.
struct NcclTestsRow {
  Location place;
  double size = 0;  // bytes
  Printed us;
  double count = 0;                                                     // of elements; 0: the output does not say
  int element = 0;                                                      // bytes of one
  std::optional<Printed> algorithm_bandwidth = {}, bus_bandwidth = {};  // GB/s
};

struct ListedRank {
  Location place;
  int rank = 0;
  std::string host, group;
  int device = -1;  // -1: not listed
};

// One collective over one group. Sizes are bytes as CollectiveCost counts them, which is how nccl-tests count too.
struct NcclTestsRun {
  std::string file;
  int line = 1;                          // where it begins in the file
  std::optional<Collective> collective;  // not in the text of older versions
  std::vector<ListedRank> listed;        // of all groups
  std::vector<NcclTestsRow> rows;        // without those of no bytes
  int ranks = 0, nodes = 0;              // 0: the output does not say
  int members_per_node = 0;              // 0: it does not say, or not the same number on every node
};

// The collective of a program such as build/all_reduce_perf or alltoall_perf_mpi. InputError at `where` for others.
Collective nccl_collective(const Location& where, std::string_view program);

// "half": 2. InputError at `where` for what is no type.
int nccl_element_bytes(const Location& where, std::string_view type);

// The value of "12.30" or "1.23e+01" with what rounding may have changed; nothing where the text is no finite number.
std::optional<Printed> printed_number(std::string_view text);

}  // namespace dovetail
