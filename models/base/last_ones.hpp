// SPDX-License-Identifier: Apache-2.0
// The values of the last few keys that were asked for.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace dovetail {

template <class Key, class Value, std::size_t most = 16>
class LastOnes {
 public:
  // The value of a key, which `make(key)` gives where it is not one of the last ones. It is valid until the next call.
  template <class Make>
  const Value& find_or(Key key, const Make& make) {
    auto at = std::ranges::find(entries_, key, &Entry::first);
    if (at == entries_.end()) {
      Value value = make(key);
      if (entries_.size() == most) entries_.pop_back();
      at = entries_.emplace(entries_.end(), std::move(key), std::move(value));
    }
    std::rotate(entries_.begin(), at, at + 1);
    return entries_.front().second;
  }

 private:
  using Entry = std::pair<Key, Value>;
  std::vector<Entry> entries_;  // the last one first
};

}  // namespace dovetail
