// SPDX-License-Identifier: Apache-2.0
#include "models/time/mix_sharing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"
#include "models/price/fair_rates.hpp"
#include "models/time/host_clock.hpp"

namespace dovetail {
namespace {

constexpr double not_running = std::numeric_limits<double>::infinity();
constexpr int none = -1, done = -2;
constexpr double alike = 1e-12;  // proportions that differ less came out of rounding

double longest(std::span<const Demand> demands) {
  double seconds = 0;
  for (const Demand& d : demands) seconds = std::max(seconds, d.seconds.value());
  return seconds;
}

bool of_same_kind(std::span<const Demand> a, double times, std::span<const Demand> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double seconds = a[i].seconds.value() * times;
    if (a[i].resource != b[i].resource || a[i].multiplicity != b[i].multiplicity ||
        std::abs(seconds - b[i].seconds.value()) > alike * seconds)
      return false;
  }
  return true;
}

// The speed of each kind in a mix. A mix is a number with four bits for each kind: how many ops of it run.
class MixRates {
 public:
  static constexpr int most_kinds = 16, most_of_kind = 15;
  using Key = std::uint64_t;
  struct Mix {
    Key key = 0;
    std::array<double, most_kinds> speed{}, slowness{};  // shares of a kind's own speed; seconds for one alone
  };

  static constexpr Key one_of(int kind) { return Key{1} << (4 * kind); }
  static int count(Key key, int kind) { return static_cast<int>(key >> (4 * kind) & most_of_kind); }

  // The kind of an op with these demands, of which the longest takes `seconds`; `likely`: the kind to compare with
  // first. None: there are too many.
  int kind_of(const PricedSchedule& priced, ActivityId activity, double seconds, int likely) {
    const std::span<const Demand> demands = priced.demands_of(activity);
    const auto is = [&](int kind) {
      const Kind& k = kinds_[static_cast<std::size_t>(kind)];
      return of_same_kind(priced.demands_of(k.example), seconds / k.seconds, demands);
    };
    if (likely != none && is(likely)) return likely;
    const auto count = static_cast<int>(kinds_.size());
    for (int kind = 0; kind < count; ++kind)
      if (is(kind)) return kind;
    if (count == most_kinds) return none;
    kinds_.push_back({activity, seconds});
    return count;
  }

  const Mix& of(Key key, FairRates& rates) {
    for (auto at = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 58);; at = (at + 1) % places) {
      if (place_[at] == none) {
        if (mixes_.size() >= places / 2) {
          forget();
          return of(key, rates);
        }
        place_[at] = static_cast<std::int8_t>(mixes_.size());
        return mixes_.emplace_back(solve(key, rates));
      }
      if (const Mix& mix = mixes_[static_cast<std::size_t>(place_[at])]; mix.key == key) return mix;
    }
  }

 private:
  static constexpr std::size_t places = 64;
  struct Kind {
    ActivityId example;
    double seconds;
  };

  void forget() {
    place_.fill(none);
    mixes_.clear();
  }

  Mix solve(Key key, FairRates& rates) {
    std::vector<Running> running;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
      running.insert(running.end(), static_cast<std::size_t>(count(key, static_cast<int>(kind))),
                     Running{kinds_[kind].example});
    rates.solve(running);
    Mix mix{key};
    for (std::size_t kind = 0, at = 0; kind < kinds_.size(); ++kind) {
      const auto many = static_cast<std::size_t>(count(key, static_cast<int>(kind)));
      if (many == 0) continue;
      mix.speed[kind] = running[at].rate * kinds_[kind].seconds;
      mix.slowness[kind] = 1 / mix.speed[kind];
      at += many;
    }
    return mix;
  }

  std::vector<Kind> kinds_;
  std::vector<Mix> mixes_;
  std::array<std::int8_t, places> place_ = [] {
    std::array<std::int8_t, places> empty{};
    empty.fill(none);
    return empty;
  }();
};

