// SPDX-License-Identifier: Apache-2.0
#include "reports/text/format.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/base/names.hpp"
#include "models/base/plain_text.hpp"
#include "models/results/figures.hpp"
#include "models/results/overlap_text.hpp"

namespace dovetail::reports {
namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// "1 node", "6 nodes"
std::string counted(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string printable(std::string_view text, std::size_t width) {
  const std::string safe = plain_text(text, '?');
  if (display_width(safe) <= width) return safe;
  std::size_t end = 0;
  for (std::size_t shown = 0; end < safe.size(); ++end)
    if (!continues_character(safe[end]) && ++shown > width - 2) break;
  return safe.substr(0, end) + "..";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string escaped(const std::string& text) {
  return replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
}

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

int decimals_for(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest >= 1000 ? 1 : largest >= 10 ? 2 : largest >= 1 ? 3 : 4;
}

std::string fixed(std::optional<double> value, int decimals) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

std::string significant(double value) {
  const int digits = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
  const double unit = std::pow(10, digits - 3);
  return fixed(std::round(value / unit) * unit, std::max(0, 3 - digits));
}

std::string percent(double share) {
  return fmt::format("{:.2f}", 100 * share);
}

std::string duration(Seconds time) {
  const double s = time.value();
  if (!std::isfinite(s)) return "-";
  if (std::abs(s) >= 1) return three_digits(s) + " s";
  if (std::abs(s) >= 1e-3) return three_digits(s * 1e3) + " ms";
  return three_digits(s * 1e6) + " us";
}

std::string bytes(Bytes amount) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = amount.value();
  if (!std::isfinite(value)) return "-";
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  if (unit == 0) return fmt::format("{:.0f} B", value);
  return three_digits(value) + " " + units[unit];
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  const std::size_t margin = std::min(text.find_first_not_of(' '), text.size());
  std::string lines(text.substr(0, margin));
  text.remove_prefix(margin);
  for (std::size_t column = margin, words = 0; !text.empty(); ++words) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (words > 0 && column + 1 + display_width(word) > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (words > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += display_width(word);
  }
  return lines;
}

namespace {

// The parts of a step and how kernels run, where that is not as usual.
std::string unusual_kernels(const Workload& workload) {
  std::string text;
  if (workload.extent == Extent::WholeLayers) text += "whole layers; ";
  if (workload.extent == Extent::Model) text += "whole model; ";
  if (workload.attention == AttentionKernel::Eager) text += "eager attention; ";
  if (!workload.causal) text += "no causal mask; ";
  if (const auto products = workload.other_products())
    text += fmt::format("products in {}; ", name_in(dtype_names, *products));
  return text;
}

std::string describe_layers(const Model& model, const Workload& workload) {
  const std::string trained = workload.layers == model.layers
                                  ? counted(model.layers, "layer")
                                  : fmt::format("{} of {} layers", workload.layers, model.layers);
  if (workload.mtp_layers > 0) return trained + fmt::format(" + {} of multi-token prediction", workload.mtp_layers);
  return trained + (model.mtp_layers > 0 ? " without multi-token prediction" : "");
}

std::string describe_experts(const Model& model, const Workload& workload) {
  if (model.dense()) return "no experts";
  const Router& router = model.router;
  const bool routed = workload.message_sizes == MessageSizes::Routed, dropless = workload.capacity_factor == 0;
  std::string text = fmt::format("top {} of {} experts", workload.top_k, model.experts);
  if (router.top_groups < router.groups) text += fmt::format(" in {} of {} groups", router.top_groups, router.groups);
  if (workload.routing.kind != RoutingKind::Router)
    text += fmt::format(", routing {}", name_in(routing_kind_names, workload.routing.kind));
  text += dropless ? ", dropless" : fmt::format(", capacity factor {}", workload.capacity_factor);
  if (routed != dropless) text += routed ? ", routed messages" : ", padded messages";
  return text;
}

}  // namespace

std::string workload_text(const Experiment& experiment, std::string_view samples) {
  const Workload& workload = experiment.workload;
  return fmt::format("{}, {}, {}, {}, {}", describe_layers(experiment.model, workload), samples,
                     describe_experts(experiment.model, workload), name_in(dtype_names, workload.dtype),
                     workload.phases == Phases::Training ? "one training step" : "forward only");
}

std::string costs_text(const Experiment& experiment) {
  std::string text = fmt::format("{}costs {}", unusual_kernels(experiment.workload), calibration_name(experiment));
  if (const std::string& framework = experiment.framework.name; !framework.empty())
    text += fmt::format(", framework {}", framework);
  return printable(text);
}

std::vector<std::string> experiment_lines(const Experiment& experiment) {
  const auto& [cluster, model, calibration, workload, groups, events, overlap, framework, extensions] = experiment;
  std::vector<std::string> lines{
      printable(fmt::format("{} on {}: {} x {} ({}, {})", model.name, cluster.name, counted(cluster.nodes, "node"),
                            counted(cluster.gpus_per_node, "GPU"), cluster.device.name, bytes(cluster.device.memory))),
      workload_text(experiment, fmt::format("batch {}, sequence {}", workload.batch, workload.sequence)),
      fmt::format("groups dp {}, mp {}{}, ep {}, esp {}, edp {}, pp {}; {}", groups.dp, groups.mp,
                  groups.repeats_tokens() ? " (tokens repeated)" : "", groups.ep, groups.esp, groups.edp, groups.pp,
                  costs_text(experiment)),
      "overlap: " + describe_overlap(experiment)};
  if (!extensions.empty()) lines.push_back(printable(extensions.note()));
  return lines;
}

std::string change(double ratio) {
  const double by = 100 * (ratio - 1);
  return fmt::format("{:.{}f} % {}", std::abs(by), std::abs(by) < 9.95 ? 1 : 0, by < 0 ? "less" : "more");
}

std::string listed(const std::vector<std::string>& items) {
  if (items.size() < 2) return items.empty() ? "" : items.front();
  return fmt::format("{} and {}", fmt::join(items.begin(), items.end() - 1, ", "), items.back());
}

}  // namespace dovetail::reports
