// Codecs of a table and of an array of tables, for example [[data.source]].
//
//   TableOf<DataSourceSection> source;
//   source.add("weight", &DataSourceSection::weight, Number{}, "Share of the samples.");
//   const Tables<DataSourceSection> sources{source};
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/codec.h"
#include "am/config/plan.h"

namespace am::config {

// Reads the members of a table, and adds an error "plan.key" for each unknown key. `assign(key,
// input)` stores a member, or returns false for an unknown key. `names` are the known keys, for
// messages. Returns true if no error was added.
template <typename Assign>
bool read_members(const Input& input, const std::vector<std::string>& names, Assign assign) {
  if (!input.value.is_table()) {
    input.wrong_type("a table", cat("{ ", join(names, ", "), " }"));
    return false;
  }
  const int errors = input.found.errors();
  for (const Member& member : input.value.members) {
    if (assign(member.key, input.part(member.value, member.key))) continue;
    const auto near = nearest(member.key, names);
    input.found.error(
        "plan.key", member.key_span, cat("unknown key \"", member.key, "\" in ", input.key),
        near ? cat("did you mean \"", *near, "\"?") : cat("its keys: ", join(names, ", ")));
  }
  return input.found.errors() == errors;
}

// Returns the JSON Schema of an object that has no members other than `properties`.
inline Json closed_object(Json properties) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  schema["properties"] = std::move(properties);
  return schema;
}

// Codec of a table whose keys are members of the struct T. Members whose key is not in the table
// keep their defaults.
template <typename T>
class TableOf {
 public:
  // Adds a key, which sets `member`. read() reports an error if a required key is missing.
  template <typename M, typename Codec>
  TableOf& add(const std::string& key, M T::*member, Codec codec, const std::string& help,
               bool required = false) {
    Key out;
    out.name = key;
    out.required = required;
    out.schema = codec.schema();
    out.schema["description"] = help;
    out.read = [member, codec](const Input& input, T& value) {
      if (auto read = codec.read(input)) value.*member = std::move(*read);
    };
    out.write = [member, codec](const T& value) { return codec.write(value.*member); };
    keys_.push_back(std::move(out));
    return *this;
  }

  std::optional<T> read(const Input& input) const {
    const int errors = input.found.errors();
    T value;
    const auto assign = [&](const std::string& name, const Input& part) {
      for (const Key& key : keys_) {
        if (key.name != name) continue;
        key.read(part, value);
        return true;
      }
      return false;
    };
    if (!read_members(input, names(), assign)) return std::nullopt;
    for (const Key& key : keys_) {
      if (!key.required || input.value.find(key.name) != nullptr) continue;
      input.found.error("plan.required", input.value.span,
                        cat(input.key, " has no \"", key.name, "\""), "");
    }
    return input.found.errors() == errors ? std::optional(std::move(value)) : std::nullopt;
  }

  // Returns a table with only those keys whose value is not the default.
  Json write(const T& value) const {
    Json table = Json::object();
    for (const Key& key : keys_) {
      Json member = key.write(value);
      if (!member.is_null() && member != key.write(T{})) table[key.name] = std::move(member);
    }
    return table;
  }

  Json schema() const {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Key& key : keys_) {
      properties[key.name] = key.schema;
      if (const Json value = key.write(T{}); !value.is_null() && !key.required) {
        properties[key.name]["default"] = value;
      }
      if (key.required) required.push_back(key.name);
    }
    Json table = closed_object(std::move(properties));
    if (!required.empty()) table["required"] = std::move(required);
    return table;
  }

  std::string type() const { return cat("table of ", join(names(), ", ")); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Key& key : keys_) all.push_back(key.name);
    return all;
  }

 private:
  struct Key {
    std::string name;
    bool required = false;
    Json schema;
    std::function<void(const Input&, T&)> read;
    std::function<Json(const T&)> write;
  };

  std::vector<Key> keys_;
};

// Codec of std::vector<T>: an array of tables, for example [[data.source]].
template <typename T>
struct Tables {
  std::optional<std::vector<T>> read(const Input& input) const {
    if (input.value.kind != Value::Kind::kArray) {
      input.wrong_type("an array of tables", cat("write [[", input.key, "]]"));
      return std::nullopt;
    }
    const int errors = input.found.errors();
    std::vector<T> all;
    for (size_t i = 0; i < input.value.items.size(); ++i) {
      auto one = table.read(input.part(input.value.items[i], std::to_string(i)));
      if (one) all.push_back(std::move(*one));
    }
    return input.found.errors() == errors ? std::optional(std::move(all)) : std::nullopt;
  }

  Json write(const std::vector<T>& all) const {
    Json out = Json::array();
    for (const T& each : all) out.push_back(table.write(each));
    return out;
  }

  Json schema() const { return {{"type", "array"}, {"items", table.schema()}}; }

  std::string type() const { return cat("tables of ", join(table.names(), ", ")); }

  TableOf<T> table;
};

}  // namespace am::config
