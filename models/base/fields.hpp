// SPDX-License-Identifier: Apache-2.0
// The fields of what users describe (models, clusters, workloads), each described once: name, type, bounds, default,
// who may give it, and a sentence. Readers, writers, schemas, documents and completion go through such tables, so that
// a field that is added to one is known to all of them.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "models/base/names.hpp"
#include "models/base/units.hpp"

namespace dovetail {

// One value of a field: none, a flag, a whole number, a number (a quantity in its base unit), a text (also the name of
// a choice), or whole numbers.
using FieldValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<int>>;

struct FieldTable;

// The types of fields. Bounds are inclusive.
struct FlagField {};
struct WholeField {
  std::int64_t least = 0, most = std::numeric_limits<int>::max();
};
struct NumberField {
  double least = -std::numeric_limits<double>::max(), most = std::numeric_limits<double>::max();
  bool above = false;  // more than `least`, not equal
};
struct TextField {
  bool may_be_empty = false;
};
struct ChoiceField {
  std::vector<std::string> names;
};
enum class QuantityKind { Time, Data, Bandwidth, ComputeRate, TimePerByte, TimePerFlop };
struct QuantityField {
  QuantityKind kind = QuantityKind::Time;
  bool positive = false;  // more than zero, else no less
};
struct WholesField {  // a list
  std::int64_t least = 0, most = std::numeric_limits<int>::max();
};
// An object of its own. `open` makes or returns it, to be read into; `find` returns null where there is none. Without
// them it is only described here: a function of its own reads it.
struct PartField {
  const FieldTable& (*table)();
  std::function<void*(void*)> open = {};
  std::function<const void*(const void*)> find = {};
};
// A list of such objects.
struct PartsField {
  const FieldTable& (*table)();
  std::function<void*(void*)> append;
  std::function<std::vector<const void*>(const void*)> items;
  std::size_t fewest = 0;
};
// Described by a schema elsewhere, read and written by functions of its own.
struct OtherField {
  std::string schema;      // such as "trace.schema.json#/definitions/tables"
  std::string in_results;  // its JSON type there, or another such schema
};
using FieldType = std::variant<FlagField, WholeField, NumberField, TextField, ChoiceField, QuantityField, WholesField,
                               PartField, PartsField, OtherField>;

// Files have a field everywhere, or only what users write, or only what Dovetail writes (results, saved schedules).
enum class FieldPlace { Everywhere, Inputs, Results };
// Beside the user, who may give a value, in the order in which they count.
enum class FieldGiver { Trace, Cluster, Model };
inline constexpr Names<FieldGiver, 3> field_giver_names{
    {{"trace", FieldGiver::Trace}, {"cluster", FieldGiver::Cluster}, {"model", FieldGiver::Model}}};

struct Field {
  std::string name;
  FieldType type;
  std::string help;  // a phrase or sentences; names in backticks
  bool required = false;
  std::string unit = {};                // in documents: "elements", "ranks"; of quantities it is known
  std::vector<FieldGiver> givers = {};  // see load_experiment() for how they are asked
  std::string otherwise = {};           // in words, what is taken if nobody gives it; empty: what a new object has
  FieldPlace place = FieldPlace::Everywhere;
  std::string result_name = {};  // in results; empty: the name, of quantities with the unit after it
  bool of_experts = false;       // dense models have none
  // Null: always. Otherwise a value that is given where this does not hold is refused, for the reason `why`.
  std::function<bool(const void*)> applies = {};
  std::string why = {};
  std::function<bool(const void*)> written = {};  // whether results have it; null: wherever it applies
  std::function<FieldValue(const void*)> get = {};
  std::function<void(void*, const FieldValue&)> set = {};  // null: a function of its own reads it
  std::function<FieldValue(const void*)> shown = {};       // in results; null: get
  bool only_if_unusual = false;                            // `written` says so once it is in a table

