// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_file.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json/write_file.hpp"

using namespace dovetail;
namespace fs = std::filesystem;

namespace {

std::string refusal_of_text(const std::string& text) {
  try {
    JsonFile::parse(text, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string read_refusal(const fs::path& path) {
  try {
    JsonFile::read(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string place(const JsonFile& file, std::string_view pointer, bool key = false) {
  const Location where = key ? file.locate_key(pointer) : file.locate(pointer);
  return std::to_string(where.line) + ":" + std::to_string(where.column);
}

std::string nested(int depth, bool close = true) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         (close ? std::string(static_cast<std::size_t>(depth), ']') : "");
}

}  // namespace

TEST_CASE("Values and keys are found at their line and column") {
  const JsonFile file = JsonFile::parse(
      "// head \"{[\n"
      "{\n"
      "  \"a\": 1, // } not the end\n"
      "  \"list\" : [ -1.5e3, \"x,]\\\"\", {\"deep\": null}, [] ],\n"
      "  /* \"a\": 2 */ \"o\": { \"a\": true },\n"
      "  \"esc\\u0061pe/~\": 12//tight\n"
      "}\n",
      "f");
  struct Case {
    std::string pointer, value, key;
  };
  for (const auto& [pointer, value, key] : std::vector<Case>{{"", "2:1", "2:1"},
                                                             {"/a", "3:8", "3:3"},
                                                             {"/list", "4:12", "4:3"},
                                                             {"/list/0", "4:14", "4:14"},
                                                             {"/list/1", "4:22", "4:22"},
                                                             {"/list/2", "4:31", "4:31"},
                                                             {"/list/2/deep", "4:40", "4:32"},
                                                             {"/list/3", "4:47", "4:47"},
                                                             {"/o/a", "5:28", "5:23"},
                                                             {"/escape~1~0", "6:20", "6:3"}}) {
    INFO(pointer);
    CHECK(place(file, pointer) == value);
    CHECK(place(file, pointer, true) == key);
  }
  CHECK(file.root()["list"][1] == "x,]\"");
  CHECK(file.root()["escape/~"] == 12);
}

TEST_CASE("What is not there is located at what encloses it") {
  const JsonFile file = JsonFile::parse("{\n \"o\": {\"a\": [1]}}", "f");
  CHECK(place(file, "/o/b/c") == "2:7");
  CHECK(place(file, "/o/a/7") == "2:13");
  CHECK(place(file, "/o/a/x") == "2:13");
  CHECK(place(file, "/none") == "1:1");
  CHECK(file.locate("/o/b").pointer == "/o/b");
}

TEST_CASE("Columns count characters, lines end with LF or CRLF, a byte order mark does not count") {
  CHECK(place(JsonFile::parse("{\"\u00e9\u00e9\u20ac\U0001F600\": 1}", "f"), "/\u00e9\u00e9\u20ac\U0001F600") ==
        "1:10");
  CHECK(place(JsonFile::parse("{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}", "f"), "/b") == "3:8");
  CHECK(place(JsonFile::parse("\xEF\xBB\xBF{\"a\": 1}", "f"), "/a") == "1:7");
  CHECK(place(JsonFile::parse("{// one\r\n\"a\": 1}", "f"), "/a") == "2:6");
}

TEST_CASE("Syntax errors read like advice") {
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> cases{
      {"", "f:1:1: the file is empty, expected a JSON object"},
      {" \n // only\n", "f:1:1: the file is empty, expected a JSON object"},
      {"{\n\"a\": 1", "f:2:7: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"{\n\"a\": [1,", "f:2:9: /a: the file ends too early, expected \"]\" to close the \"[\" of line 2"},
      {"{\"a\": \"text", "f:1:12: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"{\"a\": tr", "f:1:9: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"{\"a\": 1.", "f:1:9: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"{\"a\": 1 /* no end", "f:1:18: the file ends too early, expected \"}\" to close the \"{\" of line 1"},
      {"nul", "f:1:4: the file ends too early, expected the rest of the value"},
      {"{\"a\": 1,}", "f:1:8: trailing comma before \"}\", expected another entry or none"},
      {"[1, 2,\n]", "f:1:6: trailing comma before \"]\", expected another entry or none"},
      {"{\"a\": 1 \"b\": 2}", "f:1:9: unexpected string \"b\", expected \",\" or \"}\""},
      {"[1 2]", "f:1:4: unexpected \"2\", expected \",\" or \"]\""},
      {"{\"a\" 1}", "f:1:6: unexpected \"1\", expected \":\" after the key"},
      {"{a: 1}", "f:1:2: unexpected \"a\", expected a key in double quotes"},
      {"{nodes: 1}", "f:1:2: unexpected \"nodes\", expected a key in double quotes"},
      {"{'a': 1}", "f:1:2: unexpected single quote, expected text in double quotes"},
      {"{\"x\": {\"a\": NaN}}", "f:1:13: /x: \"NaN\" is not a JSON number, expected a finite number"},
      {"{\"a\": -Infinity}", "f:1:7: \"-Infinity\" is not a JSON number, expected a finite number"},
      {"{\"a\": 1e999}", "f:1:7: number too large, expected at most 1.797e308 in magnitude"},
      {"{\"a\": 01}", "f:1:7: malformed number \"01\""},
      {"{\"a\": 1.}", "f:1:7: malformed number \"1.\""},
      {"{\"a\": +1}", "f:1:7: malformed number \"+1\""},
      {"{\"a\": .5}", "f:1:7: malformed number \".5\""},
      {"{\"a\": True}", "f:1:7: unexpected \"True\", did you mean \"true\"?"},
      {"{\"a\": 40 GiB}", "f:1:10: unexpected \"GiB\", expected \",\" or \"}\""},
      {"{\"a\": ]}", "f:1:7: unexpected \"]\", expected a value"},
      {"{} {}", "f:1:4: unexpected \"{\", expected the end of the file"},
      {"{\"a\": \"x\ny\"}", "f:1:9: string without end on this line, expected a closing double quote"},
      {"{\"a\": \"x\ty\"}", "f:1:9: control character in a string, expected it written as \\u0009"},
      {"{\"a\": \"\xff\"}", "f:1:8: invalid UTF-8 byte 0xff in a string"},
      {"{\"a\": \"\xc3\"}", "f:1:9: incomplete UTF-8 character in a string"},
      {"{\"a\": nul }", "f:1:7: unexpected \"nul\", did you mean \"null\"?"},
      {"[1'2]", "f:1:3: unexpected single quote, expected text in double quotes"},
      {"{\"a\": \"\\x\"}", "f:1:9: unknown escape in a string, expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u"},
      {"{\"a\": \"\\ud800\"}", "f:1:14: half of a \\u surrogate pair in a string, expected both halves"},
      {"{\"a\": \"\\u12\"}", "f:1:12: incomplete \\u escape in a string, expected four hexadecimal digits"},
      {"{\"a\": / 1}", "f:1:8: unexpected \"/\", expected a value or a // comment"},
      {std::string("{}\0{}", 5), "f:1:3: a zero byte, expected text in UTF-8"},
      {"{\"a\": 1, \"b\": 2,\n \"a\": 3}", "f:2:2: /a: duplicate key \"a\", already given on line 1"},
      {"[{}, {\"a\": {\"b\": 1,\n\"\\u0062\": 2}}]", "f:2:1: /1/a/b: duplicate key \"b\", already given on line 1"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    CHECK(refusal_of_text(text) == message);
  }
}

TEST_CASE("No input makes the parser's own words come out") {
  const std::string valid = "// c\n{\"a\": [1.5e3, -2, \"\\u00e9x\", null, true], /* d */ \"b\": {\"c\": {}}}";
  for (std::size_t i = 0; i < valid.size(); ++i) {
    for (const std::string& text :
         {valid.substr(0, i), valid.substr(i), valid.substr(0, i) + "\xfe" + valid.substr(i + 1),
          valid.substr(0, i) + "}" + valid.substr(i), valid.substr(0, i) + "\"" + valid.substr(i)}) {
      INFO(text);
      const std::string message = refusal_of_text(text);
      CHECK((message == "accepted" || message.starts_with("f:")));
      CHECK(message.find("exception") == std::string::npos);
      CHECK(message.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("Depth is limited before it hurts") {
  CHECK(refusal_of_text(nested(64)) == "accepted");
  CHECK_THAT(refusal_of_text(nested(65)),
             Catch::StartsWith("f:1:65: /0/0/") && Catch::EndsWith("nested too deeply, expected at most 64 levels"));
  CHECK_THAT(refusal_of_text(nested(100'000)), Catch::EndsWith("nested too deeply, expected at most 64 levels"));
  CHECK_THAT(refusal_of_text(nested(100'000, false)), Catch::EndsWith("nested too deeply, expected at most 64 levels"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK_THAT(refusal_of_text(objects),
             Catch::StartsWith("f:1:321: /a/a") && Catch::EndsWith("expected at most 64 levels"));
}

TEST_CASE("Keys cannot flood a message") {
  CHECK(refusal_of_text("{\"" + std::string(1000, 'k') + "\": 1}") == "accepted");
  CHECK(refusal_of_text("{\"o\": {\"" + std::string(1001, 'k') + "\": 1}}") == "f:1:7: /o: key longer than 1000 bytes");
  CHECK(refusal_of_text("{\"a\\nb\": 1, \"a\\nb\": 1}") ==
        "f:1:13: /a b: duplicate key \"a\\nb\", already given on line 1");
}

TEST_CASE("Size is limited for files and for texts") {
  const fs::path path = fs::temp_directory_path() / ("dovetail-large-" + std::to_string(::getpid()));
  write_file(path, "{}");
  fs::resize_file(path, 100'000'000);  // sparse
  CHECK(read_refusal(path) == path.string() + ": larger than 64 MB, expected a smaller file");
  fs::remove(path);
  CHECK(read_refusal("/dev/zero") == "/dev/zero: larger than 64 MB, expected a smaller file");
  CHECK(refusal_of_text(std::string(64'000'001, ' ')) == "f: larger than 64 MB, expected a smaller file");
}

TEST_CASE("Files that cannot be read say why") {
  const fs::path path = fs::temp_directory_path() / ("dovetail-file-" + std::to_string(::getpid()));
  write_file(path, "{\"a\": 1}");
  CHECK(JsonFile::read(path).root()["a"] == 1);
  CHECK(JsonFile::read(path).locate("/a").file == path.string());
  CHECK(read_refusal(path / "below") == (path / "below").string() + ": cannot be read: Not a directory");
  fs::remove(path);
  CHECK(read_refusal("/no/such/file") == "/no/such/file: cannot be read: No such file or directory");
  CHECK(read_refusal("/tmp") == "/tmp: is a directory, expected a file");
  CHECK(read_refusal("/dev/null") == "/dev/null:1:1: the file is empty, expected a JSON object");
  CHECK(read_refusal("/proc/self/mem").find("cannot be read") != std::string::npos);
}
