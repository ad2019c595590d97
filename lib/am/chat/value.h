// Values of a chat template, with the meaning that they have in Python: text, numbers, lists,
// tuples, dicts, undefined.
//
//   Heap heap(Limits{});
//   const Value names = heap.list({Value::text("a"), Value::integer(1)});
//   chat::repr(names, heap);               // "['a', 1]"
//   chat::equal(names, names, heap);       // true
//
// A Value is a small handle that is copied freely. The heap of one rendering owns the objects to
// which Values point, and frees all of them at the end, so cycles do not leak (for example a
// namespace that contains itself). The heap also counts steps and bytes, and throws Failure if a
// template exceeds its limits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "am/base/json.h"

namespace am::chat {

// Integers have 127 bits and a sign. A larger result is an error, whereas Python's integers have no
// limit.
__extension__ using Int = __int128;

// Error of an expression, or of a template's syntax. Template catches a Failure, adds file and
// line, and throws Error(kFormat).
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Limits of one rendering. A real template needs a few hundred steps per message.
struct Limits {
  int64_t steps = 20'000'000;          // expressions, statements, elements visited
  int64_t bytes = int64_t{256} << 20;  // all values that the template makes, and its output
  int depth = 1000;                    // nested expressions, statements and macro calls
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kList,
  kTuple,
  kView,      // dict_keys, dict_values, dict_items
  kRange,     // range()
  kIterator,  // a Python generator: each element is returned only once
  kDict,
  kObject,  // functions, macros, namespaces, loops
};

struct List;
struct Dict;
class Object;

struct Value {
  Kind kind = Kind::kUndefined;
  // Whether a text is HTML-safe, as a result of the filters `safe` and `escape`. If one operand of
  // `+` is a safe text, the other operand is escaped unless it is safe too.
  bool safe = false;
  union {
    bool boolean;
    Int number;
    double real;
    std::string_view string;  // kText: the text. kUndefined: error message for uses of the value
    List* list;               // kList to kIterator
    const Dict* dict;
    Object* object;
  };

  Value() : string() {}
  static Value undefined(std::string_view message);
  static Value none();
  static Value boolean_of(bool value);
  static Value integer(Int value);
  static Value floating(double value);
  static Value text(std::string_view value, bool safe = false);

  bool is(Kind other) const { return kind == other; }
  bool is_number() const { return kind >= Kind::kBool && kind <= Kind::kFloat; }
  bool is_integral() const { return kind == Kind::kBool || kind == Kind::kInt; }
  bool is_sequence() const { return kind >= Kind::kList && kind <= Kind::kIterator; }
  // Value of a kBool or kInt.
  Int as_integer() const { return kind == Kind::kBool ? Int{boolean} : number; }
  double as_real() const { return kind == Kind::kFloat ? real : static_cast<double>(as_integer()); }
};

struct List {
  std::vector<Value> items;
  int depth = 1;     // levels of nested lists and dicts, including this list
  size_t taken = 0;  // kIterator: number of `items` that were already returned
  // kIterator: sets its argument to the next element, after all of `items` were returned. Returns
  // false at the end. May be null.
  std::function<bool(Value&)> pull = {};
  std::string_view name = {};         // kView, kIterator: type in Python
  Int start = 0, stop = 0, step = 1;  // kRange
  bool is_group = false;              // a tuple of `groupby`, with the attributes grouper and list
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  // Maps the hash of a key to the key's index in `items`. Empty for a small dict, whose items are
  // searched in order.
  std::unordered_multimap<size_t, size_t> index;
  int depth = 1;
};

// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

class Heap;
class Interpreter;

// Base class of values that a template cannot write as a literal: functions, macros, namespaces,
// loops.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type() const = 0;
  virtual std::string repr(Heap& heap) const;
  // Sets `out` and returns true if the object has the attribute.
  virtual bool attribute(std::string_view name, Interpreter& in, Value& out);
  virtual bool callable() const { return false; }
  // Throws Failure if the object is not callable.
  virtual Value call(Interpreter& in, const Arguments& arguments);
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}

  // step() counts units of work, scan() counts bytes that are read (64 bytes are one unit of work),
  // and charge() counts bytes that are allocated. All throw Failure if the limit is exceeded.
  void step(int64_t count = 1);
  void scan(size_t bytes) { step(1 + static_cast<int64_t>(bytes / 64)); }
  void charge(int64_t bytes);
  // Counts one level of recursion while the object exists. The constructor throws Failure if the
  // limit is exceeded.
  class Level {
   public:
    explicit Level(Heap& heap);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --heap_.levels_; }

   private:
    Heap& heap_;
  };
  int64_t bytes_left() const { return limits_.bytes - bytes_; }
  const Limits& limits() const { return limits_; }

  Value text(std::string text, bool safe = false);
  Value undefined(std::string message);
  Value list(std::vector<Value> items, Kind kind = Kind::kList, std::string_view name = {});
  Value range(Int start, Int stop, Int step);
  // Returns a dict of the pairs. If several pairs have equal keys, the last value is kept. Throws
  // Failure for a key without a hash, such as a list.
  Value dict(const std::vector<std::pair<Value, Value>>& items);
  // Converts JSON to a value. Texts in the value refer to the strings in `json`, so `json` must
  // outlive the value.
  Value from_json(const Json& json);

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    charge(sizeof(T) + 32);
    auto made = std::make_unique<T>(std::forward<Args>(args)...);
    T* const out = made.get();
    if constexpr (std::is_base_of_v<Object, T>) {
      objects_.push_back(std::move(made));
    } else {
      cells_.push_back(std::shared_ptr<T>(std::move(made)));
    }
    return out;
  }
  static Value object(Object* object);

 private:
  Limits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int levels_ = 0;
  std::deque<std::string> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::shared_ptr<void>> cells_;  // scopes
};

// Returns Python's type name: "str", "int", "list", ...
std::string_view type_name(const Value& value);
// Returns Python's bool(value).
bool is_true(const Value& value);
// Return Python's str(value) and repr(value).
Value str(const Value& value, Heap& heap);
std::string repr(const Value& value, Heap& heap);
// Returns whether a == b in Python, except that a dict's views are equal only to themselves.
bool equal(const Value& a, const Value& b, Heap& heap);
// Returns -1, 0 or 1 if `a` is less than, equal to or greater than `b`; 2 if one of the numbers is
// NaN. Throws Failure for types that Python does not order; the message contains the operator `op`.
int compare(const Value& a, const Value& b, std::string_view op, Heap& heap);
// Returns the value of a key; null if the dict does not contain the key. Throws Failure for a key
// without a hash.
const Value* find(const Dict& dict, const Value& key, Heap& heap);
const Value* find(const Dict& dict, std::string_view key, Heap& heap);
// Returns the hash of a value. Equal values have equal hashes. Throws Failure for a value without a
// hash.
size_t hash_of(const Value& value, Heap& heap);
// Returns the number of elements or characters. Throws Failure for a value without a length.
int64_t length(const Value& value, Heap& heap);
// Returns the elements over which a `for` loop iterates: the characters of a text, the keys of a
// dict. Consumes an iterator. Throws Failure if the value is not iterable.
std::vector<Value> elements(const Value& value, Heap& heap);
// Sets `out` to the next element of a kIterator and returns true. Returns false at the end.
bool take_next(List& iterator, Value& out);
bool is_iterable(const Value& value);

std::string int_text(Int value, int base = 10);
// Returns repr() of a float, for example "1.0", "1e-05", "inf".
std::string float_text(double value);

}  // namespace am::chat
