// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bench/imports/shell_arithmetic.hpp"

namespace dovetail::bench {
namespace {

// Whether commands run: a condition that is not known leaves it open.
enum class Runs { Yes, Perhaps, No };

struct Branch {
  Runs outside = Runs::Yes;
  bool is_if = false;
  bool done = false;     // an earlier branch was taken
  bool perhaps = false;  // an earlier branch may have been taken
};

constexpr std::array<std::string_view, 5> declarers{"export", "declare", "local", "readonly", "typeset"};

std::string place_text(const Location& where) {
  return fmt::format("{}:{}:{}", where.file, where.line, where.column);
}

// The value of a test of one or two known words; none: it is not known.
std::optional<bool> tested(const std::vector<PlacedWord>& words) {
  if (words.size() < 3 || words.size() > 6) return {};
  const std::string& opening = words.front().text;
  std::vector<std::string> inner;
  for (std::size_t i = 1; i < words.size(); ++i) inner.push_back(words[i].text);
  if (opening == "[" || opening == "[[")
    inner.pop_back();
  else if (opening != "test")
    return {};
  if (std::ranges::any_of(inner, [](const std::string& word) { return is_open(word); })) return {};
  const bool negated = inner.front() == "!";
  if (negated) inner.erase(inner.begin());
  const auto known = [&](bool value) { return std::optional(value != negated); };
  if (inner.size() == 2 && inner[0] == "-z") return known(inner[1].empty());
  if (inner.size() == 2 && inner[0] == "-n") return known(!inner[1].empty());
  if (inner.size() != 3) return {};
  const std::string& sign = inner[1];
  if (sign == "=" || sign == "==") return known(inner[0] == inner[2]);
  if (sign == "!=") return known(inner[0] != inner[2]);
  const auto nothing = [](std::string_view) { return std::optional<std::string>(); };
  const auto left = arithmetic(inner[0], nothing), right = arithmetic(inner[2], nothing);
  if (!left || !right) return {};
  if (sign == "-eq") return known(*left == *right);
  if (sign == "-ne") return known(*left != *right);
  if (sign == "-gt") return known(*left > *right);
  if (sign == "-ge") return known(*left >= *right);
  if (sign == "-lt") return known(*left < *right);
  if (sign == "-le") return known(*left <= *right);
  return {};
}

class Follower {
 public:
  Follower(const std::string& text, const std::string& name, const Variables& given)
      : text_(text), words_(text, name, variables_) {
    for (const auto& [variable, value] : given) {
      ShellText from_outside{value, std::vector<std::size_t>(value.size(), 0)};
      variables_[variable] = {std::move(from_outside)};
      outside_.push_back(variable);
    }
  }

  ShellScript run() {
    while (!words_.done()) command();
    for (const auto& [variable, elements] : variables_) {
      if (elements.size() == 1 && !is_open(elements.front().text)) script_.variables[variable] = elements.front().text;
      if (std::ranges::count(outside_, variable) > 0) continue;
      std::vector<PlacedWord> list;
      for (const ShellText& element : elements) list.push_back(placed(element));
      if (!list.empty()) script_.lists.push_back(std::move(list));
    }
    // As they stand in the script, not by name.
    std::ranges::stable_sort(script_.lists, {}, [](const std::vector<PlacedWord>& list) {
      return std::pair(list.front().where.line, list.front().where.column);
    });
    return std::move(script_);
  }

 private:
  PlacedWord placed(const ShellText& text) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < text.at.size(); ++i)
      if (text.text[i] != ' ' && text.text[i] != '\n') {
        place = text.at[i];
        break;
      }
    return {text.text, words_.location(place)};
  }

