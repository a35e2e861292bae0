// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"

namespace dovetail {
namespace {

struct Dimension {
  int second = 0, byte = 0, flop = 0;
  bool operator==(const Dimension&) const = default;
};

template <int S, int B, int F>
constexpr Dimension dimension_of(Quantity<S, B, F>) {
  return {S, B, F};
}

struct UnitKind {
  Dimension dimension;
  std::string_view name, example;
};

constexpr std::array kinds{
    UnitKind{{1, 0, 0}, "a time", "12.5 us"},
    UnitKind{{0, 1, 0}, "an amount of data", "40 GiB"},
    UnitKind{{0, 0, 1}, "a number of operations", "2 TFLOP"},
    UnitKind{{-1, 1, 0}, "a bandwidth", "200 Gb/s"},
    UnitKind{{-1, 0, 1}, "a compute rate", "312 TFLOP/s"},
    UnitKind{{1, -1, 0}, "a time per byte", "0.23 ps/B"},
    UnitKind{{1, 0, -1}, "a time per operation", "176.8 fs/flop"},
};

// Limits in base units. Every product and quotient of a few quantities stays a finite number.
constexpr double largest = 1e40, smallest = 1e-40;

const UnitKind* find_kind(Dimension dimension) {
  for (const UnitKind& kind : kinds)
    if (kind.dimension == dimension) return &kind;
  return nullptr;
}

// A unit is times/over base units. Two factors because 1e6 is exact and 1e-6 is not: 12.5 us is exactly the
// double 12.5e-6.
struct Unit {
  Dimension dimension;
  double times = 1, over = 1;
};

struct Prefix {
  std::string_view symbol;
  double times, over;
};

// All three tables go from small to large; format_value takes the last that fits, so "u" rather than the micro signs.
constexpr std::array small_prefixes{
    Prefix{"f", 1, 1e15},     Prefix{"p", 1, 1e12}, Prefix{"n", 1, 1e9}, Prefix{"\u00b5", 1, 1e6},
    Prefix{"\u03bc", 1, 1e6}, Prefix{"u", 1, 1e6},  Prefix{"m", 1, 1e3}, Prefix{"", 1, 1},
};
constexpr std::array large_prefixes{
    Prefix{"", 1, 1},    Prefix{"k", 1e3, 1},  Prefix{"M", 1e6, 1},
    Prefix{"G", 1e9, 1}, Prefix{"T", 1e12, 1}, Prefix{"P", 1e15, 1},
};
constexpr std::array binary_prefixes{
    Prefix{"", 1, 1},        Prefix{"Ki", 0x1p10, 1}, Prefix{"Mi", 0x1p20, 1},
    Prefix{"Gi", 0x1p30, 1}, Prefix{"Ti", 0x1p40, 1}, Prefix{"Pi", 0x1p50, 1},
};

// Prefixes that make no sense on a unit (Ms, mB) are typing errors, so they are unknown units.
template <class Prefixes>
std::optional<Unit> with_prefix(std::string_view text, const Prefixes& prefixes, std::string_view symbol, Unit base) {
  if (!text.ends_with(symbol)) return std::nullopt;
  text.remove_suffix(symbol.size());
  for (const Prefix& prefix : prefixes)
    if (prefix.symbol == text) return Unit{base.dimension, prefix.times, prefix.over * base.over};
  return std::nullopt;
}

std::optional<Unit> parse_simple_unit(std::string_view text) {
  constexpr Unit time{{1, 0, 0}}, byte{{0, 1, 0}}, bit{{0, 1, 0}, 1, 8}, flop{{0, 0, 1}};
  std::optional<Unit> unit = with_prefix(text, small_prefixes, "s", time);
  for (std::string_view symbol : {"flop", "FLOP"})
    if (!unit) unit = with_prefix(text, large_prefixes, symbol, flop);
  if (!unit) unit = with_prefix(text, large_prefixes, "B", byte);
  if (!unit) unit = with_prefix(text, binary_prefixes, "B", byte);
  if (!unit) unit = with_prefix(text, large_prefixes, "b", bit);
  if (!unit) unit = with_prefix(text, binary_prefixes, "b", bit);
  return unit;
}

std::optional<Unit> parse_unit(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::optional<Unit> top = parse_simple_unit(text.substr(0, slash));
  if (slash == std::string_view::npos || !top) return top;
  const std::optional<Unit> bottom = parse_simple_unit(text.substr(slash + 1));
  if (!bottom) return std::nullopt;
  const Dimension dimension{top->dimension.second - bottom->dimension.second,
                            top->dimension.byte - bottom->dimension.byte, top->dimension.flop - bottom->dimension.flop};
  return Unit{dimension, top->times * bottom->over, top->over * bottom->times};
}

// "Gb/s" for "Gbps".
std::string meant_unit(std::string_view symbol) {
  if (!symbol.ends_with("ps")) return "";
  const std::string meant = fmt::format("{}/s", symbol.substr(0, symbol.size() - 2));
  return parse_unit(meant) ? fmt::format(", did you mean {}?", in_quotes(meant)) : "";
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::string expectation(const UnitKind& kind) {
  return fmt::format("{} with unit, such as \"{}\"", kind.name, kind.example);
}

[[noreturn]] void refuse(const UnitKind& wanted, std::string_view text, std::string_view why) {
  throw InputError(fmt::format("expected {}, got {}{}", expectation(wanted), in_quotes(text), why));
}

double parse_value(std::string_view text, const UnitKind& wanted) {
  const std::string_view body = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::result_out_of_range) refuse(wanted, text, ", whose number is too large or too small");
  if (error != std::errc()) refuse(wanted, text, "");
  if (!std::isfinite(number)) refuse(wanted, text, ", which is not a finite number");

  const std::string_view symbol = trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
  if (symbol.empty()) refuse(wanted, text, ", which has no unit");
  const std::optional<Unit> unit = parse_unit(symbol);
  if (!unit) refuse(wanted, text, ", whose unit " + in_quotes(symbol) + " is unknown" + meant_unit(symbol));
  if (unit->dimension != wanted.dimension) {
    const UnitKind* other = find_kind(unit->dimension);
    refuse(wanted, text, other ? fmt::format(", which is {}", other->name) : ", whose unit measures something else");
  }
  const double value = number * unit->times / unit->over;
  if (std::abs(value) > largest) refuse(wanted, text, ", which is too large");
  if (std::abs(value) < smallest && number != 0) refuse(wanted, text, ", which is too small");
  return value;
}

// Rounds to four digits before choosing the prefix, so that 999.96 us is "1 ms" and not "1000 us".
double rounded(double value) {
  const std::string text = fmt::format("{:.3e}", value);
  double result = value;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

template <class Prefixes>
std::string format_value(double value, const Prefixes& prefixes, std::string_view unit) {
  if (value == 0) return fmt::format("0 {}", unit);
  const Prefix* chosen = &prefixes.front();
  for (const Prefix& prefix : prefixes)
    if (std::abs(rounded(value * prefix.over / prefix.times)) >= 1) chosen = &prefix;
  const double scaled = rounded(value * chosen->over / chosen->times);
  const bool many_digits = std::abs(scaled) >= 1e4 && std::abs(scaled) < 1e15;
  const std::string number = many_digits ? fmt::format("{:.0f}", scaled) : fmt::format("{:.4g}", scaled);
  return fmt::format("{} {}{}", number, chosen->symbol, unit);
}

}  // namespace

template <class Q>
Q parse_quantity(std::string_view text) {
  return Q(parse_value(text, *find_kind(dimension_of(Q{}))));
}

template <class Q>
std::string expected_quantity() {
  return expectation(*find_kind(dimension_of(Q{})));
}

template Seconds parse_quantity<Seconds>(std::string_view);
template Bytes parse_quantity<Bytes>(std::string_view);
template Flops parse_quantity<Flops>(std::string_view);
template BytesPerSecond parse_quantity<BytesPerSecond>(std::string_view);
template FlopsPerSecond parse_quantity<FlopsPerSecond>(std::string_view);
template SecondsPerByte parse_quantity<SecondsPerByte>(std::string_view);
template SecondsPerFlop parse_quantity<SecondsPerFlop>(std::string_view);

template std::string expected_quantity<Seconds>();
template std::string expected_quantity<Bytes>();
template std::string expected_quantity<Flops>();
template std::string expected_quantity<BytesPerSecond>();
template std::string expected_quantity<FlopsPerSecond>();
template std::string expected_quantity<SecondsPerByte>();
template std::string expected_quantity<SecondsPerFlop>();

std::string format_quantity(Seconds q) {
  return format_value(q.value(), small_prefixes, "s");
}
std::string format_quantity(Bytes q) {
  return format_value(q.value(), binary_prefixes, "B");
}
std::string format_quantity(Flops q) {
  return format_value(q.value(), large_prefixes, "FLOP");
}
std::string format_quantity(BytesPerSecond q) {
  return format_value(q.value(), large_prefixes, "B/s");
}
std::string format_quantity(FlopsPerSecond q) {
  return format_value(q.value(), large_prefixes, "FLOP/s");
}
std::string format_quantity(SecondsPerByte q) {
  return format_value(q.value(), small_prefixes, "s/B");
}
std::string format_quantity(SecondsPerFlop q) {
  return format_value(q.value(), small_prefixes, "s/flop");
}

}  // namespace dovetail