  // A table says more of a field by these. `Owner` is the struct that the table describes.
  Field must() &&;
  Field in(std::string_view unit_name) &&;
  Field from(std::vector<FieldGiver> who, std::string_view otherwise_taken = {}) &&;
  Field else_taken(std::string_view words) &&;
  Field only_in(FieldPlace where) &&;
  Field as_result(std::string_view name_there) &&;
  Field for_experts() &&;
  Field unless_usual() &&;  // results have it where it differs from a new object's
  template <class Owner>
  Field where(bool (*condition)(const Owner&), std::string_view reason) && {
    applies = [condition](const void* owner) { return condition(*static_cast<const Owner*>(owner)); };
    why = reason;
    return std::move(*this);
  }
  template <class Owner>
  Field written_where(bool (*condition)(const Owner&)) && {
    written = [condition](const void* owner) { return condition(*static_cast<const Owner*>(owner)); };
    return std::move(*this);
  }
  template <class Owner>
  Field shown_as(FieldValue (*value)(const Owner&)) && {
    shown = [value](const void* owner) { return value(*static_cast<const Owner*>(owner)); };
    return std::move(*this);
  }
};

// All fields of an object, in the order in which they are written.
struct FieldTable {
  std::string title, help;
  std::vector<Field> fields;
  std::shared_ptr<const void> usual;  // a new object

  template <class Owner>
  static FieldTable of(std::string_view title, std::string_view help, std::vector<Field> fields) {  // NOLINT: moved
    return make(title, help, std::move(fields), std::make_shared<const Owner>());
  }

  const Field* find(std::string_view name) const;