  // One command, and the operator that ends it.
  void command() {
    std::vector<PlacedWord> words;
    bool only_assigned = true, any = false;
    while (true) {
      words_.skip_blanks();
      if (words_.done() || ends_command(words)) break;
      any = true;
      if (words_.peek() == '#') {
        words_.skip_line();
        continue;
      }
      if (skip_redirection()) continue;
      const bool may_assign = words.empty() || std::ranges::count(declarers, words.front().text) > 0;
      if (const auto assignment = words_.assignment(); may_assign && assignment) {
        assign(*assignment);
        continue;
      }
      if (words_.peek() == '(' && !words.empty()) {  // as in a list of arguments without quotes
        words.push_back(bracketed());
        continue;
      }
      for (const ShellText& text : words_.word()) words.push_back(placed(text));
      only_assigned = false;
      if (words.size() == 1 && keyword(words.front().text)) words.clear();
    }
    if (any && !words.empty() && !only_assigned) take(std::move(words));
    end_command();
  }

  // "([0]*3+[1]*58)"
  PlacedWord bracketed() {
    ShellText text;
    while (!words_.done() && std::string_view(" \t\r\n;|&").find(words_.peek()) == std::string_view::npos) {
      text.add(words_.peek(), words_.at);
      ++words_.at;
    }
    return placed(text);
  }

  bool ends_command(const std::vector<PlacedWord>& words) const {
    const char c = words_.peek();
    const bool list = c == '(' && !words.empty() && words.back().text.starts_with("--");
    return !list && std::string_view("\n;|&()").find(c) != std::string_view::npos && !words_.looking_at("&>");
  }

  void end_command() {
    if (words_.done()) return;
    skipped_ = false;
    const bool both = words_.looking_at("&&"), either = words_.looking_at("||");
    words_.at += both || either ? 2 : 1;
    if ((both || either) && last_test_) skipped_ = *last_test_ != both;
    unsure_ = (both || either) && !last_test_;
    if (!both && !either) last_test_.reset();
    if (text_[words_.at - 1] == '\n') skip_documents();
  }

  bool skip_redirection() {
    std::size_t ahead = 0;
    while (words_.peek(ahead) >= '0' && words_.peek(ahead) <= '9') ++ahead;
    if (words_.peek(ahead) == '&' && words_.peek(ahead + 1) == '>') ++ahead;
    const char c = words_.peek(ahead);
    if (c != '<' && c != '>') return false;
    words_.at += ahead + 1;
    const bool document = c == '<' && words_.peek() == '<' && words_.peek(1) != '<';
    while (std::string_view("<>&-").find(words_.peek()) != std::string_view::npos && !words_.done()) ++words_.at;
    words_.skip_blanks();
    std::string target;
    for (const ShellText& text : words_.word()) target += text.text;
    if (document) documents_.push_back(target);
    return true;
  }

