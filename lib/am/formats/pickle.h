// Python's pickles, protocols 2 to 5, as data: nothing that a pickle names is looked up or called.
//
//   const Pickle pickle = Pickle::read(bytes, "checkpoint/.metadata");
//   const PickleValue root = pickle.root();
//   if (root.is_object("torch.distributed.checkpoint.metadata", "Metadata")) {
//     const auto* tensors = root.state().find("state_dict_metadata");
//
// A global is a tag of two texts; what Python would make by calling it is an object of that tag,
// its arguments, and the state that BUILD gave it. So an unknown class needs no refusal here: who
// interprets values compares tags whole, and what he does not know stays closed. `alarms` names
// those that only an attack would hold.
//
// Texts and byte strings view the bytes that were read, which must outlive the pickle. Values may
// be shared, and may contain themselves: whoever walks them needs a budget. Memory is a hundred
// bytes at most for each byte that is read, some ten in files as PyTorch writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::formats {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,      // of 64 bits
  kLongInt,  // of more: its bytes, the lowest first, in two's complement
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kSet,
  kDict,
  kGlobal,      // a class or function
  kObject,      // what a global made
  kPersistent,  // what only the file around the pickle knows: a storage
};

struct PickleNode;

// 16 bytes, copied freely. What each kind has is asked for by that kind alone; the others have
// none: an empty text, no items.
class PickleValue {
 public:
  PickleValue() = default;

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }
  bool truth() const { return kind_ == PickleKind::kBool && integer_ != 0; }
  std::optional<int64_t> integer() const;
  std::optional<double> real() const;
  // Of kText, which is UTF-8 as it stands in the file and may hold anything; nothing otherwise.
  std::optional<std::string_view> text() const;
  // Of kText, kBytes and kLongInt.
  std::string_view bytes() const;
  // Of a tuple, list or set; of a dict: key, value, key, value, ...
  std::span<const PickleValue> items() const;

  // Of a global. "torch.storage", "UntypedStorage"
  std::string_view module() const;
  std::string_view name() const;
  bool is_global(std::string_view module, std::string_view name) const;

  // Of an object: the global, its arguments (a tuple), what BUILD gave it (None without).
  PickleValue global() const;
  PickleValue arguments() const;
  PickleValue state() const;
  // What SETITEMS or APPENDS gave an object: a dict's key, value, ... or a list's elements.
  std::span<const PickleValue> contents() const;
  bool is_object(std::string_view module, std::string_view name) const;

  // Of kPersistent: what identifies it.
  PickleValue persistent_id() const;

  // Of a dict, or of an object with a dict's contents: the last value under this text. Null where
  // there is none.
  const PickleValue* find(std::string_view key) const;

 private:
  friend class PickleReader;

  PickleKind kind_ = PickleKind::kNone;
  uint32_t size_ = 0;  // of texts and bytes
  union {
    int64_t integer_ = 0;
    double real_;
    const char* text_;
    PickleNode* node_;
  };
};

// A global that a pickle names, for reports.
struct PickleGlobal {
  std::string module;
  std::string name;
  size_t position = 0;    // of the opcode, in the bytes that were read
  bool alarming = false;  // it would run commands, or code from elsewhere
};

class Pickle {
 public:
  // `where` names the bytes in messages. Throws Error(kFormat) with the position of what is no
  // pickle, or is none that this reads: text opcodes of protocols 0 and 1, extensions, buffers.
  // Bytes behind the pickle's end are refused, unless `end` asks where it is.
  static Pickle read(std::span<const std::byte> bytes, const std::string& where,
                     size_t* end = nullptr);
  Pickle(Pickle&&) noexcept;
  Pickle& operator=(Pickle&&) noexcept;
  ~Pickle();

  const PickleValue& root() const { return root_; }
  // Each once, in the order in which they are named.
  const std::vector<PickleGlobal>& globals() const { return globals_; }
  // Of all kPersistent values, as often as they are named.
  const std::vector<PickleValue>& persistent_ids() const { return persistent_ids_; }

 private:
  friend class PickleReader;
  struct Arena;
  Pickle();

  std::unique_ptr<Arena> arena_;
  PickleValue root_;
  std::vector<PickleGlobal> globals_;
  std::vector<PickleValue> persistent_ids_;
};

// Whether a pickle that names this global was made to do harm: what runs commands, imports or
// evaluates, opens connections, or unpickles more.
bool is_alarming_global(std::string_view module, std::string_view name);

}  // namespace am::formats
