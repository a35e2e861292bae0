// SPDX-License-Identifier: Apache-2.0
// Published tables, measured steps and measured operators beside ours, as `dovetail reproduce` finds them out. Reports
// print it.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/results/measured_operators.hpp"
#include "models/results/measured_steps.hpp"
#include "models/results/result.hpp"

namespace dovetail {

// A number in the row's unit, or words: which of two won, names in order of time.
using TableValue = std::variant<double, std::string>;

// Shown: nothing is claimed. Equal: the same words, or the same number. Relative and Absolute: so far from the
// published number at most. AtMost and AtLeast: of ours alone.
enum class TargetKind { Shown, Equal, Relative, Absolute, AtMost, AtLeast };
inline constexpr std::array<std::pair<std::string_view, TargetKind>, 6> target_kind_names{
    {{"shown", TargetKind::Shown},
     {"equal", TargetKind::Equal},
     {"relative", TargetKind::Relative},
     {"absolute", TargetKind::Absolute},
     {"at_most", TargetKind::AtMost},
     {"at_least", TargetKind::AtLeast}}};
struct Target {
  TargetKind kind = TargetKind::Shown;
  double bound = 0;
};

enum class Verdict { Pass, Miss, Shown };
inline constexpr std::array<std::pair<std::string_view, Verdict>, 3> verdict_names{
    {{"pass", Verdict::Pass}, {"miss", Verdict::Miss}, {"shown", Verdict::Shown}}};

struct ReproducedValue {
  std::string name, unit;               // unit empty: words or a ratio
  std::optional<TableValue> published;  // none: the paper states no number
  TableValue ours;
  Target target;
  std::vector<std::string> fitted;  // constants fitted to this very table; none: a prediction
  bool given = false;               // ours is an input that was copied from the paper: neither
  std::string note;
};
// Ours less published (target Absolute), else ours / published - 1. None where one is not a number, or published is 0.
std::optional<double> error(const ReproducedValue& value);
Verdict verdict(const ReproducedValue& value);

// A number that was chosen so that ours comes near the published table, and the file that holds it.
struct FittedConstant {
  std::string name, value, file;
};

// A constant that ours depends on and that was fitted to another table, whose id is `from`.
struct SharedConstant {
  std::string name, value, from, file;
};

// Numbers or statements of the table that no model of ours can make.
struct Unanswered {
  std::string what, why;
};

struct ReproducedTable {
  std::string id, title, source;  // the source begins with the paper's name and, in brackets, where it appeared
  std::vector<ReproducedValue> values;
  std::vector<FittedConstant> fitted;
  std::vector<SharedConstant> shared;
  std::vector<Unanswered> unanswered;
  std::vector<std::string> notes;  // readings of the paper, and why a target is missed
};

struct Reproduction {
  std::vector<ReproducedTable> tables;
  std::vector<StepsTable> steps;
  std::vector<OperatorsTable> operators;
  RunProvenance provenance;
};
int count(const ReproducedTable& table, Verdict verdict);

// How the tables of one paper came out.
struct PaperSummary {
  std::string paper;
  int targets = 0, missed = 0;
  int predicted = 0, fitted = 0;  // met without and with constants fitted to their own table
  int given = 0;                  // met by arithmetic on what the paper gives
  int shown = 0;                  // values without a target
  int unanswered = 0;
  // |ours / published - 1| of the numbers that are neither fitted nor given, with a target or not; none: no such
  // number.
  std::optional<double> mean_error, median_error;
};
// Paper by paper, in the order in which they first appear; of several, all together at the end under "all".
std::vector<PaperSummary> summarise(const Reproduction& reproduction);

}  // namespace dovetail