  // The lines of here-documents, up to their ends.
  void skip_documents() {
    for (const std::string& end : documents_)
      while (!words_.done()) {
        const std::size_t begin = words_.at;
        words_.skip_line();
        std::string_view line = std::string_view(text_).substr(begin, words_.at - begin);
        ++words_.at;
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line == end) break;
      }
    documents_.clear();
  }

  Runs runs() const {
    if (runs_ == Runs::No || skipped_) return Runs::No;
    return unsure_ ? Runs::Perhaps : runs_;
  }

  // Whether the word is one of the shell's own, after which a command begins.
  bool keyword(const std::string& word) {
    if (word == "if" || word == "while" || word == "until" || word == "for" || word == "case" || word == "select") {
      branches_.push_back({.outside = runs(), .is_if = word == "if"});
      condition_.reset();
      conditions_ = 0;
      if (word != "if" && runs_ == Runs::Yes) runs_ = Runs::Perhaps;
      in_condition_ = word == "if";
      return word != "for" && word != "case" && word != "select";
    }
    if (branches_.empty()) return word == "{" || word == "}" || word == "!" || word == "time";
    Branch& branch = branches_.back();
    if (word == "then" && branch.is_if) {
      enter(branch);
    } else if (word == "elif") {
      runs_ = branch.outside;
      in_condition_ = true;
      condition_.reset();
      conditions_ = 0;
    } else if (word == "else") {
      condition_ = true;
      conditions_ = 1;
      enter(branch);
    } else if (word == "fi" || word == "done" || word == "esac") {
      runs_ = branch.outside;
      branches_.pop_back();
    } else {
      return word == "do" || word == "{" || word == "}" || word == "!";
    }
    return true;
  }

  void enter(Branch& branch) {
    in_condition_ = false;
    const bool known = condition_ && conditions_ == 1;
    if (branch.outside == Runs::No || branch.done || (known && !*condition_))
      runs_ = Runs::No;
    else
      runs_ = known && !branch.perhaps ? branch.outside : Runs::Perhaps;
    branch.done = branch.done || (known && *condition_);
    branch.perhaps = branch.perhaps || !known;
    condition_.reset();
    conditions_ = 0;
  }

  void take(std::vector<PlacedWord> words) {
    last_test_ = tested(words);
    if (in_condition_) {
      ++conditions_;
      condition_ = last_test_;
      return;
    }
    if (runs() != Runs::No) script_.commands.push_back(std::move(words));
  }

  void assign(const ShellWords::Assignment& assignment) {
    const std::size_t begin = words_.at;
    words_.at += assignment.length;
    std::vector<ShellText> elements;
    const bool list = words_.peek() == '(';
    if (list)
      elements = list_elements();
    else
      elements.push_back(words_.value());
    const Runs when = runs();
    if (when == Runs::No) return;
    std::vector<ShellText>& variable = variables_[assignment.name];
    const bool from_outside = std::ranges::count(outside_, assignment.name) > 0;
    if (from_outside && !assignment.appends) return;  // the user's choice
    if (when == Runs::Perhaps) note(assignment, begin, !variable.empty());
    if (when == Runs::Perhaps && !assignment.appends && !variable.empty()) return;
    if (!assignment.appends)
      variable = std::move(elements);
    else if (list || variable.empty())
      variable.insert(variable.end(), elements.begin(), elements.end());
    else
      variable.back().add(elements.front());
    for (const ShellText& element : variable) words_.require_short(element);
  }

  std::vector<ShellText> list_elements() {
    const std::size_t begin = words_.at++;
    std::vector<ShellText> elements;
    while (true) {
      words_.skip_blanks();
      if (words_.done()) throw InputError(words_.location(begin), "this list is not closed");
      const char c = words_.peek();
      if (c == ')') break;
      if (c == '#') {
        words_.skip_line();
      } else if (c == '(') {
        const PlacedWord word = bracketed();
        elements.push_back({word.text, std::vector<std::size_t>(word.text.size(), words_.at - word.text.size())});
      } else if (std::string_view("\n;|&<>").find(c) != std::string_view::npos) {
        ++words_.at;
      } else {
        for (ShellText& text : words_.word()) elements.push_back(std::move(text));
      }
    }
    ++words_.at;
    return elements;
  }

  void note(const ShellWords::Assignment& assignment, std::size_t begin, bool has_value) {
    script_.notes.push_back(fmt::format("{}: {} is set under a condition that is not known: {}",
                                        place_text(words_.location(begin)), assignment.name,
                                        assignment.appends ? "taken as met"
                                        : has_value        ? "taken as not met, since it has a value"
                                                           : "taken as met"));
  }

  const std::string& text_;
  ShellVariables variables_;
  ShellWords words_;
  ShellScript script_;
  std::vector<std::string> outside_, documents_;
  std::vector<Branch> branches_;
  Runs runs_ = Runs::Yes;
  bool in_condition_ = false, skipped_ = false, unsure_ = false;
  std::optional<bool> condition_, last_test_;
  int conditions_ = 0;
};

}  // namespace

ShellScript follow_script(const std::string& text, const std::string& name, const Variables& variables) {
  return Follower(text, name, variables).run();
}

}  // namespace dovetail::bench
