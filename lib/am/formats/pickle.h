// Parses Python pickles, protocols 2 to 5, as data: globals are never imported or called.
//
//   const Pickle pickle = Pickle::read(bytes, "checkpoint/.metadata");
//   const PickleValue root = pickle.root();
//   if (root.is_object("torch.distributed.checkpoint.metadata", "Metadata")) {
//     const PickleValue* tensors = root.state().find("state_dict_metadata");
//   }
//
// A global is a tag of two texts (module and name). The result of calling it is an object with that
// tag, its arguments, and the state that BUILD set. Unknown classes need no error here: code that
// interprets values compares complete tags and leaves unknown objects opaque. `alarming` marks
// globals that only an attack would use.
//
// Texts and byte strings are views of the input, which must outlive the pickle. Values may be
// shared and may contain themselves, so traversals need a limit. Memory is at most a hundred bytes
// per byte of input, about ten for files written by PyTorch.
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
  kPersistent,  // a persistent id; in files of torch.save it names a tensor's storage
};

struct PickleNode;

// A value of 16 bytes, cheap to copy. An accessor returns its kind's contents; for other kinds it
// returns an empty result.
class PickleValue {
 public:
  PickleValue() = default;

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }
  bool truth() const { return kind_ == PickleKind::kBool && integer_ != 0; }
  std::optional<int64_t> integer() const;
  std::optional<double> real() const;
  // Returns the text of kText as it is in the file (UTF-8, not validated); nothing for other kinds.
  std::optional<std::string_view> text() const;
  // Returns the bytes of kText, kBytes and kLongInt.
  std::string_view bytes() const;
  // Returns the elements of a tuple, list or set; for a dict: key, value, key, value, ...
  std::span<const PickleValue> items() const;

  // Return the module and the name of a global, for example "torch.storage" and "UntypedStorage".
  std::string_view module() const;
  std::string_view name() const;
  bool is_global(std::string_view module, std::string_view name) const;

  // Return an object's global, its arguments (a tuple), and the state that BUILD set; None without
  // a BUILD.
  PickleValue global() const;
  PickleValue arguments() const;
  PickleValue state() const;
  // Returns the items that SETITEMS or APPENDS added to an object: key, value, key, value, ... as
  // in a dict, or the elements of a list.
  std::span<const PickleValue> contents() const;
  bool is_object(std::string_view module, std::string_view name) const;

  // Returns the id of kPersistent.
  PickleValue persistent_id() const;

  // Returns the last value with this key in a dict, or in an object with a dict's contents; null if
  // there is none.
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

// A global named by a pickle, for reports.
struct PickleGlobal {
  std::string module;
  std::string name;
  size_t position = 0;    // offset of the opcode in the input
  bool alarming = false;  // importing the global would run commands or foreign code
};

class Pickle {
 public:
  // Parses a pickle; `where` names the input in messages. Throws Error(kFormat) with the position
  // if the input is not a pickle or uses unsupported features: text opcodes of protocols 0 and 1,
  // extensions, buffers. Bytes behind the end of the pickle are an error, unless `end` is given: it
  // then receives the position of the end.
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

// Whether only a malicious pickle would name this global: one that runs commands, imports or
// evaluates code, opens connections, or unpickles more data.
bool is_alarming_global(std::string_view module, std::string_view name);

}  // namespace am::formats
