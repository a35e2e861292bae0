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

// The kind of a published number. It decides how near ours should come (allowed_error) and how far off it is (error).
enum class Measure {
  Amount,   // a time, memory, or a number of things
  Speedup,  // a time over another: 1.18
  Gain,     // a speed-up less 1, in percent: 18
  Saving,   // the part that is saved, in percent: 27
  Share,    // a part of a whole, in percent
  Choice,   // words: who wins, an order
  AtMost,   // the paper says that it is at most so much
  AtLeast   // or at least
};
inline constexpr std::array<std::pair<std::string_view, Measure>, 8> measure_names{{{"amount", Measure::Amount},
                                                                                    {"speedup", Measure::Speedup},
                                                                                    {"gain", Measure::Gain},
                                                                                    {"saving", Measure::Saving},
                                                                                    {"share", Measure::Share},
                                                                                    {"choice", Measure::Choice},
                                                                                    {"at_most", Measure::AtMost},
                                                                                    {"at_least", Measure::AtLeast}}};

// The basis of ours, which decides how much it says about the model. Predicted: on nothing that was fitted. Shares: on
// a constant that was fitted to another table. Fitted: on one that was fitted to this table. Given: on numbers of the
// paper alone. Identity: it must hold whatever the model's costs are, such as an equation of the paper. Repeated: the
// published number has a row already, and this is another reading of it. Unpublished: the paper states no number.
enum class Basis { Predicted, Shares, Fitted, Given, Identity, Repeated, Unpublished };
inline constexpr std::array<std::pair<std::string_view, Basis>, 7> basis_names{{{"predicted", Basis::Predicted},
                                                                                {"shares", Basis::Shares},
                                                                                {"fitted", Basis::Fitted},
                                                                                {"given", Basis::Given},
                                                                                {"identity", Basis::Identity},
                                                                                {"repeated", Basis::Repeated},
                                                                                {"unpublished", Basis::Unpublished}}};

enum class Verdict { Pass, Miss, Shown };
inline constexpr std::array<std::pair<std::string_view, Verdict>, 3> verdict_names{
    {{"pass", Verdict::Pass}, {"miss", Verdict::Miss}, {"shown", Verdict::Shown}}};

// The GPU and the revision that measured something, and the file in data/ that holds it.
struct MeasuredBy {
  std::string device, revision, file;
};

// A row as one GPU has measured it: its kernels and copies are real, its exchanges are held to modelled times. It
// counts for nothing that is said of predictions.
struct MeasuredValue {
  TableValue value;
  std::string what;  // sizes and parts; "~" in an order: the 95 % intervals overlap
  int overruns = 0;  // exchanges that outlasted their modelled times
  MeasuredBy by;
};

// A mission on one GPU that can settle rows of a table, and how many rows each of its results has.
struct SettledBy {
  struct Result {
    MeasuredBy by;
    int rows = 0;
  };
  int mission = 0, rows = 0;
  std::vector<Result> results;  // none: not yet measured
};

struct ReproducedValue {
  std::string name, unit;               // unit empty: words or a ratio
  std::optional<TableValue> published;  // none: the paper states no number
  TableValue ours;
  Measure measure = Measure::Amount;
  Basis basis = Basis::Unpublished;
  std::vector<std::string> constants;  // the names of the constants that a shared or fitted value rests on
  std::string note;
  bool settled = false;                 // whether one GPU can measure it
  std::vector<MeasuredValue> measured;  // by each GPU that has
};

// How far ours may be from the published number, in the value's unit. The rule is the same for all values: 15 % of an
// amount, or what its last digit leaves open; .03 or 15 % of the gain for speed-ups, and so 3 points or 15 % for
// percents; nothing for choices and identities. None where nothing is published.
std::optional<double> allowed_error(const ReproducedValue& value);

// Ours / published - 1, where .1 stands for .05 to .15 if it is an amount. Gains count as the speed-ups that they are,
// and savings as what they leave: 10 % in place of 20 % are 1.1 / 1.2 - 1. None where one is not a number, or published
// is 0, or the paper states a bound alone.
std::optional<double> error(const ReproducedValue& value);

// Shown: nothing is published. A bound of the paper is met at the bound.
Verdict verdict(const ReproducedValue& value);

// A number that was chosen so that ours comes near the published table, and the file that holds it.
struct FittedConstant {
  std::string name, value, file;
};

// A constant that ours depends on and that was fitted to another table, whose id is `from`; and the value that it would
// have without that, with the reason.
struct SharedConstant {
  std::string name, value, from, file, instead;
};

// Numbers or statements of the table that no model of ours can make.
struct Unanswered {
  std::string what, why;
};

struct ReproducedTable {
  std::string id, title, source;  // the source begins with the paper's name and, in brackets, where it appeared
  bool apart = false;             // of a paper whose system is not one of those that are implemented here
  std::vector<ReproducedValue> values;
  std::vector<FittedConstant> fitted;
  std::vector<SharedConstant> shared;
  std::vector<Unanswered> unanswered;
  std::optional<SettledBy> settled_by;  // none: no mission measures rows of it
  std::vector<std::string> notes;       // readings of the paper, and why a target is missed
};

// A table as it would be without a constant that was fitted to another one.
struct TableWithout {
  std::string constant;  // its name
  ReproducedTable table;
};

struct Reproduction {
  std::vector<ReproducedTable> tables;
  std::vector<TableWithout> without;
  std::vector<StepsTable> steps;
  std::vector<OperatorsTable> operators;
  RunProvenance provenance;
};
int count(const ReproducedTable& table, Verdict verdict);

// How values came out.
struct Score {
  int met = 0, of = 0;
};

// How the tables of one paper came out.
struct PaperSummary {
  std::string paper;
  bool apart = false;
  std::array<Score, basis_names.size() - 1> by_basis;  // in the order of Basis, without Unpublished
  int shown = 0;                                       // values that the paper does not state
  int unanswered = 0;
  // The errors of the numbers that are predicted or share a constant: how many are within 15 %, and the mean and median
  // of their sizes. None: no such number.
  Score near;
  std::optional<double> mean_error, median_error;

  const Score& of(Basis basis) const { return by_basis[static_cast<std::size_t>(basis)]; }
};
// Paper by paper, in the order in which they first appear. Several that are not apart are taken together at the end,
// under "all".
std::vector<PaperSummary> summarise(const Reproduction& reproduction);

// The values that rest on a constant that was fitted to another table, with it and without.
struct SharedSummary {
  SharedConstant constant;
  std::vector<std::string> users;  // the ids of the tables that depend on it
  Score with, without;
  std::optional<double> mean_error, mean_error_without;
};
// In the order in which constants first appear.
std::vector<SharedSummary> summarise_shared(const Reproduction& reproduction);

}  // namespace dovetail
