// SPDX-License-Identifier: Apache-2.0
#include "exec/host/relayed_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "exec/host/host_kernels.hpp"
#include "exec/host/row_exchange.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail::exec {
namespace {

// One message to or from each of some members: `heads` says how many of its rows are of each source, and the rows
// follow one another. A row is its token, the places it is for (none on the way back), and its elements.
template <class Scalar>
struct Message {
  int peer = 0;
  std::vector<Scalar> heads, rows;
};
template <class Scalar>
using Messages = std::vector<Message<Scalar>>;

template <class Scalar>
class Relay {
 public:
  explicit Relay(OpContext<Scalar>& c)
      : c_(c),
        shape_(c.shape),
        members_(c.communicator->size()),
        own_(c.communicator->rank()),
        node_(c.schedule.node_ranks),
        nodes_(members_ / node_),
        index_(own_ % node_),
        local_(shape_.experts / members_),
        room_(c.op.rows.size()),
        width_(c.tensor(c.source()).elements / (shape_.experts * room_)) {}

  void to_experts() {
    places_ = shape_.top_k;
    const Messages<Scalar> arriving = exchanged(for_nodes());
    const Messages<Scalar> here = exchanged(for_ranks(arriving));
    Scalar* const result = c_.data(c_.result());
    Scalar* const tokens = c_.data(c_.find_write(TensorKind::RowTokens | gradient_of(TensorKind::RowTokens)));
    std::fill_n(result, c_.tensor(c_.result()).elements, Scalar(0));
    for_each_row(here, [&](int relay, int node, const Scalar* row) {
      const int source = node * node_ + relay % node_;
      for_each_place(row, [&](std::int64_t place) {
        if (owner(place) != own_) return;
        const std::int64_t at = (source * local_ + expert(place) % local_) * room_ + slot(place);
        std::copy_n(elements(row), width_, result + at * width_);
        if (tokens != nullptr) tokens[at] = row[0];
      });
    });
  }

  void to_tokens() {
    places_ = 0;
    const Messages<Scalar> arriving = exchanged(sums_of_rank());
    const Messages<Scalar> here = exchanged(sums_of_node(arriving));
    Scalar* const result = c_.data(c_.result());
    std::fill_n(result, c_.tensor(c_.result()).elements, Scalar(0));
    for_each_row(here, [&](int relay, int /*source*/, const Scalar* row) {
      std::copy_n(elements(row), width_,
                  result + first_row_at(static_cast<std::int64_t>(row[0]), relay / node_) * width_);
    });
  }

 private:
  // The rows of some sources on their way to one member, with at most one for each token and source.
  class Outgoing {
   public:
    Outgoing(const Relay& relay, int peer, int sources)
        : relay_(relay), message_{peer, std::vector<Scalar>(static_cast<std::size_t>(sources)), {}} {}

    void append(int source, const Scalar* row) {
      message_.heads[static_cast<std::size_t>(source)] += Scalar(1);
      message_.rows.insert(message_.rows.end(), row, row + relay_.row_size());
    }
    // Starts the rows of a source, whose tokens may come several times.
    void begin_sums() { at_.assign(static_cast<std::size_t>(relay_.shape_.tokens), -1); }
    void add(int source, std::int64_t token, const Scalar* elements) {
      std::int64_t& at = at_[static_cast<std::size_t>(token)];
      if (at < 0) {
        at = std::ssize(message_.rows);
        message_.heads[static_cast<std::size_t>(source)] += Scalar(1);
        message_.rows.push_back(static_cast<Scalar>(token));
        message_.rows.insert(message_.rows.end(), elements, elements + relay_.width_);
        return;
      }
      Scalar* const sum = message_.rows.data() + at + 1;
      for (std::int64_t i = 0; i < relay_.width_; ++i) sum[i] += elements[i];
    }
    Message<Scalar> take() { return std::move(message_); }

   private:
    const Relay& relay_;
    Message<Scalar> message_;
    std::vector<std::int64_t> at_;  // by token: its sum among the rows; -1: none yet
  };

