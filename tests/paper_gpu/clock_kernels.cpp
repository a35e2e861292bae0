// SPDX-License-Identifier: Apache-2.0
#include "tests/paper_gpu/clock_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/paper_gpu/memory.hpp"
#include "tests/paper_gpu/report.hpp"
#include "tests/paper_gpu/settings.hpp"

namespace paper {
namespace {

using dovetail::exec::due;
using dovetail::exec::HeldExchange;
using dovetail::exec::Hold;
using dovetail::exec::Piece;
using dovetail::exec::Share;
using dovetail::exec::Slice;

constexpr std::int64_t moment_bytes = sizeof(std::int64_t), longest_wait = 1'000'000'000;

void check_wait(std::int64_t wait, const std::string& who) {
  if (wait <= longest_wait) return;
  problem(who + " waits for more than a second");
}

// The same with addresses of the host's, if all that it names is memory. Indices are read when the work begins.
bool on_host(Hold& hold, const std::string& who) {
  const auto moment = [&](std::int64_t at) { return reachable(hold.moments + at, moment_bytes, who); };
  bool good = moment(Hold::overruns);
  if (hold.before != nullptr) {
    if (!reachable(hold.before, hold.count * std::int64_t{sizeof *hold.before}, who + ", its table,")) return false;
    hold.before = real(hold.before);
    for (std::int64_t i = 0; i < hold.count; ++i) good = good && moment(hold.before[i]);
  }
  if (hold.finish >= 0) good = good && moment(hold.finish);
  if (good) hold.moments = real(hold.moments);
  return good;
}

struct Exchange {
  HeldExchange given, here;  // `here` has addresses of the host's, but in its pieces
  std::vector<Piece> pieces;
  std::string name;
  std::int64_t begin = 0, end = 0;
  bool good = false;
};

std::string exchange_name(const HeldExchange& e) {
  return "an exchange of " + std::to_string(e.bytes) + " bytes on " + std::to_string(e.blocks) + " blocks";
}

bool read_pieces(Exchange& x) {
  const HeldExchange& e = x.given;
  if (!reachable(e.pieces, e.count * std::int64_t{sizeof(Piece)}, x.name + ", its table,")) return false;
  x.pieces.clear();
  if (e.count > 0) x.pieces.assign(real(e.pieces), real(e.pieces) + e.count);
  x.here.pieces = x.pieces.data();
  std::int64_t sum = 0;
  bool good = true;
  for (const Piece& piece : x.pieces) {
    good = reachable(piece.to, piece.bytes, x.name + " writes") && good;
    good = reachable(piece.from, piece.bytes, x.name + " reads") && good;
    sum += piece.bytes;
  }
  if (sum != e.bytes) problem(x.name + " has pieces of " + std::to_string(sum) + " bytes");
  return good && sum == e.bytes;
}

// How long a block waits at most, by what is due after each slice.
std::int64_t longest_wait_of(const Exchange& x) {
  std::int64_t longest = x.end - x.begin;
  for (std::int64_t block = 0; block < x.here.blocks; ++block) {
    Share share(x.here, block);
    for (Slice slice; share.next(slice);)
      longest = std::max(longest, due(x.begin, x.end, slice.done, share.bytes()) - x.begin);
  }
  return longest;
}

double begin_exchange(Exchange& x, double now) {
  x.here = x.given;
  x.good = on_host(x.here.hold, x.name);
  x.good = reachable(x.given.done, sizeof *x.given.done, x.name + ", its count,") && x.good;
  x.good = read_pieces(x) && x.good;
  double seconds =
      settings().kernel_seconds + static_cast<double>(x.given.bytes) / (x.given.blocks * settings().exchange_bandwidth);
  if (!x.good) return now + seconds;
  x.begin = ticks(now);
  x.end = deadline(x.here.hold, x.begin);
  const std::int64_t wait = longest_wait_of(x);
  check_wait(wait, x.name);
  return now + std::max(seconds, 1e-9 * static_cast<double>(wait));
}

void end_exchange(Exchange& x, double now) {
  if (!x.good) return;
  std::int32_t& done = *real(x.given.done);
  if (done != 0) problem(x.name + " begins with " + std::to_string(done) + " blocks done");
  done = 0;
  counts().not_copied += x.given.bytes > settings().real_bytes ? 1 : 0;
  for (std::int64_t block = 0; block < x.given.blocks && x.given.bytes <= settings().real_bytes; ++block) {
    Share share(x.here, block);
    for (Slice slice; share.next(slice);)
      std::memcpy(real(slice.to), real(slice.from), static_cast<std::size_t>(slice.bytes));
  }
  if (finish(x.here.hold, x.end, ticks(now))) ++x.here.hold.moments[Hold::overruns];
}

}  // namespace

Work mark_work(std::int64_t* moment) {
  Work work;
  work.name = "mark";
  work.seconds = settings().kernel_seconds;
  work.accesses = {{moment, moment_bytes, "mark writes"}};
  work.end = [moment](double now) {
    if (const Allocation* const a = allocation_of(moment); a != nullptr && !a->freed) *real(moment) = ticks(now);
  };
  return work;
}

Work hold_work(const Hold& hold) {
  Work work;
  work.name = "hold";
  work.begin = [hold](double now) {
    Hold here = hold;
    now += settings().kernel_seconds;
    if (!on_host(here, "a hold")) return now;
    const std::int64_t wait = deadline(here, ticks(now)) - ticks(now);
    check_wait(wait, "a hold");
    return now + std::max(0., 1e-9 * static_cast<double>(wait));
  };
  return work;
}

Work exchange_work(const HeldExchange& exchange) {
  const auto state = std::make_shared<Exchange>();
  state->given = exchange;
  state->given.blocks = std::clamp(exchange.blocks, 1, settings().multiprocessors);
  state->name = exchange_name(exchange);
  Work work;
  work.name = "exchange";
  work.unit = Unit::Exchange;
  work.multiprocessors = state->given.blocks;
  work.begin = [state](double now) { return begin_exchange(*state, now); };
  work.end = [state](double now) { end_exchange(*state, now); };
  return work;
}

}  // namespace paper
