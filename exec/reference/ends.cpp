// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/ends.hpp"

#include <algorithm>
#include <cmath>

#include "exec/step/norm_rule.hpp"
#include "exec/step/word_rule.hpp"

namespace dovetail::exec {
namespace {

double inverse_root(const double* x, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += x[i] * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(count) + norm_epsilon);
}

// The logits of a row, one for each word, and then their softmax with the logarithm of the sum.
struct WordScores {
  Values probability;
  double loss = 0;
  WordScores(const Values& head, const double* row, std::size_t hidden, std::size_t next) {
    for (std::size_t word = 0; word < head.size() / hidden; ++word) {
      double logit = 0;
      for (std::size_t i = 0; i < hidden; ++i) logit += row[i] * head[word * hidden + i];
      probability.push_back(logit);
    }
    const double largest = *std::ranges::max_element(probability), right = probability[next];
    double sum = 0;
    for (double& p : probability) sum += p = std::exp(p - largest);
    for (double& p : probability) p /= sum;
    loss = largest + std::log(sum) - right;
  }
};

}  // namespace

Values norm(std::span<const double> w, const Values& x) {
  const std::size_t m = w.size();
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += m) {
    const double r = inverse_root(&x[row], m);
    for (std::size_t i = 0; i < m; ++i) y[row + i] = w[i] * x[row + i] * r;
  }
  return y;
}

Values norm_backward(std::span<const double> w, const Values& x, const Values& d_y, std::span<double> d_w) {
  const std::size_t m = w.size();
  Values d_x(x.size());
  for (std::size_t row = 0; row < x.size(); row += m) {
    const double r = inverse_root(&x[row], m);
    double dot = 0;
    for (std::size_t i = 0; i < m; ++i) {
      dot += w[i] * d_y[row + i] * x[row + i];
      d_w[i] += d_y[row + i] * x[row + i] * r;
    }
    for (std::size_t i = 0; i < m; ++i)
      d_x[row + i] = r * (w[i] * d_y[row + i] - x[row + i] * r * r * dot / static_cast<double>(m));
  }
  return d_x;
}

Values look_up(const EndWeights& weights, std::span<const double> words, std::size_t hidden) {
  Values rows;
  for (const double word : words) {
    const auto first = weights.embedding.begin() + static_cast<std::ptrdiff_t>(word * static_cast<double>(hidden));
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(hidden));
  }
  return rows;
}

void look_up_backward(std::span<const double> words, const Values& d_rows, std::size_t hidden, EndWeights& gradient) {
  for (std::size_t row = 0; row < words.size(); ++row)
    for (std::size_t i = 0; i < hidden; ++i)
      gradient.embedding[static_cast<std::size_t>(words[row]) * hidden + i] += d_rows[row * hidden + i];
}

Values head_losses(const EndWeights& weights, const Values& normed, std::span<const double> next, EndWeights* gradient,
                   Values* d_normed) {
  const std::size_t m = weights.norm.size();
  const bool shared = weights.head.empty();
  const Values& head = shared ? weights.embedding : weights.head;
  Values losses;
  if (gradient != nullptr) d_normed->assign(normed.size(), 0);
  for (std::size_t row = 0; row < next.size(); ++row) {
    const auto right = static_cast<std::size_t>(next[row]);
    WordScores scores(head, &normed[row * m], m, right);
    losses.push_back(scores.loss);
    if (gradient == nullptr) continue;
    scores.probability[right] -= 1;
    for (std::size_t word = 0; word < scores.probability.size(); ++word)
      for (std::size_t i = 0; i < m; ++i) {
        const double d_logit = scores.probability[word] / static_cast<double>(next.size());
        (shared ? gradient->embedding : gradient->head)[word * m + i] += d_logit * normed[row * m + i];
        (*d_normed)[row * m + i] += d_logit * head[word * m + i];
      }
  }
  return losses;
}

Values words_after(std::span<const double> words, std::size_t sequence, std::size_t distance) {
  Values after(words.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    after[i] = words[static_cast<std::size_t>(shifted_position(
        static_cast<std::int64_t>(i), static_cast<std::int64_t>(sequence), static_cast<std::int64_t>(distance)))];
  return after;
}

}  // namespace dovetail::exec