  std::int64_t row_size() const { return 1 + places_ + width_; }
  const Scalar* elements(const Scalar* row) const { return row + 1 + places_; }
  std::int64_t expert(std::int64_t place) const { return place / shape_.capacity; }
  std::int64_t owner(std::int64_t place) const { return expert(place) / local_; }
  std::int64_t slot(std::int64_t place) const { return place % shape_.capacity + shape_.first_slot - c_.op.rows.first; }
  // The place of a choice, if the op's rows hold it; else -1.
  std::int64_t place_of(std::int64_t entry) const {
    const RoutedChoice<Scalar> choice(c_.read(TensorKind::Routing), entry);
    const bool here = !choice.dropped() && slot(choice.place) >= 0 && slot(choice.place) < room_;
    return here ? choice.place : -1;
  }

  template <class Visit>
  void for_each_place(const Scalar* row, Visit visit) const {
    for (std::int64_t i = 1; i <= places_; ++i)
      if (row[i] >= 0) visit(static_cast<std::int64_t>(row[i]));
  }
  // visit(peer, source as its message counts them, row).
  template <class Visit>
  void for_each_row(const Messages<Scalar>& messages, Visit visit) const {
    for (const Message<Scalar>& message : messages) {
      const Scalar* row = message.rows.data();
      for (std::size_t source = 0; source < message.heads.size(); ++source)
        for (Scalar i = 0; i < message.heads[source]; ++i, row += row_size())
          visit(message.peer, static_cast<int>(source), row);
    }
  }

  Messages<Scalar> for_nodes() const {
    Messages<Scalar> messages;
    std::vector<Scalar> row(static_cast<std::size_t>(row_size()));
    for (int node = 0; node < nodes_; ++node) {
      Outgoing out(*this, node * node_ + index_, 1);
      for (std::int64_t token = 0; token < shape_.tokens; ++token) {
        row[0] = static_cast<Scalar>(token);
        std::int64_t some = -1;
        for (std::int64_t j = 0; j < places_; ++j) {
          const std::int64_t place = place_of(token * places_ + j);
          const bool goes = place >= 0 && owner(place) / node_ == node;
          row[static_cast<std::size_t>(1 + j)] = static_cast<Scalar>(goes ? place : -1);
          if (goes) some = place;
        }
        if (some < 0) continue;
        std::copy_n(c_.data(c_.source()) + (expert(some) * room_ + slot(some)) * width_, width_,
                    row.begin() + static_cast<std::ptrdiff_t>(1 + places_));
        out.append(0, row.data());
      }
      messages.push_back(out.take());
    }
    return messages;
  }

  // Rows that arrive from the ranks of the same place go on to those ranks of this node that have an expert of it.
  Messages<Scalar> for_ranks(const Messages<Scalar>& arriving) const {
    Messages<Scalar> messages;
    for (int i = 0; i < node_; ++i) {
      const int peer = own_ / node_ * node_ + i;
      Outgoing out(*this, peer, nodes_);
      for_each_row(arriving, [&](int source, int, const Scalar* row) {
        bool goes = false;
        for_each_place(row, [&](std::int64_t place) { goes = goes || owner(place) == peer; });
        if (goes) out.append(source / node_, row);
      });
      messages.push_back(out.take());
    }
    return messages;
  }

  // This rank's sums for the tokens of all ranks, to the rank of this node that has their place.
  Messages<Scalar> sums_of_rank() const {
    const Scalar* const rows = c_.data(c_.source());
    const Scalar* const tokens = c_.read(TensorKind::RowTokens | gradient_of(TensorKind::RowTokens));
    const std::vector<std::int64_t> taken =
        taken_rows<Scalar>(c_.read(TensorKind::ArrivingCounts), shape_.experts, c_.op.rows);
    Messages<Scalar> messages;
    for (int i = 0; i < node_; ++i) {
      Outgoing out(*this, own_ / node_ * node_ + i, nodes_);
      for (int node = 0; node < nodes_; ++node) {
        out.begin_sums();
        const std::int64_t first = std::int64_t{node * node_ + i} * local_;
        for (std::int64_t block = first; block < first + local_; ++block)
          for (std::int64_t at = block * room_; at < block * room_ + taken[static_cast<std::size_t>(block)]; ++at)
            out.add(node, static_cast<std::int64_t>(tokens[at]), rows + at * width_);
      }
      messages.push_back(out.take());
    }
    return messages;
  }

