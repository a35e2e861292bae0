// SPDX-License-Identifier: Apache-2.0
#include "exec/host/row_exchange.hpp"

#include <algorithm>

#include "exec/transport/sums.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// The blocks of a tensor: each has room for the op's capacity rows, of which the first ones are taken.
template <class Scalar>
class CountedBlocks {
 public:
  CountedBlocks(const OpContext<Scalar>& c, TensorId tensor, TensorId counts)
      : data_(c.data(tensor)),
        blocks_(c.tensor(counts).elements),
        room_(c.op.rows.size()),
        row_(c.tensor(tensor).elements / (blocks_ * room_)),
        taken_(taken_rows<Scalar>(c.data(counts), blocks_, c.op.rows)) {
    check(row_ * blocks_ * room_ == c.tensor(tensor).elements, "rows of another number of blocks than of counts");
  }

  // The elements of part `i` of `parts` equal ones: those of taken rows, and those that there is room for.
  std::int64_t elements(std::int64_t i, std::int64_t parts) const {
    std::int64_t sum = 0;
    for_each(i, parts, [&](Scalar*, std::int64_t count) { sum += count; });
    return sum;
  }
  std::int64_t padded(std::int64_t parts) const { return blocks_ / parts * room_ * row_; }

  std::vector<Scalar> pack(std::int64_t i, std::int64_t parts) const {
    std::vector<Scalar> packed;
    packed.reserve(static_cast<std::size_t>(elements(i, parts)));
    for_each(i, parts,
             [&](const Scalar* first, std::int64_t count) { packed.insert(packed.end(), first, first + count); });
    return packed;
  }
  void unpack(std::int64_t i, std::int64_t parts, const std::vector<Scalar>& packed) const {
    const Scalar* from = packed.data();
    for_each(i, parts, [&](Scalar* first, std::int64_t count) {
      std::copy_n(from, count, first);
      from += count;
    });
  }
  void clear() const { std::fill_n(data_, blocks_ * room_ * row_, Scalar(0)); }

 private:
  template <class Visit>
  void for_each(std::int64_t i, std::int64_t parts, Visit visit) const {
    const std::int64_t each = blocks_ / parts;
    for (std::int64_t block = i * each; block < (i + 1) * each; ++block)
      visit(data_ + block * room_ * row_, taken_[static_cast<std::size_t>(block)] * row_);
  }

  Scalar* data_;
  std::int64_t blocks_, room_, row_;  // row_: elements of a row
  std::vector<std::int64_t> taken_;
};

}  // namespace

bool moves_counted_rows(const OpRoles& op) {
  return op.op.kind != OpKind::ExchangeCounts && op.find_read(roles::row_counts).exists();
}

template <class Scalar>
std::vector<std::int64_t> taken_rows(const Scalar* counts, std::int64_t blocks, RowRange rows) {
  std::vector<std::int64_t> taken;
  for (std::int64_t i = 0; i < blocks; ++i)
    taken.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(counts[i]) - rows.first, 0, rows.size()));
  return taken;
}

template <class Scalar>
void exchange_rows(OpContext<Scalar>& c) {
  const std::vector<TensorId> counts = c.all_reads(roles::row_counts);
  check(counts.size() == 2, "counts of what is sent, and of what arrives");
  const CountedBlocks<Scalar> from(c, c.source(), counts[0]), to(c, c.result(), counts[1]);
  const Collective kind = c.op.collective();
  const std::int64_t members = c.communicator->size();
  // A gather sends all blocks to each member and receives a part of them from each; a sum the other way round.
  const std::int64_t sent_parts = kind == Collective::AllGather ? 1 : members,
                     arriving_parts = kind == Collective::ReduceScatter ? 1 : members;
  const auto part = [](std::int64_t member, std::int64_t parts) { return parts == 1 ? 0 : member; };
  const Bytes element = size_of(c.tensor(c.source()).dtype);
  std::vector<std::vector<Scalar>> sent, arriving;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::int64_t member = 0; member < members; ++member) {
    sent.push_back(from.pack(part(member, sent_parts), sent_parts));
    arriving.emplace_back(static_cast<std::size_t>(to.elements(part(member, arriving_parts), arriving_parts)));
    sends.push_back({static_cast<int>(member), sent.back().data(), std::ssize(sent.back())});
    receives.push_back({static_cast<int>(member), arriving.back().data(), std::ssize(arriving.back())});
    if (member == c.communicator->rank()) continue;
    c.traffic.sent += static_cast<double>(std::ssize(sent.back())) * element.value();
    c.traffic.padded += static_cast<double>(from.padded(sent_parts)) * element.value();
  }
  c.ready = c.communicator->send_receive(sends, receives, element_of<Scalar>(), c.ready);
  to.clear();
  if (kind == Collective::ReduceScatter) {
    std::vector<const Scalar*> summands;
    for (const std::vector<Scalar>& packed : arriving) summands.push_back(packed.data());
    std::vector<Scalar> sum(arriving.front().size());
    sum_in_order<Scalar>(summands, std::ssize(sum), sum.data());
    to.unpack(0, 1, sum);
  } else {
    for (std::int64_t member = 0; member < members; ++member)
      to.unpack(member, members, arriving[static_cast<std::size_t>(member)]);
  }
}

template std::vector<std::int64_t> taken_rows(const float*, std::int64_t, RowRange);
template std::vector<std::int64_t> taken_rows(const double*, std::int64_t, RowRange);
template void exchange_rows(OpContext<float>&);
template void exchange_rows(OpContext<double>&);

}  // namespace dovetail::exec