class MixRun {
 public:
  MixRun(const PricedSchedule& priced, IdVector<OpId, Interval>* ops)
      : priced_(priced),
        s_(*priced.schedule),
        ops_(ops),
        rates_(priced),
        streams_(s_.streams.size()),
        classes_(s_.classes.size()),
        next_end_(s_.classes.size(), not_running),
        links_(s_.ops.size()),
        waiter_(s_.ops.size(), none),
        owner_(priced.resources.size(), none),
        host_(priced) {
    for (auto i = static_cast<std::int32_t>(s_.ops.size()); i-- > 0;) {
      const Op& op = s_.ops[OpId(i)];
      Stream& stream = streams_[op.stream];
      links_[OpId(i)] = {stream.head, op.dependencies};
      stream.head = i;
    }
    for (const StreamId stream : streams_.ids())
      classes_[static_cast<std::size_t>(s_.streams[stream].rank_class)].streams.push_back(stream);
  }

  std::optional<Seconds> run() {
    for (const StreamId stream : streams_.ids()) woken_.push_back(stream);
    for (begin_woken(); !failed_; begin_woken()) {
      const auto next = std::ranges::min_element(next_end_);
      if (*next == not_running) break;
      now_ = *next;
      pass(classes_[static_cast<std::size_t>(next - next_end_.begin())].next);
    }
    if (failed_) return {};
    for (const Stream& stream : streams_) check(stream.head == none, "ops of a cycle never run");
    return Seconds(now_);
  }

 private:
  struct Stream {
    std::int32_t head = none, op = none;  // the next op; the one that runs; none: it may wait for the host until `end`
    int kind = none;                      // of the op while its activity runs; none: its fixed time passes
    int last_kind = none;
    double end = not_running;
    double left = 0;                  // of its activity, in seconds at its own speed, when its class last changed
    std::int32_t next_waiter = none;  // another stream that waits for the same op
  };
  // The parts of an op that begin it. Ops themselves are large, and are looked at in the order of time.
  struct Link {
    std::int32_t next = none;  // on its stream
    Span dependencies;
  };
  struct Class {
    std::vector<StreamId> streams;
    MixRates rates;
    MixRates::Key mix = 0, ending = 0;  // what runs; what the ends of its streams were worked out for
    double since = 0;                   // when `mix` last changed
    bool changed = false;
    StreamId next;  // to end
  };

  Class& class_of(StreamId stream) { return classes_[static_cast<std::size_t>(s_.streams[stream].rank_class)]; }

  // The end of a fixed time or of an activity, or of the wait for the host.
  void pass(StreamId id) {
    Stream& stream = streams_[id];
    Class& c = class_of(id);
    if (stream.op == none) {
      stream.end = not_running;
      touch(c);
      return woken_.push_back(id);
    }
    if (stream.kind == none && begin_activity(id, OpId(stream.op))) return touch(c);
    if (stream.kind != none) change(c, c.mix - MixRates::one_of(stream.kind));
    stream.kind = none;
    stream.end = not_running;
    touch(c);
    end(OpId(std::exchange(stream.op, none)));
    woken_.push_back(id);
  }

  void touch(Class& c) {
    if (!c.changed) changed_.push_back(&c);
    c.changed = true;
  }

  void end(OpId op) {
    if (ops_ != nullptr) (*ops_)[op].finish = Seconds(now_);
    for (std::int32_t stream = waiter_[op]; stream != none; stream = streams_[StreamId(stream)].next_waiter)
      woken_.push_back(StreamId(stream));
    waiter_[op] = done;
    host_.ended(op, Seconds(now_));
  }

  // Whether the host has issued an op whose turn it is; else its stream waits for that.
  bool issued(StreamId id, OpId op) {
    if (!host_.takes_time()) return true;
    const double at = host_.issued(op).value();
    if (at <= now_) return true;
    streams_[id].end = at;
    touch(class_of(id));
    return false;
  }

  void begin_woken() {
    while (!woken_.empty()) {
      const StreamId stream = woken_.back();
      woken_.pop_back();
      begin_next(stream);
    }
    for (Class* c : changed_) settle(*c);
    changed_.clear();
  }

