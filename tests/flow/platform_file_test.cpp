// SPDX-License-Identifier: Apache-2.0
// Platform files are refused at the place of what SimGrid would obey, crash of or misread.
#include "sim/platform_file.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using sim::read_platform;

namespace {

const std::string head = "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n";
const std::string zone =
    "<zone id=\"z\" routing=\"Full\"><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>\n";
const std::string wire = "<link id=\"l\" bandwidth=\"1GBps\"/>\n";

std::string refusal(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("p.xml", text);
  try {
    read_platform("p.xml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_inside(const std::string& elements) {  // from line 3 on
  return refusal(head + "<platform version=\"4.1\">" + elements + "</platform>");
}

}  // namespace

TEST_CASE("A platform of what is no platform is refused") {
  CHECK(refusal("\x7f"
                "ELF") == "p.xml:1:1: no XML: not well-formed (invalid token); expected a SimGrid platform file");
  CHECK(refusal("") == "p.xml:1:1: no XML: no element found; expected a SimGrid platform file");
  CHECK(refusal("<a/>") ==
        "p.xml:1:1: <a>, expected hosts, links, routes, clusters and zones: nothing else is read here");
  CHECK(refusal("<!DOCTYPE platform [<!ENTITY e \"x\">]><platform version=\"4\"/>") ==
        "p.xml:1:20: declarations inside of the file, expected none");
  CHECK(refusal(head + "<platform version=\"1e999us\"/>") ==
        "p.xml:3:11: version: \"1e999us\", expected 4, 4.0 or 4.1");
  CHECK(refusal_inside("") == "p.xml:3:25: an empty platform, expected a zone with hosts");
  CHECK(refusal_inside("words").starts_with("p.xml:3:25: text \"words\""));
}

TEST_CASE("Anything that SimGrid would do outside of the description is refused") {
  const std::string only = ", expected hosts, links, routes, clusters and zones: nothing else is read here";
  CHECK(refusal_inside("<config><prop id=\"tracing\" value=\"yes\"/></config>") == "p.xml:3:25: <config>" + only);
  CHECK(refusal_inside("<include file=\"x\"/>") == "p.xml:3:25: <include>" + only);
  CHECK(refusal_inside("<trace id=\"t\" file=\"x\" periodicity=\"1\"/>") == "p.xml:3:25: <trace>" + only);
  CHECK(refusal_inside("\n<actor host=\"a\" function=\"f\"/>") == "p.xml:4:1: <actor>" + only);
  for (const char* key : {"state_file", "speed_file", "availability_file"})
    CHECK(refusal_inside("<zone id=\"z\" routing=\"Full\">\n<host id=\"a\" speed=\"1f\" " + std::string(key) +
                         "=\"x\"/></zone>") ==
          "p.xml:4:25: " + std::string(key) + ": not read here, expected <host> without it");
}

TEST_CASE("Numbers and names that SimGrid would stumble over are refused") {
  const auto in_zone = [](const std::string& more) { return refusal_inside(zone + more + "</zone>"); };
  CHECK(in_zone(wire + "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>") == "accepted");
  CHECK(in_zone("<link id=\"l\" bandwidth=\"infGBps\"/>") ==
        "p.xml:4:14: bandwidth: \"infGBps\", expected a number from 1e-06 to 1e+15 and its unit, such as 10GBps");
  CHECK(in_zone("<link id=\"l\" bandwidth=\"0Bps\"/>").starts_with("p.xml:4:14: bandwidth: \"0Bps\", expected"));
  CHECK(in_zone("<link id=\"l\" bandwidth=\"1Bps\" latency=\"-1us\"/>").starts_with("p.xml:4:31: latency: \"-1us\""));
  CHECK(in_zone("<link id=\"l\"/>") == "p.xml:4:1: <link> without \"bandwidth\", expected it");
  CHECK(in_zone(wire + wire) == "p.xml:5:1: link \"l\" twice, expected different names");
  CHECK(in_zone("<host id=\"a\" speed=\"1f\"/>") == "p.xml:4:1: \"a\" twice, expected different names");
  CHECK(in_zone("<route src=\"a\" dst=\"b\"></route>") == "p.xml:4:24: a <route> over no link, expected one or more");
  CHECK(in_zone("<route src=\"a\" dst=\"c\"/>") == "p.xml:4:16: dst: \"c\" is not defined before");
  CHECK(in_zone("<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>") ==
        "p.xml:4:34: id: no link \"l\" is defined before");
  const std::string cluster =
      "<cluster id=\"c\" prefix=\"p\" suffix=\"\" speed=\"1f\" bw=\"1Bps\" lat=\"0\" radical=\"";
  CHECK(refusal_inside(cluster + "0-9,20\"/>") == "accepted");
  CHECK(refusal_inside(cluster + "0-999999\"/>") ==
        "p.xml:3:91: radical: \"0-999999\" are 1000000 hosts, expected at most 4096");
  CHECK(refusal_inside(cluster + "3-1\"/>").starts_with("p.xml:3:91: radical: \"3-1\", expected numbers and ranges"));
  CHECK(refusal_inside(zone + "</zone>" + zone + "</zone>") ==
        "p.xml:4:8: a second outermost zone, expected one that holds all others");
}

TEST_CASE("SimGrid gets the checked elements alone, on their own lines, and hosts keep their order") {
  const test::TemporaryFolder folder;
  folder.write("p.so",
               head +
                   "<!-- <config/> --><platform version=\"4.1\"><zone id=\"z\" routing=\"Floyd\">\n"
                   "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"9-10\" speed=\"1f\" bw=\"1Bps\" lat=\"0\">"
                   "<prop id=\"remote_disk\" value=\"x\"/></cluster>\n\n"
                   "<link id=\"l\" sharing_policy=\"FATPIPE\" bandwidth=\"1Bps\"/></zone></platform>");
  const sim::Platform platform = read_platform("p.so");
  CHECK(platform.hosts == std::vector<std::string>{"n9", "n10"});
  CHECK(platform.text.find("config") == std::string::npos);
  CHECK(platform.text.find("prop") == std::string::npos);
  CHECK(platform.text.ends_with(
      "\n\n<link bandwidth=\"1Bps\" id=\"l\" latency=\"0\" sharing_policy=\"FATPIPE\"></link></zone></platform>"));
}
