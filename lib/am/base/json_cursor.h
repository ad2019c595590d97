// Streaming reader for large JSON files that automesh wrote. It reads numbers at several hundred
// MB/s and stores nothing.
//
//   JsonCursor json(text, "index.json");
//   std::string key;
//   for (json.begin_object(); json.next_key(key);) {
//     if (key == "shape") {
//       for (json.begin_array(); json.next_item();) shape.push_back(json.natural());
//     } else {
//       json.skip();
//     }
//   }
//   json.end();
//
// The value of each key and each item must be consumed by exactly one call of natural(), text(),
// skip(), begin_object() or begin_array(). These functions throw Error(kFormat) with the location
// for invalid JSON, or for a value of another type than requested. skip() checks only quotes and
// the number of brackets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace am {

class JsonCursor {
 public:
  // `text` must outlive the cursor. `where` is the name of the text in messages.
  JsonCursor(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  void begin_object() { begin('{'); }
  // Reads the next key of the object. Returns false at the end of the object.
  bool next_key(std::string& key);
  void begin_array() { begin('['); }
  // Moves to the next item of the array. Returns false at the end of the array.
  bool next_item() { return next(']'); }

  // Reads an integer from 0 to 2^63 - 1.
  int64_t natural();
  std::string text();
  // Skips a value of any type.
  void skip();
  // Checks that only white space follows the document. Throws Error(kFormat) otherwise.
  void end();

  // Throws Error(kFormat) with `where`, the current byte offset and `what`.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  char peek();
  void begin(char bracket);
  bool next(char bracket);
  void skip_brackets();
  std::string_view quoted();

  std::string_view text_;
  std::string where_;
  size_t at_ = 0;
  bool first_ = true;  // whether the next item is the first in its object or array
};

}  // namespace am
