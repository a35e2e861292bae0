// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/nearest.hpp"

#include <algorithm>

#include "models/base/json/json_text.hpp"

namespace dovetail {
namespace {

constexpr std::size_t longest_word = 200;  // beyond this nobody mistyped anything; bounds the quadratic distance

std::string normalized(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

// Optimal string alignment distance over three rolling rows.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) old[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, old[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], older[j - 2] + 1);
    }
    std::swap(older, old);
    std::swap(old, now);
  }
  return old[b.size()];
}

// Whether the word is one of the parts between underscores, or several of them.
bool has_part(const std::string& words, const std::string& word) {
  return ("_" + words + "_").find("_" + word + "_") != std::string::npos;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > longest_word) return std::nullopt;
  const std::string wanted = normalized(word);
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_word) continue;
    const std::string other = normalized(candidate);
    const std::size_t longer = std::max(wanted.size(), other.size());
    const std::size_t cutoff = std::max<std::size_t>(1, longer / 3);
    std::size_t distance = edit_distance(wanted, other);
    if (wanted.size() >= 3 && (other.starts_with(wanted) || has_part(other, wanted)))
      distance = std::min(distance, cutoff);
    const bool near = distance <= cutoff && (distance < longer || longer == 0);
    if (near && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> match = nearest(word, candidates);
  return match ? ", did you mean " + in_quotes(*match) + "?" : std::string();
}

}  // namespace dovetail
