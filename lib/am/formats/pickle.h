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
  kInt,      // of 64 bits
  kLongInt,  // longer: little-endian bytes in two's complement
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kSet,
  kDict,
  kGlobal,      // a class or function
  kObject,      // result of calling a global
  kPersistent,  // a persistent id, resolved by the enclosing file: a storage
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
  // Text of kText, raw from the file (UTF-8, unvalidated); nothing for other kinds.
  std::optional<std::string_view> text() const;
  // Bytes of kText, kBytes and kLongInt.
  std::string_view bytes() const;
  // Elements of a tuple, list or set; of a dict: key, value, key, value, ...
  std::span<const PickleValue> items() const;

  // Module and name of a global: "torch.storage", "UntypedStorage".
  std::string_view module() const;
  std::string_view name() const;
  bool is_global(std::string_view module, std::string_view name) const;

  // Global, arguments (a tuple) and BUILD state of an object; the state is None without a BUILD.
  PickleValue global() const;
  PickleValue arguments() const;
  PickleValue state() const;
  // Items added to an object by SETITEMS or APPENDS: key, value, ... as of a dict, or elements of a
  // list.
  std::span<const PickleValue> contents() const;
  bool is_object(std::string_view module, std::string_view name) const;

  // The id of kPersistent.
  PickleValue persistent_id() const;

  // In a dict, or an object with a dict's contents: the last value with this key. Null if there is
  // none.
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

// A global named by a pickle, for reports.
struct PickleGlobal {
  std::string module;
  std::string name;
  size_t position = 0;    // offset of the opcode in the input
  bool alarming = false;  // importing the global would run commands or foreign code
};

class Pickle {
 public:
  // `where` names the input in messages. Throws Error(kFormat) with the position if the input is
  // not a pickle or uses unsupported features: text opcodes of protocols 0 and 1, extensions,
  // buffers. Bytes behind the end of the pickle are an error unless `end` is given, which receives
  // the end.
  static Pickle read(std::span<const std::byte> bytes, const std::string& where,
                     size_t* end = nullptr);
  Pickle(Pickle&&) noexcept;
  Pickle& operator=(Pickle&&) noexcept;
  ~Pickle();

  const PickleValue& root() const { return root_; }
  // Distinct globals, in order of first appearance.
  const std::vector<PickleGlobal>& globals() const { return globals_; }
  // Ids of all kPersistent values, one entry per occurrence.
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

// Whether a pickle that names this global is malicious: globals that run commands, import or
// evaluate code, open connections, or unpickle more data.
bool is_alarming_global(std::string_view module, std::string_view name);

}  // namespace am::formats
