// Where the results of a command go: files all or nothing, and standard output.
#pragma once
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/cli/options.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

// How a result is written in each form; those that a command has no option for stay empty.
struct Writers {
  std::function<void(std::ostream&, bool colour)> table;
  std::function<void(std::ostream&)> json, csv, html, trace;
};

// --format, else by -o: a table on standard output and in .txt, csv in .csv, json in any other file. Throws InputError
// for a page's ending.
Format format_of(const Options& options);

class Outputs {
 public:
  // Checks before any long work that every file can be written. Throws InputError.
  explicit Outputs(const Options& options);

  // A result in the format asked for, and the page and the trace. Where the result goes to a file, the table still
  // goes to standard output unless quiet.
  void write(const Writers& writers) const;
  // `text` replaces the table, if given.
  void write(const Report& report, const std::function<void(std::ostream&, bool colour)>& text = {}) const;

 private:
  const Options& options_;
  Format format_;
};

// All files or none: each is complete before the first takes its name. "-" is standard output.
struct Output {
  std::string path;
  std::function<void(std::ostream&)> write;
};
void write_all(const std::vector<Output>& outputs);

// Throws InputError unless the file can be written now. Leaves nothing behind.
void require_writable(const std::string& path);

}  // namespace dovetail::bench