  // The node's sums for the tokens of the ranks of this place.
  Messages<Scalar> sums_of_node(const Messages<Scalar>& arriving) const {
    Messages<Scalar> messages;
    for (int node = 0; node < nodes_; ++node) {
      Outgoing out(*this, node * node_ + index_, 1);
      out.begin_sums();
      for_each_row(arriving, [&](int, int source, const Scalar* row) {
        if (source == node) out.add(0, static_cast<std::int64_t>(row[0]), elements(row));
      });
      messages.push_back(out.take());
    }
    return messages;
  }

  // The row of the result for the first choice that a token has on a node.
  std::int64_t first_row_at(std::int64_t token, int node) const {
    for (std::int64_t j = 0; j < shape_.top_k; ++j)
      if (const std::int64_t place = place_of(token * shape_.top_k + j); place >= 0 && owner(place) / node_ == node)
        return expert(place) * room_ + slot(place);
    throw InternalError("a sum comes back to a token that has no expert there");
  }

  // The numbers of rows go first, since receivers do not know them. All members send to the same places.
  Messages<Scalar> exchanged(const Messages<Scalar>& sent) {
    Messages<Scalar> received;
    for (const Message<Scalar>& message : sent)
      received.push_back({message.peer, std::vector<Scalar>(message.heads.size()), {}});
    send(sent, received, &Message<Scalar>::heads);
    for (Message<Scalar>& message : received) {
      const Scalar rows = std::accumulate(message.heads.begin(), message.heads.end(), Scalar(0));
      message.rows.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(row_size()));
    }
    send(sent, received, &Message<Scalar>::rows);
    count(sent);
    return received;
  }

  void send(const Messages<Scalar>& sent, Messages<Scalar>& received, std::vector<Scalar> Message<Scalar>::*part) {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (const Message<Scalar>& m : sent) sends.push_back({m.peer, (m.*part).data(), std::ssize(m.*part)});
    for (Message<Scalar>& m : received) receives.push_back({m.peer, (m.*part).data(), std::ssize(m.*part)});
    c_.ready = c_.communicator->send_receive(sends, receives, element_of<Scalar>(), c_.ready);
  }

  // Tokens, places and numbers of rows are fp32.
  void count(const Messages<Scalar>& sent) {
    const double number = size_of(DType::Fp32).value(), element = size_of(c_.tensor(c_.source()).dtype).value();
    const double row = static_cast<double>(width_) * element + static_cast<double>(1 + places_) * number;
    for (const Message<Scalar>& m : sent) {
      if (m.peer == own_) continue;
      const std::int64_t rows = std::ssize(m.rows) / row_size();
      c_.traffic.sent += static_cast<double>(rows) * row + static_cast<double>(m.heads.size()) * number;
    }
  }

  OpContext<Scalar>& c_;
  const LayerShape& shape_;
  int members_, own_, node_, nodes_, index_;
  std::int64_t local_, room_, width_;  // width_: elements of a row as it is sent
  std::int64_t places_ = 0;            // of a row
};

}  // namespace

template <class Scalar>
void exchange_relayed(OpContext<Scalar>& c) {
  Relay<Scalar> relay(c);
  if (to_owners(c.op))
    relay.to_experts();
  else
    relay.to_tokens();
  const auto others = static_cast<double>(c.communicator->size() - 1) / c.communicator->size();
  const Tensor& rows = c.tensor(c.source());
  c.traffic.padded = others * static_cast<double>(rows.elements) * size_of(rows.dtype).value();
}

template void exchange_relayed(OpContext<float>&);
template void exchange_relayed(OpContext<double>&);

}  // namespace dovetail::exec
