// SPDX-License-Identifier: Apache-2.0
// The places to which a command writes its results: files all or nothing, and standard output.
#pragma once
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/cli/options.hpp"
#include "models/base/files_apart.hpp"
#include "models/files/load.hpp"
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

// All files or none: each is complete before the first takes its name. "-" is standard output.
struct Output {
  std::string path;
  std::function<void(std::ostream&)> write;
};
void write_all(const std::vector<Output>& outputs);

// Before any long work. Throws InputError unless each file can be written now, no two of them are the same, and none is
// read: neither those of `inputs`, nor `also_read`. Empty paths are no files. Leaves nothing behind.
void require_outputs(const std::vector<NamedFile>& outputs, const FilesRead& inputs,
                     const std::vector<std::string>& also_read = {});

// Whether an output stays as a file, so that work on it can be kept beside it: not standard output, a device or a pipe.
bool is_kept(const std::string& output);

// Files of a command beside those that all commands have.
struct OtherFiles {
  std::vector<NamedFile> written;
  std::vector<std::string> read;  // that are not among its inputs
};

class Outputs {
 public:
  // Checks by require_outputs. `inputs` may grow later: they are asked again before anything is written.
  Outputs(const Options& options, const FilesRead& inputs, OtherFiles others = {});

  // A result in the format asked for, the page, the trace, and `more`, all or nothing. If the result goes to a file,
  // the table still goes to standard output unless quiet.
  void write(const Writers& writers, const std::vector<Output>& more = {}) const;
  // `text` replaces the table, if given.
  void write(const Report& report, const std::function<void(std::ostream&, bool colour)>& text = {},
             const std::vector<Output>& more = {}) const;

 private:
  const Options& options_;
  const FilesRead& inputs_;
  OtherFiles others_;
  Format format_;
};

}  // namespace dovetail::bench
