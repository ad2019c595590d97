// Large JSON files of our own, read as one goes: numbers at some hundred MB/s, and nothing is kept
// but what the reader keeps.
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
// Every key or item that was announced is read by one of natural(), text(), skip() or a begin.
// What is no JSON, or another value than was asked for, throws Error(kFormat) with its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace am {

class JsonCursor {
 public:
  // `text` must outlive the cursor; `where` names it in messages.
  JsonCursor(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  void begin_object() { begin('{'); }
  // False: the object has ended.
  bool next_key(std::string& key);
  void begin_array() { begin('['); }
  // False: the array has ended.
  bool next_item() { return next(']'); }

  // A whole number from 0 to 2^63 - 1.
  int64_t natural();
  std::string text();
  // A value of any kind.
  void skip();
  // Nothing follows the value.
  void end();

  // With the place that was read last.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  char peek();
  void begin(char bracket);
  bool next(char bracket);
  std::string_view quoted();

  std::string_view text_;
  std::string where_;
  size_t at_ = 0;
  bool first_ = true;  // of what the innermost bracket holds
};

}  // namespace am
