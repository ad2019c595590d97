// A value of a JSON file, with its place in the file, for example "model.vocab". Error messages
// contain the place.
//
//   const std::string file = "tokenizer.json";
//   const JsonField root(json, "", file);
//   root.at("model").at("vocab").object();       // "tokenizer.json: model.vocab: ..." if it is a list
//   root.at("model").flag("fuse_unk", false);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"

namespace am::data {

class JsonField {
 public:
  // `file` must outlive the field.
  JsonField(const SortedJson& value, std::string place, const std::string& file)
      : value_(&value), place_(std::move(place)), file_(&file) {}

  // Throws Error(kFormat): "FILE: PLACE: REASON".
  [[noreturn]] void fail(const std::string& reason) const;

  // Returns a member of an object. at() throws Error(kFormat) if it is missing; find() returns
  // nullopt if it is missing or null.
  JsonField at(const char* key) const;
  std::optional<JsonField> find(const char* key) const;
  // Returns the items of an array.
  std::vector<JsonField> items() const;
  // Returns the value itself; throws Error(kFormat) if it has another type.
  const SortedJson& object() const;
  const std::string& text() const;
  bool flag() const;
  double number() const;
  uint32_t id() const;  // an integer from 0 to 2^32 - 2
  // Return a member, or `otherwise` if it is missing or null.
  std::string text(const char* key, const char* otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  int64_t count(const char* key, int64_t otherwise) const;
  // Returns the member "type".
  const std::string& type() const { return at("type").text(); }

  const SortedJson& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  // Returns the field of `value`, which this value contains as `name`: a key, or "[INDEX]".
  JsonField inside(const SortedJson& value, const std::string& name) const;

 private:
  const SortedJson* value_;
  std::string place_;
  const std::string* file_;
};

}  // namespace am::data
