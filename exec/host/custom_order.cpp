// SPDX-License-Identifier: Apache-2.0
#include "exec/host/custom_order.hpp"

#include "exec/host/row_copies.hpp"

namespace dovetail::exec {
namespace {

OrderSizes order_sizes(const LayerShape& s) {
  return {s.tokens, s.hidden, s.experts, s.capacity};
}

struct Placed {
  std::vector<PlacedChoice> choices;
  std::vector<std::int64_t> entries;  // of the routing
};
template <class Scalar>
Placed placed(const LayerShape& s, const Scalar* routing) {
  Placed all;
  for_each_routed(s, routing, [&](std::int64_t entry, const RoutedChoice<Scalar>& c) {
    all.choices.push_back({c.token, c.place / s.capacity, c.place % s.capacity, static_cast<double>(c.score)});
    all.entries.push_back(entry);
  });
  return all;
}

std::vector<double> no_rows(const LayerShape& s, std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count * s.hidden));
}
template <class Scalar>
std::vector<double> token_rows(const LayerShape& s, Matrix<Scalar> tokens) {
  return {tokens.data, tokens.data + s.tokens * s.hidden};
}

// (E, C, M) to every copy of the rows, and from the sum of all copies.
template <class Scalar>
void to_chunks(const LayerShape& s, const std::vector<double>& rows, std::span<const Chunk<Scalar>> chunks) {
  clear(s, chunks);
  for (std::int64_t place = 0; place < s.slots(); ++place)
    for_each_copy(s, chunks, place, [&](Scalar* to) {
      for (std::int64_t m = 0; m < s.hidden; ++m)
        to[m] = static_cast<Scalar>(rows[static_cast<std::size_t>(place * s.hidden + m)]);
    });
}
template <class Scalar>
std::vector<double> from_chunks(const LayerShape& s, std::span<const Chunk<const Scalar>> chunks) {
  std::vector<double> rows = no_rows(s, s.slots());
  for (std::int64_t place = 0; place < s.slots(); ++place)
    for_each_copy(s, chunks, place, [&](const Scalar* from) {
      for (std::int64_t m = 0; m < s.hidden; ++m) rows[static_cast<std::size_t>(place * s.hidden + m)] += from[m];
    });
  return rows;
}

}  // namespace

template <class Scalar>
void custom_encode(const LayerShape& s, Matrix<const Scalar> moe_input, const Scalar* routing,
                   std::span<const Chunk<Scalar>> encoded) {
  std::vector<double> rows = no_rows(s, s.slots());
  s.extensions.order->encode(order_sizes(s), placed(s, routing).choices, token_rows(s, moe_input), rows);
  to_chunks(s, rows, encoded);
}

template <class Scalar>
void custom_encode_backward(const LayerShape& s, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                            Matrix<Scalar> d_moe_input) {
  std::vector<double> d_tokens = no_rows(s, s.tokens);
  s.extensions.order->encode_backward(order_sizes(s), placed(s, routing).choices, from_chunks(s, d_encoded), d_tokens);
  for (std::size_t i = 0; i < d_tokens.size(); ++i) d_moe_input.data[i] = static_cast<Scalar>(d_tokens[i]);
}

template <class Scalar>
void custom_decode(const LayerShape& s, Matrix<const Scalar> moe_input, const Scalar* routing,
                   std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output) {
  std::vector<double> results = no_rows(s, s.tokens);
  s.extensions.order->decode(order_sizes(s), placed(s, routing).choices, from_chunks(s, combined), results);
  for (std::size_t i = 0; i < results.size(); ++i)
    output.data[i] = static_cast<Scalar>(static_cast<double>(moe_input.data[i]) + results[i]);
}

template <class Scalar>
void custom_decode_backward(const LayerShape& s, Matrix<const Scalar> output_gradient, const Scalar* routing,
                            std::span<const Chunk<const Scalar>> combined, Scalar* score_gradient,
                            std::span<const Chunk<Scalar>> d_combined) {
  const auto [choices, entries] = placed(s, routing);
  std::vector<double> d_rows = no_rows(s, s.slots()), d_scores(choices.size());
  s.extensions.order->decode_backward(order_sizes(s), choices, from_chunks(s, combined), token_rows(s, output_gradient),
                                      d_rows, d_scores);
  to_chunks(s, d_rows, d_combined);
  std::fill_n(score_gradient, s.routing_entries(), Scalar(0));
  for (std::size_t i = 0; i < entries.size(); ++i) score_gradient[entries[i]] = static_cast<Scalar>(d_scores[i]);
}

template void custom_encode(const LayerShape&, Matrix<const float>, const float*, std::span<const Chunk<float>>);
template void custom_encode(const LayerShape&, Matrix<const double>, const double*, std::span<const Chunk<double>>);
template void custom_encode_backward(const LayerShape&, const float*, std::span<const Chunk<const float>>,
                                     Matrix<float>);
template void custom_encode_backward(const LayerShape&, const double*, std::span<const Chunk<const double>>,
                                     Matrix<double>);
template void custom_decode(const LayerShape&, Matrix<const float>, const float*, std::span<const Chunk<const float>>,
                            Matrix<float>);
template void custom_decode(const LayerShape&, Matrix<const double>, const double*,
                            std::span<const Chunk<const double>>, Matrix<double>);
template void custom_decode_backward(const LayerShape&, Matrix<const float>, const float*,
                                     std::span<const Chunk<const float>>, float*, std::span<const Chunk<float>>);
template void custom_decode_backward(const LayerShape&, Matrix<const double>, const double*,
                                     std::span<const Chunk<const double>>, double*, std::span<const Chunk<double>>);

}  // namespace dovetail::exec
