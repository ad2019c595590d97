// Interprets pickle opcodes. Names of classes and functions become values; nothing is imported or
// called.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/little_endian.h"
#include "am/formats/pickle_memory.h"
#include "am/formats/pickle_memos.h"

namespace am::formats {

namespace {

constexpr size_t kLongestText = size_t{1} << 20;
constexpr size_t kLongestLong = 1024;
constexpr int kNewestProtocol = 5;

}  // namespace

class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  Pickle read(size_t* end) {
    if (bytes_.size() > UINT32_MAX) fail("it has more than 4 GiB");
    recalled_ = recalled_memos(bytes_);
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      fail(cat("it ends with ", stack_.size(), " values and ", marks_.size(),
               " open marks instead of one value"));
    }
    if (end != nullptr) {
      *end = next_;
    } else if (next_ != bytes_.size()) {
      fail(cat(bytes_.size() - next_, " bytes follow its end"));
    }
    pickle_.root_ = stack_.front();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat,
                cat(where_, ": not a pickle that can be read: byte ", position_, ": ", what),
                "the file may be cut off, or of another format");
  }

  // ---- input

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - next_) {
      fail(cat("the next value needs ", count, " bytes, but ", bytes_.size() - next_, " are left"));
    }
    const auto taken = bytes_.subspan(next_, count);
    next_ += count;
    return taken;
  }
  template <typename T>
  T number() {
    return little_endian<T>(take(sizeof(T)));
  }
  std::string_view line() {
    const auto rest = bytes_.subspan(next_);
    const auto found = std::find(rest.begin(), rest.end(), std::byte{'\n'});
    if (found == rest.end()) fail("a line is not ended by a newline");
    const auto length = static_cast<size_t>(found - rest.begin());
    if (length > kLongestText) fail("a name is longer than 1 MiB");
    const auto text = take(length);
    take(1);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // ---- values

  static PickleValue make(PickleKind kind, int64_t integer) {
    PickleValue value;
    value.kind_ = kind;
    value.integer_ = integer;
    return value;
  }
  static PickleValue make_text(PickleKind kind, std::string_view text) {
    PickleValue value;
    value.kind_ = kind;
    value.size_ = static_cast<uint32_t>(text.size());
    value.text_ = text.data();
    return value;
  }
  PickleValue make_node(PickleKind kind, std::span<const PickleValue> items) {
    PickleValue value;
    value.kind_ = kind;
    value.node_ = pickle_.arena_->node(items);
    return value;
  }

  void push(PickleValue value) { stack_.push_back(value); }
  void push_integer(int64_t integer) { push(make(PickleKind::kInt, integer)); }
  void push_text(PickleKind kind, uint64_t length) {
    if (length > kLongestText && kind == PickleKind::kText) {
      fail(cat("a string has ", length, " bytes; the limit is ", kLongestText));
    }
    if (length > UINT32_MAX) fail(cat(length, " bytes in one value are more than 4 GiB"));
    const auto taken = take(length);
    push(make_text(kind, {reinterpret_cast<const char*>(taken.data()), taken.size()}));
  }
  // Reads an integer of `length` bytes (two's complement, little-endian) and pushes the integer.
  void push_long(uint64_t length) {
    if (length > kLongestLong) fail(cat("an integer has ", length, " bytes"));
    if (length > sizeof(int64_t)) {
      push_text(PickleKind::kLongInt, length);
      return;
    }
    const auto taken = take(length);
    uint64_t value = 0;
    for (size_t i = taken.size(); i-- > 0;) value = value << 8U | static_cast<uint64_t>(taken[i]);
    const size_t missing = 8 * (sizeof(int64_t) - length);
    push_integer(length == 0 ? 0 : static_cast<int64_t>(value << missing) >> missing);
  }
  void push_real() {
    uint64_t bits = __builtin_bswap64(number<uint64_t>());
    PickleValue value;
    value.kind_ = PickleKind::kFloat;
    std::memcpy(&value.real_, &bits, sizeof bits);
    push(value);
  }

  // ---- the stack; opcodes access only the values above the last mark

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue& top() {
    if (stack_.size() <= floor()) fail("an opcode takes a value from an empty stack");
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  // Closes the last mark on the stack, and returns the values above this mark without removing
  // them. The returned span is valid until the next push. drop_above() removes the values.
  std::span<const PickleValue> pop_to_mark() {
    if (marks_.empty()) fail("an opcode closes a mark, but none is open");
    const size_t begin = marks_.back();
    marks_.pop_back();
    const auto above = std::span<const PickleValue>(stack_).subspan(begin);
    above_ = begin;
    return above;
  }
  void drop_above() { stack_.resize(above_); }

  void collect(PickleKind kind, size_t count) {
    if (stack_.size() - floor() < count) fail("an opcode takes a value from an empty stack");
    const PickleValue value = make_node(kind, std::span<const PickleValue>(stack_).last(count));
    stack_.resize(stack_.size() - count);
    push(value);
  }
  void collect_marked(PickleKind kind) {
    const auto items = pop_to_mark();
    if (kind == PickleKind::kDict && items.size() % 2 != 0)
      fail("a dict has a key without a value");
    const PickleValue value = make_node(kind, items);
    drop_above();
    push(value);
  }

  // Moves `items` from the top of the stack to the container directly below them. `below`: number
  // of values on the stack below `items`. The container must be of the given kind or, unless `kind`
  // is kSet, an object.
  void add_items(PickleKind kind, std::span<const PickleValue> items, size_t below) {
    if (below <= floor()) fail("an opcode takes a value from an empty stack");
    if (kind == PickleKind::kDict && items.size() % 2 != 0)
      fail("a dict has a key without a value");
    const PickleValue& container = stack_[below - 1];
    const bool object = container.is(PickleKind::kObject) && kind != PickleKind::kSet;
    if (!container.is(kind) && !object)
      fail("an opcode adds items to a value that is not a container");
    pickle_.arena_->extend(*container.node_, items);
    stack_.resize(below);
  }
  void add_one(PickleKind kind, size_t count) {
    if (stack_.size() - floor() < count) fail("an opcode takes a value from an empty stack");
    add_items(kind, std::span<const PickleValue>(stack_).last(count), stack_.size() - count);
  }
  void add_marked(PickleKind kind) {
    const auto items = pop_to_mark();
    add_items(kind, items, above_);
  }

  // ---- the memo (pickle_memos.h), whose indices begin at 0

  void remember(size_t index) {
    if (index > opcodes_) fail(cat("a value is stored in the memo at index ", index));
    const PickleValue& value = top();
    next_memo_ = std::max(next_memo_, index + 1);
    if (recalled_.contains(index)) memo_.insert_or_assign(index, value);
  }
  void recall(size_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(cat("the memo has no value at index ", index));
    push(found->second);
  }

  // ---- globals and objects

  void push_global(PickleValue module, PickleValue name) {
    if (!module.is(PickleKind::kText) || !name.is(PickleKind::kText)) {
      fail("the name of a global is not a string");
    }
    if (seen_.emplace(module.bytes(), name.bytes()).second) {
      pickle_.globals_.push_back({std::string(module.bytes()), std::string(name.bytes()), position_,
                                  is_alarming_global(module.bytes(), name.bytes())});
    }
    const std::array<PickleValue, 2> both = {module, name};
    push(make_node(PickleKind::kGlobal, both));
  }
  void push_object() {
    const PickleValue arguments = pop();
    const PickleValue global = pop();
    if (!global.is(PickleKind::kGlobal))
      fail("the target of a call is not a global (a class or function)");
    if (!arguments.is(PickleKind::kTuple)) fail("the arguments of a call are not a tuple");
    const std::array<PickleValue, kObjectItems> items = {global, arguments, PickleValue()};
    push(make_node(PickleKind::kObject, items));
  }
  void build() {
    const PickleValue state = pop();
    PickleValue& object = top();
    if (!object.is(PickleKind::kObject)) fail("a state is set on a value that is not an object");
    object.node_->items[kStateItem] = state;
  }

  // ---- opcodes, with the names of Python's pickletools

  bool step();
  bool step_container(uint8_t opcode);

  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t next_ = 0;
  size_t position_ = 0;  // position of the current opcode
  size_t opcodes_ = 0;
  size_t above_ = 0;  // stack position of the mark that pop_to_mark() closed last
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  RecalledMemos recalled_;
  std::unordered_map<size_t, PickleValue> memo_;  // values that are read again, by memo index
  size_t next_memo_ = 0;
  std::optional<PickleValue> empty_tuple_;  // one value for all empty tuples, which are immutable
  std::set<std::pair<std::string_view, std::string_view>> seen_;
  Pickle pickle_;
};

bool PickleReader::step() {
  position_ = next_;
  ++opcodes_;
  const auto opcode = number<uint8_t>();
  switch (opcode) {
    case 0x80: {  // PROTO
      const auto protocol = number<uint8_t>();
      if (protocol < 2 || protocol > kNewestProtocol)
        fail(cat("protocol ", int{protocol}, " is not supported"));
      return true;
    }
    case 0x95:  // FRAME
      if (number<uint64_t>() > bytes_.size() - next_)
        fail("a frame is longer than the rest of the file");
      return true;
    case '.':  // STOP
      return false;
    case 'N':
      push({});
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:
      push(make(PickleKind::kBool, opcode == 0x88 ? 1 : 0));
      return true;
    case 'J':  // BININT
      push_integer(number<int32_t>());
      return true;
    case 'K':  // BININT1
      push_integer(number<uint8_t>());
      return true;
    case 'M':  // BININT2
      push_integer(number<uint16_t>());
      return true;
    case 0x8a:  // LONG1
      push_long(number<uint8_t>());
      return true;
    case 0x8b:  // LONG4
      push_long(number<uint32_t>());
      return true;
    case 'G':  // BINFLOAT
      push_real();
      return true;
    case 'X':  // BINUNICODE
    case 'T':  // BINSTRING, Python 2's str
      push_text(PickleKind::kText, number<uint32_t>());
      return true;
    case 0x8c:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
      push_text(PickleKind::kText, number<uint8_t>());
      return true;
    case 0x8d:  // BINUNICODE8
      push_text(PickleKind::kText, number<uint64_t>());
      return true;
    case 'B':  // BINBYTES
      push_text(PickleKind::kBytes, number<uint32_t>());
      return true;
    case 'C':  // SHORT_BINBYTES
      push_text(PickleKind::kBytes, number<uint8_t>());
      return true;
    case 0x8e:  // BINBYTES8
      push_text(PickleKind::kBytes, number<uint64_t>());
      return true;
    case 'c': {  // GLOBAL
      const std::string_view module = line();
      const std::string_view name = line();
      push_global(make_text(PickleKind::kText, module), make_text(PickleKind::kText, name));
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const PickleValue name = pop();
      const PickleValue module = pop();
      push_global(module, name);
      return true;
    }
    case 'R':   // REDUCE
    case 0x81:  // NEWOBJ
      push_object();
      return true;
    case 'b':  // BUILD
      build();
      return true;
    case 'Q': {  // BINPERSID
      const PickleValue id = pop();
      pickle_.persistent_ids_.push_back(id);
      push(make_node(PickleKind::kPersistent, {&id, 1}));
      return true;
    }
    case 0x94:  // MEMOIZE
      remember(next_memo_);
      return true;
    case 'q':  // BINPUT
      remember(number<uint8_t>());
      return true;
    case 'r':  // LONG_BINPUT
      remember(number<uint32_t>());
      return true;
    case 'h':  // BINGET
      recall(number<uint8_t>());
      return true;
    case 'j':  // LONG_BINGET
      recall(number<uint32_t>());
      return true;
    default:
      return step_container(opcode);
  }
}

bool PickleReader::step_container(uint8_t opcode) {
  switch (opcode) {
    case '(':  // MARK
      marks_.push_back(stack_.size());
      return true;
    case '0':  // POP, which closes the last mark if no value is above this mark
      if (stack_.size() == floor() && !marks_.empty()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':  // POP_MARK
      pop_to_mark();
      drop_above();
      return true;
    case '2':  // DUP
      push(top());
      return true;
    case ')':  // EMPTY_TUPLE
      if (!empty_tuple_) empty_tuple_ = make_node(PickleKind::kTuple, {});
      push(*empty_tuple_);
      return true;
    case 0x85:  // TUPLE1, TUPLE2 and TUPLE3
    case 0x86:
    case 0x87:
      collect(PickleKind::kTuple, opcode - size_t{0x84});
      return true;
    case 't':
      collect_marked(PickleKind::kTuple);
      return true;
    case ']':  // EMPTY_LIST
      push(make_node(PickleKind::kList, {}));
      return true;
    case 'l':
      collect_marked(PickleKind::kList);
      return true;
    case 'a':  // APPEND
      add_one(PickleKind::kList, 1);
      return true;
    case 'e':  // APPENDS
      add_marked(PickleKind::kList);
      return true;
    case '}':  // EMPTY_DICT
      push(make_node(PickleKind::kDict, {}));
      return true;
    case 'd':
      collect_marked(PickleKind::kDict);
      return true;
    case 's':  // SETITEM
      add_one(PickleKind::kDict, 2);
      return true;
    case 'u':  // SETITEMS
      add_marked(PickleKind::kDict);
      return true;
    case 0x8f:  // EMPTY_SET
      push(make_node(PickleKind::kSet, {}));
      return true;
    case 0x90:  // ADDITEMS
      add_marked(PickleKind::kSet);
      return true;
    case 0x91:  // FROZENSET
      collect_marked(PickleKind::kSet);
      return true;
    default:
      fail(cat("opcode ", int{opcode}, " does not occur in files of tensors"));
  }
}

Pickle Pickle::read(std::span<const std::byte> bytes, const std::string& where, size_t* end) {
  return PickleReader(bytes, where).read(end);
}

}  // namespace am::formats