  // Begins the ops of a free stream up to the first that takes time or has to wait.
  void begin_next(StreamId id) {
    Stream& stream = streams_[id];
    while (stream.head != none) {
      const OpId op(stream.head);
      const Link& link = links_[op];
      for (std::int32_t i = link.dependencies.first; i < link.dependencies.last; ++i) {
        const OpId before = s_.dependencies[static_cast<std::size_t>(i)];
        if (waiter_[before] != done) {
          stream.next_waiter = std::exchange(waiter_[before], std::int32_t{id});
          return;
        }
      }
      if (!issued(id, op)) return;
      stream.op = op;
      stream.head = link.next;
      if (ops_ != nullptr) (*ops_)[op].start = Seconds(now_);
      if (const double fixed = priced_.fixed[op].value(); fixed > 0) {
        stream.end = now_ + fixed;
        return touch(class_of(id));
      }
      if (begin_activity(id, op)) return touch(class_of(id));
      stream.op = none;
      end(op);
    }
  }

  // False: it demands nothing.
  bool begin_activity(StreamId id, OpId op) {
    const ActivityId activity = PricedSchedule::only_activity(op);
    Stream& stream = streams_[id];
    stream.left = longest(priced_.demands_of(activity));
    if (stream.left <= 0) return false;
    Class& c = class_of(id);
    const int kind = c.rates.kind_of(priced_, activity, stream.left, stream.last_kind);
    failed_ = failed_ || kind == none || MixRates::count(c.mix, kind) == MixRates::most_of_kind;
    if (failed_) return false;
    if (kind != stream.last_kind) failed_ = !owns(s_.streams[id].rank_class, activity);
    change(c, c.mix + MixRates::one_of(kind));
    stream.kind = stream.last_kind = kind;
    return true;
  }

  bool owns(int rank_class, ActivityId activity) {
    return std::ranges::all_of(priced_.demands_of(activity), [&](const Demand& d) {
      int& owner = owner_[static_cast<std::size_t>(d.resource)];
      if (owner == none) owner = rank_class;
      return owner == rank_class;
    });
  }

  // The ops of a class that run change now: so far they ran as `ending`.
  void change(Class& c, MixRates::Key mix) {
    if (c.since < now_ && c.ending != 0) {
      const MixRates::Mix& before = c.rates.of(c.ending, rates_);
      for (const StreamId id : c.streams)
        if (Stream& stream = streams_[id]; stream.kind != none)
          stream.left =
              std::max(0.0, stream.left - (now_ - c.since) * before.speed[static_cast<std::size_t>(stream.kind)]);
    }
    c.since = now_;
    c.mix = mix;
  }

  void settle(Class& c) {
    if (c.mix != 0) {
      const MixRates::Mix& mix = c.rates.of(c.mix, rates_);
      for (const StreamId id : c.streams)
        if (Stream& stream = streams_[id]; stream.kind != none)
          stream.end = c.since + stream.left * mix.slowness[static_cast<std::size_t>(stream.kind)];
    }
    c.ending = c.mix;
    c.changed = false;
    double& next_end = next_end_[static_cast<std::size_t>(&c - classes_.data())];
    next_end = not_running;
    for (const StreamId id : c.streams)
      if (streams_[id].end < next_end) {
        next_end = streams_[id].end;
        c.next = id;
      }
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  IdVector<OpId, Interval>* const ops_;
  FairRates rates_;
  IdVector<StreamId, Stream> streams_;
  std::vector<Class> classes_;
  std::vector<double> next_end_;  // by class: when the first of its streams ends what it does
  IdVector<OpId, Link> links_;
  IdVector<OpId, std::int32_t> waiter_;  // the first stream that waits for it; `done`
  std::vector<int> owner_;               // of each resource: the only rank class that demands it
  std::vector<StreamId> woken_;          // streams whose next op may be able to begin
  std::vector<Class*> changed_;
  HostClock host_;
  double now_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<Seconds> run_mixes(const PricedSchedule& priced, IdVector<OpId, Interval>* ops) {
  if (!priced.first_activity.empty() || !priced.speed_changes.empty()) return {};
  return MixRun(priced, ops).run();
}

}  // namespace dovetail
