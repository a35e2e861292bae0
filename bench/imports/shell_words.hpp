// SPDX-License-Identifier: Apache-2.0
// The words of a shell's command lines with their variables put in, and where each stood. Nothing is executed.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail::bench {

// A text and, for each of its characters, the place in the script that it came from. An unknown piece begins with
// open_mark (given_run.hpp).
struct ShellText {
  std::string text;
  std::vector<std::size_t> at;

  void add(char c, std::size_t place);
  void add(const ShellText& other);
  void add_open(std::string_view raw, std::size_t place);
};

// Variables by name: a list has several elements. Texts given from outside have place 0.
using ShellVariables = std::map<std::string, std::vector<ShellText>, std::less<>>;

// Reads words at a place of a script that moves on.
class ShellWords {
 public:
  // `name` stands for the script in messages. Both last as long as this.
  ShellWords(const std::string& script, const std::string& name, ShellVariables& variables)
      : script_(script), name_(name), variables_(variables), end_(script.size()) {}

  std::size_t at = 0;

  bool done() const { return at >= end_; }
  char peek(std::size_t ahead = 0) const { return at + ahead < end_ ? script_[at + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return std::string_view(script_).substr(at).starts_with(text); }
  // Blanks and lines that go on, but no line end.
  void skip_blanks();
  void skip_line();

  // The word that begins here, split where a variable outside of quotes has blanks: none to several. It ends before a
  // blank or an operator. Throws InputError where a quote is not closed.
  std::vector<ShellText> word();
  // The same unsplit, as the value of an assignment.
  ShellText value();
  // "NAME=" or "NAME+=" begins here: the name, and the characters until the value.
  struct Assignment {
    std::string name;
    std::size_t length = 0;
    bool appends = false;
  };
  std::optional<Assignment> assignment() const;

  Location location(std::size_t place) const;
  // Throws InputError once a text is longer than any argument could be.
  void require_short(const ShellText& text) const;

 private:
  // Adds the expansion of what begins here; a list in quotes or outside of them makes several words.
  struct Fields {
    std::vector<ShellText> words;
    bool any = false;  // the last of `words` is a word even if it is empty
  };
  void add_quoted(Fields& fields, bool split);
  void add_dollar(Fields& fields, bool quoted, bool split);
  void add_braces(Fields& fields, bool quoted, bool split);
  void add_substitution(Fields& fields);
  void add_elements(Fields& fields, const std::vector<ShellText>& elements, bool quoted, bool split) const;
  std::vector<ShellText> expansion_of(std::string_view inner, std::size_t place);
  std::vector<ShellText> with_operator(const std::string& variable, std::string_view rest, std::size_t place,
                                       std::size_t raw_begin, std::string_view raw);
  std::optional<std::vector<ShellText>> known(std::string_view variable) const;
  std::optional<std::string> text_of(std::string_view variable) const;
  std::size_t closing(char open, char close) const;
  [[noreturn]] void fail(std::size_t place, std::string_view message) const;

  const std::string& script_;
  const std::string& name_;
  ShellVariables& variables_;
  std::size_t end_;
  int depth_ = 0;
};

}  // namespace dovetail::bench
