// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "models/base/fit.hpp"
#include "models/price/calibration_fields.hpp"

namespace dovetail {
namespace {

// A figure of a fit that results have in place of its points.
Field of_points(std::string_view name, FieldType type, std::string_view help, FieldValue (*value)(const Fit&)) {
  Field field = field::described(name, std::move(type), help).only_in(FieldPlace::Results);
  field.get = [value](const void* owner) -> FieldValue {
    const Fit& fit = *static_cast<const Fit*>(owner);
    return fit.points.empty() ? FieldValue() : value(fit);
  };
  return field;
}

// The fit of a provenance is shared by its copies.
Field shared_fit() {
  PartField type{fields_of<Fit>};
  type.open = [](void* owner) -> void* {
    auto made = std::make_shared<Fit>();
    Fit* fit = made.get();
    static_cast<Provenance*>(owner)->fit = std::move(made);
    return fit;
  };
  type.find = [](const void* owner) -> const void* {
    const Fit* fit = static_cast<const Provenance*>(owner)->fit.get();
    return fit == nullptr || fit->points.empty() ? nullptr : fit;
  };
  return field::described(
             "fit", std::move(type),
             "The measurements that alpha and beta were fitted to, by least squares of the relative errors.")
      .else_taken("none");
}

}  // namespace

template <>
const FieldTable& fields_of<FitPoint>() {
  static const FieldTable table = FieldTable::of<FitPoint>(
      "Point", "A measured size.",
      {
          field::number<&FitPoint::size>("size", {.least = 0}, "n: bytes, or flops of a matrix multiplication.").must(),
          field::quantity<&FitPoint::time>("time", "Median of the runs.", /*positive=*/false).must(),
          field::number<&FitPoint::error>("error", {}, "Fitted over measured time, minus 1.").must().in("ratio"),
      });
  return table;
}

template <>
const FieldTable& fields_of<Fit>() {
  static const FieldTable table = FieldTable::of<Fit>(
      "Fit", "Measurements that a cost was fitted to.",
      {
          of_points("points", WholeField{}, "How many.",
                    [](const Fit& fit) -> FieldValue { return static_cast<std::int64_t>(fit.points.size()); }),
          of_points("smallest", NumberField{}, "The smallest n.",
                    [](const Fit& fit) -> FieldValue { return fit.points.front().size; }),
          of_points("largest", NumberField{}, "The largest n.",
                    [](const Fit& fit) -> FieldValue { return fit.points.back().size; }),
          field::number<&Fit::r2>("r2", {.most = 1},
                                  "Coefficient of determination, errors taken relative to the measured times.")
              .must()
              .in("ratio"),
          of_points("worst_error", NumberField{}, "The largest relative error.",
                    [](const Fit& fit) -> FieldValue { return worst_error(fit); }),
          field::parts<&Fit::points>("points", "By ascending size.", 2).must().only_in(FieldPlace::Inputs),
      });
  return table;
}

template <>
const FieldTable& fields_of<Provenance>() {
  static const FieldTable table = FieldTable::of<Provenance>(
      "Provenance", "Where a number comes from.",
      {
          field::choice<&Provenance::origin>("origin", origin_names,
                                             "How it is known. Reports list what was not measured.")
              .must(),
          field::text<&Provenance::source>(
              "source", {}, "Paper and figure with the published unit; or host, date and tool; or the reasoning.")
              .must(),
          field::flag<&Provenance::disturbed>("disturbed",
                                              "Measured while threads had to share cores: not to be trusted.")
              .unless_usual(),
          field::number<&Provenance::within>("within", {.least = 1, .most = 1000},
                                             "Of ten such costs, nine are within this factor of what is said here.")
              .in("ratio")
              .else_taken(
                  "what nine of ten points of the fit keep, else by origin: published 1.1, measured 1.08, fitted "
                  "1.15, assumed rates 1.3, assumed latencies and interference 2")
              .unless_usual(),
          shared_fit(),
      });
  return table;
}

}  // namespace dovetail
