// SPDX-License-Identifier: Apache-2.0
// Work of a device that lasts as long as a model says: deadlines chain from op to op, as Emulation's do on hosts.
#pragma once
#include "exec/device/element.hpp"

namespace dovetail::exec {

// A wait until `until` after the latest of some moments. All times in ns, by the device's clock.
struct Hold {
  // On the device: how many ops overran, when the step began, and by op its virtual finish.
  static constexpr std::int64_t overruns = 0, begin = 1, first_op = 2;
  std::int64_t* moments = nullptr;
  const std::int32_t* before = nullptr;  // which of them; null: the first alone
  std::int64_t count = 0;
  std::int64_t until = 0;
  std::int32_t finish = -1;    // which of them is the op's virtual finish, if this is an op
  std::int64_t tolerance = 0;  // how late the end may come without counting as an overrun
};

// When the work ends that begins `now`: never later than `until` from now on.
DOVETAIL_BOTH inline std::int64_t deadline(const Hold& hold, std::int64_t now) {
  std::int64_t ready = hold.before == nullptr ? hold.moments[0] : 0;
  for (std::int64_t i = 0; i < (hold.before == nullptr ? 0 : hold.count); ++i) {
    const std::int64_t moment = hold.moments[hold.before[i]];
    ready = moment > ready ? moment : ready;
  }
  return (ready < now ? ready : now) + hold.until;
}

// At the end of an op, whose deadline was `end`: leaves its virtual finish, which is the deadline or, after an overrun,
// as much of the delay as successors cannot catch up. True: it overran.
DOVETAIL_BOTH inline bool finish(const Hold& hold, std::int64_t end, std::int64_t now) {
  if (hold.finish < 0) return false;
  const bool late = now > end + hold.tolerance;
  hold.moments[hold.finish] = late ? now - hold.tolerance : end;
  return late;
}

// When `done` of `all` bytes are due in an exchange from `begin` to `end`: at once where the end has passed. In double,
// because the product of a time since 1970 and of bytes exceeds 2^63.
DOVETAIL_BOTH inline std::int64_t due(std::int64_t begin, std::int64_t end, std::int64_t done, std::int64_t all) {
  if (end <= begin) return begin;
  const double share = static_cast<double>(done) / static_cast<double>(all);
  return begin + static_cast<std::int64_t>(static_cast<double>(end - begin) * share);
}

// Bytes that an exchange moves from one place to another.
struct Piece {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};

// The exchange of a rank that stands for all: copies as many bytes as would arrive, evenly over its modelled time.
// Blocks of a GPU each take a multiprocessor for themselves, as those of NCCL do, until the end.
struct HeldExchange {
  Hold hold;
  const Piece* pieces = nullptr;  // on the device; may be none
  std::int64_t count = 0;
  std::int64_t bytes = 0;        // of all pieces
  std::int32_t* done = nullptr;  // on the device, 0 between exchanges: how many blocks have finished
  int blocks = 1;
};

// A part of a block's share, of one piece.
struct Slice {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
  std::int64_t done;  // bytes of the share up to its end
};
constexpr std::int64_t largest_slice = 1 << 16;

// The bytes [first, last) of all pieces, one behind the other, that one of the blocks copies.
class Share {
 public:
  DOVETAIL_BOTH Share(const HeldExchange& exchange, std::int64_t block) : exchange_(exchange) {
    constexpr std::int64_t unit = 16;  // a copy is quickest from and to multiples of it
    const std::int64_t all = (exchange.bytes + unit - 1) / unit, end = all * (block + 1) / exchange.blocks * unit;
    first_ = at_ = all * block / exchange.blocks * unit;
    last_ = end < exchange.bytes ? end : exchange.bytes;
  }
  DOVETAIL_BOTH std::int64_t bytes() const { return last_ - first_; }

  // The next slice; false: that was all.
  DOVETAIL_BOTH bool next(Slice& slice) {
    while (piece_ < exchange_.count && before_ < last_) {
      const Piece piece = exchange_.pieces[piece_];
      const std::int64_t end = last_ - before_ < piece.bytes ? last_ - before_ : piece.bytes;
      if (at_ < end) {
        const std::int64_t bytes = end - at_ < largest_slice ? end - at_ : largest_slice;
        slice = {piece.to + at_, piece.from + at_, bytes, before_ + at_ + bytes - first_};
        at_ += bytes;
        return true;
      }
      before_ += piece.bytes;
      ++piece_;
      at_ = first_ > before_ ? first_ - before_ : 0;
    }
    return false;
  }

 private:
  const HeldExchange& exchange_;
  std::int64_t first_, last_;
  std::int64_t piece_ = 0, before_ = 0, at_;  // bytes of the pieces before this one, and of it that were had
};

}  // namespace dovetail::exec
