// Parses Python pickles, protocols 2 to 5, as data: globals are never imported or called.
//
//   const Pickle pickle = Pickle::read(bytes, "checkpoint/.metadata");
//   const PickleValue root = pickle.root();
//   if (root.is_object("torch.distributed.checkpoint.metadata", "Metadata")) {
//     const PickleValue* tensors = root.state().find("state_dict_metadata");
//   }
//
// A global (a class or function) is stored as its module and name. The result of calling a global
// is stored as an object: the global, the arguments, and the state that the opcode BUILD set.
// Objects of unknown classes are not an error. PickleGlobal::alarming marks globals that only an
// attack would use.
//
// Texts and byte strings are views of the input, which must outlive the Pickle. A container may
// contain itself, so recursive traversals need a depth limit. The memory used is at most 256 KiB
// plus 100 bytes per byte of input; large files written by PyTorch need about 10 bytes per byte.
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
  kInt,      // an integer that fits in 64 bits
  kLongInt,  // a longer integer, as little-endian bytes in two's complement
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kSet,
  kDict,
  kGlobal,      // a class or function
  kObject,      // the result of calling a global
  kPersistent,  // a persistent id; in files of torch.save, the id of a tensor's storage
};

struct PickleNode;

// A value of a pickle: 16 bytes, cheap to copy. An accessor such as integer() returns an empty
// result if the value is of another kind.
class PickleValue {
 public:
  PickleValue() = default;

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }
  bool truth() const { return kind_ == PickleKind::kBool && integer_ != 0; }
  std::optional<int64_t> integer() const;
  std::optional<double> real() const;
  // Returns the text of a kText value as the input stores it: UTF-8, not validated.
  std::optional<std::string_view> text() const;
  // Returns the bytes of a kText, kBytes or kLongInt value.
  std::string_view bytes() const;
  // Returns the elements of a tuple, list or set; for a dict: key, value, key, value, ...
  std::span<const PickleValue> items() const;

  // Return the module and the name of a global, for example "torch.storage" and "UntypedStorage".
  std::string_view module() const;
  std::string_view name() const;
  bool is_global(std::string_view module, std::string_view name) const;

  // Return an object's global, the arguments of the global's call (a tuple), and the state that the
  // opcode BUILD set. The state is None if there was no BUILD.
  PickleValue global() const;
  PickleValue arguments() const;
  PickleValue state() const;
  // Returns the items that opcodes such as SETITEMS and APPENDS added to an object. For an object
  // that is a kind of dict: key, value, key, value, ...; for a kind of list: the elements.
  std::span<const PickleValue> contents() const;
  bool is_object(std::string_view module, std::string_view name) const;

  // Returns the id of a kPersistent value.
  PickleValue persistent_id() const;

  // Returns the last value under `key` in a dict, or in the contents() of an object; null if there
  // is none.
  const PickleValue* find(std::string_view key) const;

 private:
  friend class PickleReader;

  PickleKind kind_ = PickleKind::kNone;
  uint32_t size_ = 0;  // number of bytes of a text or byte string
  union {
    int64_t integer_ = 0;
    double real_;
    const char* text_;
    PickleNode* node_;
  };
};

// A class or function that a pickle names.
struct PickleGlobal {
  std::string module;
  std::string name;
  size_t position = 0;    // offset in the input of the opcode that first pushes the global
  bool alarming = false;  // whether is_alarming_global() is true for the global
};

class Pickle {
 public:
  // Parses a pickle; `where` names the input in messages. Throws Error(kFormat) with the position
  // of the error if the input is not a pickle, or uses opcodes that files of tensors do not need:
  // those for numbers and strings in text form, for extensions, and for buffers. If `end` is null,
  // bytes after the pickle are an error; otherwise, *end is set to the position after the pickle.
  static Pickle read(std::span<const std::byte> bytes, const std::string& where,
                     size_t* end = nullptr);
  Pickle(Pickle&&) noexcept;
  Pickle& operator=(Pickle&&) noexcept;
  ~Pickle();

  const PickleValue& root() const { return root_; }
  // Returns the distinct globals, in order of first appearance.
  const std::vector<PickleGlobal>& globals() const { return globals_; }
  // Returns the ids of all kPersistent values, one entry per occurrence.
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

// Whether a global is alarming: one that runs commands, imports or evaluates code, opens
// connections, or unpickles more data. A file of tensors names this global only in an attack.
bool is_alarming_global(std::string_view module, std::string_view name);

}  // namespace am::formats
