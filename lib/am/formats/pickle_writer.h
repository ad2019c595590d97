// Writes pickles of protocol 2. A pickle may contain plain values, and objects whose classes are
// given by name.
//
//   PickleWriter pickle;
//   pickle.global("collections", "OrderedDict");
//   pickle.empty_tuple();
//   pickle.reduce();                           // OrderedDict()
//   const std::string bytes = std::move(pickle).finish();
//
// Each call writes opcodes for Python's unpickler, a stack machine: first the operands, then the
// operation. The caller must leave exactly one value on the stack; the writer does not check this.
// A text or global that occurs again is read from the memo (pickle_memos.h).
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

  // close_tuple() turns the values written since open_mark() into one tuple. close_dict_items() and
  // close_list_items() add these values to the empty_dict() or empty_list() that was written before
  // open_mark(). Items of a dict are written as key, value, key, value, ...
  void open_mark() { put('('); }
  void close_tuple() { put('t'); }
  void close_dict_items() { put('u'); }
  void close_list_items() { put('e'); }
  void empty_tuple() { put(')'); }
  void empty_dict() { put('}'); }
  void empty_list() { put(']'); }
  void integers(std::span<const int64_t> values);  // writes a tuple of integers

  // Write a call of a function (reduce) or the creation of an object (new_object). The global and
  // the tuple of arguments must have been written before.
  void reduce() { put('R'); }
  void new_object() { put('\x81'); }
  // Sets the last value, a dict or a tuple, as the state of the object before it.
  void build() { put('b'); }
  // Turns the last value into a persistent id. The meaning of the id depends on the file that
  // contains the pickle: in files of torch.save, the id describes a tensor's storage.
  void persistent() { put('Q'); }

  // remember() stores the last value in the memo, and returns the value's index in the memo.
  // recall() pushes the value with this index.
  uint32_t remember();
  void recall(uint32_t number);

  // Returns the complete pickle.
  std::string finish() &&;

 private:
  void put(char opcode) { bytes_.push_back(opcode); }
  template <typename T>
  void put_number(T value);
  void put_index(char short_opcode, char long_opcode, uint32_t index);
  // If `what`, an encoded text or global, was written before, writes its recall() and returns true.
  // Otherwise registers `what` under the next memo index, writes nothing and returns false.
  bool repeats(const std::string& what);

  std::string bytes_;
  std::unordered_map<std::string, uint32_t> seen_;
  uint32_t remembered_ = 0;
};

}  // namespace am::formats
