// Pickles of protocol 2, as Python would make them of plain values and of objects whose classes are
// told by name.
//
//   PickleWriter pickle;
//   pickle.global("collections", "OrderedDict");
//   pickle.empty_tuple();
//   pickle.reduce();                           // OrderedDict()
//   const std::string bytes = pickle.finish();
//
// Texts and globals that come again are written once. Values are written innermost first, as
// Python's machine takes them from its stack; nothing checks that they make up one value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace am::formats {

class PickleWriter {
 public:
  PickleWriter();

  void none() { put('N'); }
  void boolean(bool value) { put(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);

  // Values from open_mark() on become one tuple; or, behind empty_dict() or empty_list(), its items
  // (a dict's: key, value, key, value, ...).
  void open_mark() { put('('); }
  void close_tuple() { put('t'); }
  void close_dict_items() { put('u'); }
  void close_list_items() { put('e'); }
  void empty_tuple() { put(')'); }
  void empty_dict() { put('}'); }
  void empty_list() { put(']'); }
  void integers(std::span<const int64_t> values);  // a tuple

  // What lies before: a global and its arguments (a tuple), called or made an object of.
  void reduce() { put('R'); }
  void new_object() { put('\x81'); }
  // An object and its state, a dict or a tuple.
  void build() { put('b'); }
  // A tuple that only the file around the pickle understands.
  void persistent() { put('Q'); }

  // The last value is kept, and may be written again by recall().
  uint32_t remember();
  void recall(uint32_t number);

  // The pickle, which is whole.
  std::string finish() &&;

 private:
  void put(char opcode) { bytes_.push_back(opcode); }
  template <typename T>
  void put_number(T value);
  void put_index(char short_opcode, char long_opcode, uint32_t index);
  // Writes it again where it was written before.
  bool repeats(const std::string& what);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> seen_;
  uint32_t remembered_ = 0;
};

}  // namespace am::formats
