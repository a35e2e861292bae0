// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/measured_operators.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/reproduce/measured_source.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/input_file.hpp"
#include "models/price/calibration.hpp"
#include "models/price/hardware.hpp"
#include "models/question/drawn_choices.hpp"

namespace dovetail::bench {
namespace {

const InputKind operators_input{"operators", "operators"};

constexpr std::int64_t largest_size = 1'000'000'000;

using SizeNames = std::vector<std::string_view>;

SizeNames size_names(KernelKind kind) {
  if (kind == KernelKind::Dispatch || kind == KernelKind::Combine)
    return {"ranks", "tokens", "hidden", "top_k", "experts", "multiprocessors"};
  const auto names = kernel_size_names(kind);
  return {names.begin(), names.end()};
}

// The sizes that a product or a kernel of experts may leave out.
std::int64_t size_or_usual(const JsonReader& shape, std::string_view name) {
  if (name == "groups" && !shape.has(name)) return 1;
  return shape.long_integer(name == "seen" && !shape.has(name) ? "rows" : name, 1, largest_size);
}

int read_ranks(const JsonReader& shape, const Cluster& cluster) {
  const JsonReader ranks = shape.at("ranks");
  at_place_of(ranks, [&] { require_places(ranks.integer(2, 1 << 20), cluster); });
  return ranks.integer();
}

void read_exchange(const JsonReader& shape, KernelKind kind, OperatorWork& work) {
  const std::int64_t tokens = shape.long_integer("tokens", 1, largest_size);
  work.experts = shape.long_integer("experts", 1, largest_size);
  work.top_k = shape.long_integer("top_k", 1, work.experts);
  if (work.experts % work.ranks != 0)
    shape.fail("experts", fmt::format("{} experts on {} ranks, expected a multiple", work.experts, work.ranks));
  const double copies = static_cast<double>(tokens) * groups_of_a_token(work.ranks, work.experts, work.top_k);
  work.shape = exchange_shape(kind, tokens, std::llround(copies), shape.long_integer("hidden", 1, largest_size),
                              shape.long_integer("multiprocessors", 1, largest_size));
}

void require_known_sizes(const JsonReader& shape, std::string_view kernel, const SizeNames& names) {
  for (const auto& [name, value] : shape.members())
    if (std::ranges::find(names, name) == names.end())
      value.fail(fmt::format("no size of {}, expected {}", kernel, fmt::join(names, ", ")));
}

OperatorWork read_work(const JsonReader& json, const Cluster& cluster, DType usual) {
  OperatorWork work;
  work.dtype = json.enumeration_or("dtype", dtype_names, usual);
  const auto kind = json.enumeration("kernel", kernel_kind_names);
  const JsonReader shape = json.at("shape");
  require_known_sizes(shape, json.string("kernel"), size_names(kind));
  work.shape.kind = kind;
  if (computes(kind)) {
    std::size_t i = 0;
    for (const std::string_view name : kernel_size_names(kind)) work.shape.size[i++] = size_or_usual(shape, name);
    return work;
  }
  work.ranks = read_ranks(shape, cluster);
  if (!is_collective(kind)) {
    read_exchange(shape, kind, work);
    return work;
  }
  const auto bytes = shape.quantity<Bytes>("bytes", Sign::Positive);
  work.shape = collective_shape(kind, work.ranks, std::max<std::int64_t>(1, std::llround(bytes.value())));
  return work;
}

// "gemm 4096 x 1024 x 512", the sizes as they are written.
std::string name_of(const JsonReader& json, KernelKind kind) {
  std::vector<std::string> sizes;
  for (const std::string_view name : size_names(kind))
    if (const auto size = json.at("shape").find(name))
      sizes.push_back(size->value().is_string() ? size->string() : size->value().dump());
  return fmt::format("{} {}", json.string("kernel"), fmt::join(sizes, " x "));
}

MeasuredOperator read_operator(const JsonReader& json, KernelKind kind) {
  MeasuredOperator one;
  one.kernel = json.string("kernel");
  one.name = json.string_or("name", name_of(json, kind));
  one.note = json.string_or("note", "");
  one.measured = json.quantity<Seconds>("time", Sign::Positive);
  return one;
}

}  // namespace

OperatorsFile::OperatorsFile(const std::string& name, FilesRead& files)
    : path_(path_of(operators_input, name)), file_(open_input(operators_input, name, {}, files)) {
  const JsonReader json(file_);
  static_cast<MeasuredSource&>(table_) = read_source(path_, json);
  table_.independent = json.boolean_or("independent", true);
  sustained_ = json.boolean_or("sustained", false);
  read_costs(json, files);
  const auto usual = json.enumeration_or("dtype", dtype_names, DType::Bf16);
  for (const JsonReader& each : json.at("operators").elements()) {
    works_.push_back(read_work(each, cluster_, usual));
    table_.operators.push_back(read_operator(each, works_.back().shape.kind));
  }
}

void OperatorsFile::read_costs(const JsonReader& json, FilesRead& files) {
  const JsonReader cluster = json.at("cluster");
  at_place_of(cluster, [&] {
    WorkloadDefaults unused;
    cluster_ = load_cluster(beside(path_, cluster.string()), unused, files);
  });
  const auto costs = json.find("calibration");
  at_place_of(costs.value_or(cluster), [&] {
    if (!costs && cluster_.calibration.empty()) throw InputError("this cluster names no calibration, expected one");
    calibration_ = load_calibration(costs ? beside(path_, costs->string()) : cluster_.calibration, files);
  });
  const Shared<Calibration> before = calibration_;
  adapt(calibration_.edit(), cluster_, *before);
  table_.cluster = cluster_.name;
  table_.calibration = calibration_->name;
}

std::vector<double> OperatorsFile::seconds(const Calibration& costs) const {
  std::vector<double> times;
  for (const OperatorWork& work : works_) times.push_back(operator_seconds(work, cluster_, costs, sustained_).value());
  return times;
}

void OperatorsFile::price(const Options& options) {
  const std::vector<JsonReader> places = JsonReader(file_).at("operators").elements();
  for (std::size_t i = 0; i < works_.size(); ++i)
    table_.operators[i].predicted =
        at_place_of(places[i], [&] { return operator_seconds(works_[i], cluster_, *calibration_, sustained_); });
  if (options.draws == 0) return;
  Experiment unframed;  // nothing runs beside an operator
  unframed.calibration = calibration_;
  const auto ratios = [&](const Calibration& costs) {
    std::vector<double> times = seconds(costs);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double usual = table_.operators[i].predicted.value();
      times[i] = usual > 0 ? times[i] / usual : 1;
    }
    return times;
  };
  std::vector<StepRange> ranges =
      step_ranges(unframed, works_.size(), ratios, options.draws, static_cast<std::uint64_t>(options.seed));
  for (std::size_t i = 0; i < ranges.size(); ++i) table_.operators[i].range = std::move(ranges[i]);
}

}  // namespace dovetail::bench
