// A value of a JSON file, with its place in the file, for example "model.vocab". Error messages
// contain the place.
//
//   const std::string file = "tokenizer.json";
//   const JsonField root(json, "", file);
//   root.at("model").at("vocab").object();  // throws "tokenizer.json: model.vocab: ..." for a list
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

  // Throws Error(kFormat) with the message "FILE: PLACE: REASON".
  [[noreturn]] void fail(const std::string& reason) const;

  // Return the member `key` of an object. If the member is missing, at() throws Error(kFormat). If
  // the member is missing or null, find() returns nullopt. Throw Error(kFormat) if the value is not
  // an object.
  JsonField at(const char* key) const;
  std::optional<JsonField> find(const char* key) const;
  // Returns the items of an array. Throws Error(kFormat) if the value is not an array.
  std::vector<JsonField> items() const;
  // Return the value itself. Throw Error(kFormat) if the value has another type.
  const SortedJson& object() const;
  const std::string& text() const;
  bool flag() const;
  double number() const;
  uint32_t id() const;  // an integer from 0 to 2^32 - 2
  // Return the member `key`, or `otherwise` if the member is missing or null. Throw Error(kFormat)
  // if the member has another type. count() accepts the integers that id() accepts.
  std::string text(const char* key, const char* otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  int64_t count(const char* key, int64_t otherwise) const;
  // Returns the member "type".
  const std::string& type() const { return at("type").text(); }

  const SortedJson& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  // Returns a field for `value`, which is a part of this field's value. `name` is the key of
  // `value`, or "[INDEX]" for an item of an array.
  JsonField inside(const SortedJson& value, const std::string& name) const;

 private:
  const SortedJson* value_;
  std::string place_;
  const std::string* file_;
};

}  // namespace am::data
