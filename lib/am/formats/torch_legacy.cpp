#include "am/formats/torch_legacy.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/formats/little_endian.h"
#include "am/formats/torch_archive.h"

namespace am::formats {

namespace {

// The first bytes of every file: the pickle of the magic number (opcodes PROTO 2, LONG1 and STOP).
constexpr std::string_view kMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
constexpr int64_t kProtocol = 1001;
constexpr std::string_view kObject = "object";

class LegacyReader {
 public:
  LegacyReader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  LegacyTorch read() {
    next("magic number");
    if (next("protocol").root().integer() != kProtocol) fail("its protocol is not 1001");
    const Pickle machine = next("sizes");
    const PickleValue* little = machine.root().find("little_endian");
    if (little == nullptr || !little->truth()) fail("its byte order is not little-endian");
    LegacyTorch result{next(kObject), {}};
    for (const PickleValue& id : result.object.persistent_ids()) add_storage(id.items());
    const Pickle keys = next("keys");
    for (const PickleValue& key : keys.root().items()) {
      const auto text = key.text();
      if (!text) fail("the key of a storage is not a string");
      result.storages.emplace_back(*text, take_storage(*text));
    }
    if (!storages_.empty()) fail(cat("storage ", storages_.begin()->first, " is missing"));
    return result;
  }

 private:
  // Indices of the elements of a storage's persistent id.
  enum StorageIdItem : size_t { kTag, kClass, kKey, kLocation, kNumel, kView };
  struct Storage {
    int64_t element_size = 0;
    int64_t elements = 0;
    bool operator==(const Storage&) const = default;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFormat, cat(where_, ": ", what),
                "the file may be cut off or damaged: fetch it again; or save it again with a newer "
                "PyTorch on a little-endian machine");
  }

  Pickle next(std::string_view what) {
    const auto rest = bytes_.subspan(position_);
    size_t end = 0;
    Pickle pickle = Pickle::read(rest.first(std::min<size_t>(rest.size(), UINT32_MAX)),
                                 cat(where_, ": ", what, " at ", position_), &end);
    position_ += end;
    // Only the pickle of the saved object may refer to globals. Callers of read_legacy_torch() can
    // check the globals of LegacyTorch::object.
    if (what != kObject && !pickle.globals().empty()) {
      const PickleGlobal& global = pickle.globals().front();
      fail(cat("its ", what, " must not refer to ", global.module, ".", global.name));
    }
    return pickle;
  }

  void add_storage(std::span<const PickleValue> id) {
    if (id.size() < kNumel + 1 || id[kTag].text() != "storage") fail("a storage has no id");
    // PyTorch before 0.4 stored views of storages, which are not supported.
    if (id.size() > kView && !id[kView].is(PickleKind::kNone))
      fail("a storage is a view of another storage, which only PyTorch before 0.4 saved");
    const auto key = id[kKey].text();
    const auto numel = id[kNumel].integer();
    const int64_t size = storage_element_size(id[kClass]);
    if (!key || !numel || *numel < 0 || size == 0) {
      fail(cat("unknown class of a storage: ", id[kClass].module(), ".", id[kClass].name()));
    }
    const Storage storage{size, *numel};
    if (storages_.emplace(*key, storage).first->second != storage) {
      fail(cat("storage ", *key, " is listed with two types or sizes"));
    }
  }

  std::span<const std::byte> take_storage(std::string_view key) {
    const auto found = storages_.find(key);
    if (found == storages_.end()) {
      fail(cat("storage ", key, " has data, but no tensor uses it, or the data is there twice"));
    }
    const Storage storage = found->second;
    storages_.erase(found);
    if (bytes_.size() - position_ < sizeof(int64_t))
      fail(cat("the file ends before storage ", key));
    const auto elements = little_endian<int64_t>(bytes_.subspan(position_, sizeof(int64_t)));
    position_ += sizeof(int64_t);
    if (elements != storage.elements) {
      fail(cat("storage ", key, " has ", elements, " elements, but its tensors expect ",
               storage.elements));
    }
    const size_t left = bytes_.size() - position_;
    if (static_cast<uint64_t>(elements) > left / static_cast<uint64_t>(storage.element_size)) {
      fail(cat("the file ends within storage ", key));
    }
    const auto size = static_cast<size_t>(elements * storage.element_size);
    const auto data = bytes_.subspan(position_, size);
    position_ += size;
    return data;
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t position_ = 0;
  // Storages of the saved object that were not read yet, by key.
  std::map<std::string_view, Storage> storages_;
};

}  // namespace

bool is_legacy_torch(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return starts_with(text, kMagic);
}

LegacyTorch read_legacy_torch(std::span<const std::byte> bytes, const std::string& where) {
  return LegacyReader(bytes, where).read();
}

}  // namespace am::formats
