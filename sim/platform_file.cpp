// SPDX-License-Identifier: Apache-2.0
#include "sim/platform_file.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/json/json_position.hpp"
#include "models/base/json/json_text.hpp"
#include "sim/platform_grammar.hpp"

namespace dovetail::sim {
namespace {

using Values = std::map<std::string, std::string>;

// An element that is open. Zones have numbers; zone 0 is none.
struct Open {
  const PlatformElement* element;
  int zone = 0, children = 0;
};

class Reader {
 public:
  Reader(const std::string& path, const std::string& text)
      : text_(text), parser_(XML_ParserCreate("UTF-8"), &XML_ParserFree) {
    platform_.file = path;
    platform_.text = R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">)";
    parents_.push_back(0);
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(),
        [](void* self, const char* name, const char** attributes) {
          of(self).guarded([&](Reader& reader) { reader.begin(name, attributes); });
        },
        [](void* self, const char* name) { of(self).guarded([&](Reader& reader) { reader.end(name); }); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* at, int size) {
      of(self).guarded([&](Reader& reader) { reader.characters({at, static_cast<std::size_t>(size)}); });
    });
    XML_SetDoctypeDeclHandler(
        parser_.get(),
        [](void* self, const char*, const char*, const char*, int internal) {
          of(self).guarded([&](Reader& reader) {
            if (internal != 0) reader.fail("declarations inside of the file, expected none");
          });
        },
        [](void*) {});
  }

  Platform read() {
    const XML_Status status = XML_Parse(parser_.get(), text_.data(), static_cast<int>(text_.size()), XML_TRUE);
    if (failure_) std::rethrow_exception(failure_);
    if (status != XML_STATUS_OK)
      fail(fmt::format("no XML: {}; expected a SimGrid platform file",
                       XML_ErrorString(XML_GetErrorCode(parser_.get()))));
    return std::move(platform_);
  }

 private:
  static Reader& of(void* self) { return *static_cast<Reader*>(self); }

  // No exception may pass through expat, which is C.
  template <class Handle>
  void guarded(const Handle& handle) {
    if (failure_) return;
    try {
      handle(*this);
    } catch (...) {
      failure_ = std::current_exception();
      XML_StopParser(parser_.get(), XML_FALSE);
    }
  }

  std::size_t offset() const {
    const XML_Index at = XML_GetCurrentByteIndex(parser_.get());
    return at < 0 ? 0 : static_cast<std::size_t>(at);
  }

  [[noreturn]] void fail_at(std::size_t offset, std::string_view message) const {
    const auto [line, column] = line_column(text_, offset);
    throw InputError(Location{platform_.file, line, column, ""}, message);
  }
  [[noreturn]] void fail(std::string_view message) const { fail_at(offset(), message); }

  // At the value of an attribute of the element that begins here.
  [[noreturn]] void fail_attribute(std::string_view name, std::string_view message) const {
    std::size_t at = text_.find_first_of(" \t\r\n", offset());
    for (; at != std::string::npos; at = text_.find_first_of(" \t\r\n", at + 1))
      if (text_.compare(at + 1, name.size(), name) == 0) break;
    fail_at(at == std::string::npos ? offset() : at + 1, fmt::format("{}: {}", name, message));
  }

  void characters(std::string_view text) const {
    if (text.find_first_not_of(" \t\r\n") != std::string_view::npos)
      fail(fmt::format("text {}, expected elements alone", in_quotes(text)));
  }

  void begin(const std::string& name, const char** attributes) {
    const PlatformElement* element = find_platform_element(name);
    if (element == nullptr)
      fail(fmt::format("<{}>, expected hosts, links, routes, clusters and zones: nothing else is read here", name));
    const std::string_view parent = open_.empty() ? std::string_view() : open_.back().element->name;
    if (!is_word_of(element->parents, parent))
      fail(fmt::format("<{}> inside {}, expected it in {}", name,
                       parent.empty() ? "nothing" : fmt::format("<{}>", parent),
                       element->parents.empty() ? "nothing" : fmt::format("<{}>", element->parents)));
    if (open_.size() == JsonFile::max_depth)
      fail(fmt::format("nested too deeply, expected at most {} levels", JsonFile::max_depth));
    const Values values = read_values(*element, attributes);
    if (parent == "platform" && open_.back().children > 0)
      fail("a second outermost zone, expected one that holds all others");
    if (!open_.empty()) ++open_.back().children;
    open_.push_back({element, open_.empty() ? 0 : open_.back().zone});
    if (name == "prop") return;  // for SimGrid's plugins
    note(name, values);
    write(name, values);
  }

  Values read_values(const PlatformElement& element, const char** attributes) const {
    Values values;
    if (element.name == "link") values["latency"] = "0";  // SimGrid 3.32 forgets its own default
    for (const char** at = attributes; *at != nullptr; at += 2) {
      const auto known = std::ranges::find(element.attributes, std::string_view(at[0]), &PlatformAttribute::name);
      if (known == element.attributes.end())
        fail_attribute(at[0], fmt::format("not read here, expected <{}> without it", element.name));
      const std::string value = at[1];
      if (const std::string objection = objection_to(*known, value); !objection.empty())
        fail_attribute(at[0], objection);
      values[at[0]] = value;
    }
    for (const PlatformAttribute& attribute : element.attributes)
      if (attribute.required && !values.contains(std::string(attribute.name)))
        fail(fmt::format("<{}> without \"{}\", expected it", element.name, attribute.name));
    return values;
  }

