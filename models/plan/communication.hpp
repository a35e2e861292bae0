// SPDX-License-Identifier: Apache-2.0
// The vocabulary of communication: collective operations, the links that they use, and how messages are sent.
#pragma once
#include <array>
#include <string_view>
#include <utility>

namespace dovetail {

// Send: of one rank to one other.
enum class Collective { None, AllToAll, AllGather, ReduceScatter, AllReduce, Broadcast, Reduce, Send };
inline constexpr std::array<std::pair<std::string_view, Collective>, 8> collective_names{
    {{"none", Collective::None},
     {"all_to_all", Collective::AllToAll},
     {"all_gather", Collective::AllGather},
     {"reduce_scatter", Collective::ReduceScatter},
     {"all_reduce", Collective::AllReduce},
     {"broadcast", Collective::Broadcast},
     {"reduce", Collective::Reduce},
     {"send", Collective::Send}}};

// Links a collective uses: those inside a node or the network between nodes.
enum class LinkKind { Intra, Inter };
inline constexpr std::array<std::pair<std::string_view, LinkKind>, 2> link_kind_names{
    {{"intra", LinkKind::Intra}, {"inter", LinkKind::Inter}}};

// How messages are sent. BySize: for each op whichever costs less.
enum class Protocol { Simple, LowLatency, BySize };
inline constexpr std::array<std::pair<std::string_view, Protocol>, 3> protocol_names{
    {{"simple", Protocol::Simple}, {"low_latency", Protocol::LowLatency}, {"by_size", Protocol::BySize}}};

}  // namespace dovetail