 private:
  static FieldTable make(std::string_view title, std::string_view help, std::vector<Field> fields,
                         std::shared_ptr<const void> usual);
};

// The table of a type; each is declared beside the type's part of the house (question/fields.hpp).
template <class T>
const FieldTable& fields_of();

// Entries from a member of the owner, which may be optional.
namespace field_detail {

template <class T>
struct MemberOf;
template <class O, class M>
struct MemberOf<M O::*> {
  using Owner = O;
  using Member = M;
};
template <auto Pointer>
using OwnerOf = typename MemberOf<decltype(Pointer)>::Owner;
template <class T>
struct Inner {
  using Type = T;
  static constexpr bool optional = false;
};
template <class T>
struct Inner<std::optional<T>> {
  using Type = T;
  static constexpr bool optional = true;
};
template <auto Pointer>
using MemberType = typename MemberOf<decltype(Pointer)>::Member;
template <auto Pointer>
using ValueOf = typename Inner<MemberType<Pointer>>::Type;

// The member as a FieldValue and back. `to` and `from` convert a present value.
template <auto Pointer, class To, class From>
Field bound(std::string_view name, FieldType type, std::string_view help, To to, From from) {
  using Owner = OwnerOf<Pointer>;
  Field field{std::string(name), std::move(type), std::string(help)};
  field.get = [to](const void* owner) -> FieldValue {
    const auto& member = static_cast<const Owner*>(owner)->*Pointer;
    if constexpr (Inner<MemberType<Pointer>>::optional)
      return member ? FieldValue(to(*member)) : FieldValue();
    else
      return to(member);
  };
  field.set = [from](void* owner, const FieldValue& value) { static_cast<Owner*>(owner)->*Pointer = from(value); };
  return field;
}

template <class Quantity>
constexpr QuantityKind kind_of() {
  if constexpr (std::is_same_v<Quantity, Seconds>) return QuantityKind::Time;
  if constexpr (std::is_same_v<Quantity, Bytes>) return QuantityKind::Data;
  if constexpr (std::is_same_v<Quantity, BytesPerSecond>) return QuantityKind::Bandwidth;
  if constexpr (std::is_same_v<Quantity, FlopsPerSecond>) return QuantityKind::ComputeRate;
  if constexpr (std::is_same_v<Quantity, SecondsPerByte>) return QuantityKind::TimePerByte;
  if constexpr (std::is_same_v<Quantity, SecondsPerFlop>) return QuantityKind::TimePerFlop;
}

}  // namespace field_detail

// The entries of a table, such as field::whole<&Workload::batch>("batch", ...).
namespace field {

template <auto Member>
Field flag(std::string_view name, std::string_view help) {
  return field_detail::bound<Member>(
      name, FlagField{}, help, [](bool on) { return on; }, [](const FieldValue& v) { return std::get<bool>(v); });
}

template <auto Member>
Field whole(std::string_view name, std::int64_t least, std::int64_t most, std::string_view help) {
  using Int = field_detail::ValueOf<Member>;
  return field_detail::bound<Member>(
      name, WholeField{least, most}, help, [](Int number) { return std::int64_t{number}; },
      [](const FieldValue& v) { return static_cast<Int>(std::get<std::int64_t>(v)); });
}

template <auto Member>
Field number(std::string_view name, NumberField bounds, std::string_view help) {
  return field_detail::bound<Member>(
      name, bounds, help, [](double value) { return value; }, [](const FieldValue& v) { return std::get<double>(v); });
}

template <auto Member>
Field text(std::string_view name, TextField type, std::string_view help) {
  return field_detail::bound<Member>(
      name, type, help, [](const std::string& value) { return value; },
      [](const FieldValue& v) { return std::get<std::string>(v); });
}

template <auto Member>
Field quantity(std::string_view name, std::string_view help, bool positive = true) {
  using Q = field_detail::ValueOf<Member>;
  return field_detail::bound<Member>(
      name, QuantityField{field_detail::kind_of<Q>(), positive}, help, [](Q value) { return value.value(); },
      [](const FieldValue& v) { return Q(std::get<double>(v)); });
}

template <auto Member>
Field wholes(std::string_view name, std::int64_t least, std::int64_t most, std::string_view help) {
  return field_detail::bound<Member>(
      name, WholesField{least, most}, help, [](const std::vector<int>& list) { return list; },
      [](const FieldValue& v) { return std::get<std::vector<int>>(v); });
}

// The names of a choice as a type of field, and the value that a name stands for.
template <class Table>
ChoiceField choice_of(const Table& names) {
  ChoiceField type;
  for (const auto& [name, value] : names) type.names.emplace_back(name);
  return type;
}
template <class Enum>
Enum value_named(std::span<const std::pair<std::string_view, Enum>> names, const FieldValue& value) {
  for (const auto& [name, each] : names)
    if (name == std::get<std::string>(value)) return each;
  throw InternalError("a choice of another name");
}

// `names` must outlive the table, as tables of enumerators do.
template <auto Member>
Field choice(std::string_view name, std::span<const std::pair<std::string_view, field_detail::ValueOf<Member>>> names,
             std::string_view help) {
  using Enum = field_detail::ValueOf<Member>;
  return field_detail::bound<Member>(
      name, choice_of(names), help,
      [names](Enum value) {
        for (const auto& [each, candidate] : names)
          if (candidate == value) return std::string(each);
        return std::string();  // of an object that is not read yet
      },
      [names](const FieldValue& v) { return value_named<Enum>(names, v); });
}

// A member that is an object with a table of its own. Reading makes it if it is optional.
template <auto Member>
Field part(std::string_view name, std::string_view help) {
  using Owner = field_detail::OwnerOf<Member>;
  using Inner = field_detail::Inner<field_detail::MemberType<Member>>;
  PartField type{fields_of<typename Inner::Type>};
  type.open = [](void* owner) -> void* {
    auto& member = static_cast<Owner*>(owner)->*Member;
    if constexpr (Inner::optional)
      return &member.emplace();
    else
      return &member;
  };
  type.find = [](const void* owner) -> const void* {
    const auto& member = static_cast<const Owner*>(owner)->*Member;
    if constexpr (Inner::optional)
      return member ? &*member : nullptr;
    else
      return &member;
  };
  return {std::string(name), std::move(type), std::string(help)};
}

// Fields of the owner itself that files have in an object of their own.
template <class Owner>
Field inside(std::string_view name, const FieldTable& (*table)(), std::string_view help) {
  PartField type{table};
  type.open = [](void* owner) { return owner; };
  type.find = [](const void* owner) { return owner; };
  return {std::string(name), std::move(type), std::string(help)};
}

template <auto Member>
Field parts(std::string_view name, std::string_view help, std::size_t fewest = 0) {
  using Owner = field_detail::OwnerOf<Member>;
  using Item = typename field_detail::MemberType<Member>::value_type;
  PartsField type{fields_of<Item>, {}, {}, fewest};
  type.append = [](void* owner) -> void* { return &(static_cast<Owner*>(owner)->*Member).emplace_back(); };
  type.items = [](const void* owner) {
    std::vector<const void*> items;
    for (const Item& item : static_cast<const Owner*>(owner)->*Member) items.push_back(&item);
    return items;
  };
  return {std::string(name), std::move(type), std::string(help)};
}

// Described only: functions of its own read and write it.
Field described(std::string_view name, FieldType type, std::string_view help);

}  // namespace field

}  // namespace dovetail