  // --- names ---

  void note(const std::string& name, const Values& values) {
    if (name == "zone" || name == "cluster") {
      add_place(values.at("id"), open_.back().zone);
      open_.back().zone = places_.at(values.at("id")).inside = static_cast<int>(parents_.size());
      parents_.push_back(places_.at(values.at("id")).zone);
    }
    if (name == "cluster") add_hosts(values);
    if (name == "host") add_host(values.at("id"));
    if (name == "router") add_place(values.at("id"), open_.back().zone);
    if (name == "link" || name == "backbone") add_link(values);
    if (name == "route") require_ends(values);
    if (name == "zoneRoute") require_gateways(values);
    if (name == "host_link") {
      require_place("id", values.at("id"));
      for (const char* key : {"up", "down"}) require_link(key, values.at(key));
    }
    if (name == "link_ctn") require_link("id", values.at("id"));
  }

  void add_place(const std::string& name, int zone) {
    if (!places_.try_emplace(name, Place{zone, 0}).second)
      fail(fmt::format("{} twice, expected different names", in_quotes(name)));
    if (places_.size() > 2 * most_platform_hosts)
      fail(fmt::format("more than {} hosts, routers and zones", 2 * most_platform_hosts));
  }

  void add_host(const std::string& name) {
    add_place(name, open_.back().zone);
    platform_.hosts.push_back(name);
  }

  // A link of two directions may be named with one of them.
  void add_link(const Values& values) {
    const auto policy = values.find("sharing_policy");
    const bool two = policy != values.end() && policy->second.ends_with("DUPLEX");
    for (const char* direction : {"", "_UP", "_DOWN"})
      if ((*direction == 0 || two) && !links_.insert(values.at("id") + direction).second)
        fail(fmt::format("link {} twice, expected different names", in_quotes(values.at("id"))));
  }

  void add_hosts(const Values& values) {
    for (const int number : numbers_of_radical(values.at("radical")))
      add_host(values.at("prefix") + std::to_string(number) + values.at("suffix"));
    const auto given = values.find("router_id");
    const bool named = given != values.end() && !given->second.empty();
    add_place(named ? given->second : values.at("prefix") + values.at("id") + "_router" + values.at("suffix"),
              open_.back().zone);
  }

  void require_place(const char* key, const std::string& name) const {
    if (!places_.contains(name)) fail_attribute(key, fmt::format("{} is not defined before", in_quotes(name)));
  }
  void require_link(const char* key, const std::string& name) const {
    if (!links_.contains(name)) fail_attribute(key, fmt::format("no link {} is defined before", in_quotes(name)));
  }

  void require_ends(const Values& values) const {
    for (const char* key : {"src", "dst"}) {
      require_place(key, values.at(key));
      const Place& end = places_.at(values.at(key));
      if (end.inside != 0 || end.zone != open_.back().zone)
        fail_attribute(key, fmt::format("{} is no host or router of this zone", in_quotes(values.at(key))));
    }
  }

  // A zone of this one, and a host or router in it.
  void require_gateways(const Values& values) const {
    for (const auto& [key, gateway] : {std::pair{"src", "gw_src"}, {"dst", "gw_dst"}}) {
      require_place(key, values.at(key));
      require_place(gateway, values.at(gateway));
      const Place& end = places_.at(values.at(key));
      if (end.inside == 0 || end.zone != open_.back().zone)
        fail_attribute(key, fmt::format("{} is no zone of this zone", in_quotes(values.at(key))));
      const Place& at = places_.at(values.at(gateway));
      int zone = at.inside == 0 ? at.zone : 0;
      while (zone != 0 && zone != end.inside) zone = parents_[static_cast<std::size_t>(zone)];
      if (zone == 0)
        fail_attribute(gateway, fmt::format("{} is no host or router in zone {}", in_quotes(values.at(gateway)),
                                            in_quotes(values.at(key))));
    }
  }

  // --- what SimGrid gets ---

  void write(const std::string& name, const Values& values) {
    const int line = line_column(text_, offset()).line;
    for (; line_ < line; ++line_) platform_.text += '\n';
    platform_.text += "<" + name;
    for (const auto& [key, value] : values) platform_.text += fmt::format(" {}=\"{}\"", key, value);
    platform_.text += ">";
  }

  void end(const std::string& name) {
    const int children = open_.back().children;
    open_.pop_back();
    if (name == "prop") return;
    if (name == "platform" && children == 0) fail("an empty platform, expected a zone with hosts");
    if ((name == "route" || name == "zoneRoute") && children == 0)
      fail(fmt::format("a <{}> over no link, expected one or more", name));
    platform_.text += "</" + name + ">";
  }

  struct Place {
    int zone;    // that it is in
    int inside;  // of a zone: its own number; 0: a host or router
  };

  const std::string& text_;
  std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser_;
  std::exception_ptr failure_;
  Platform platform_;
  int line_ = 1;
  std::vector<Open> open_;
  std::vector<int> parents_;  // by zone
  std::map<std::string, Place> places_;
  std::set<std::string> links_;
};

}  // namespace

Platform read_platform(const std::string& path) {
  const std::string text = JsonFile::read_text(path);
  return Reader(path, text).read();
}

}  // namespace dovetail::sim
