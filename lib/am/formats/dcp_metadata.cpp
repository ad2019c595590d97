#include "am/formats/dcp_metadata.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/formats/dcp_classes.h"
#include "am/formats/torch_archive.h"

namespace am::formats {

namespace {

// An entry of the pickled dict storage_data: where a data file stores one chunk or value. `offset`
// is the pickled offset of the chunk in its tensor; null for a value that is not a tensor.
struct StoredSlice {
  const PickleValue* offset = nullptr;
  DcpSlice slice;
};

class MetadataReader {
 public:
  MetadataReader(const Pickle& pickle, std::string where)
      : pickle_(pickle), where_(std::move(where)) {}

  DcpMetadata read() {
    const PickleValue& root = pickle_.root();
    if (!root.is_object(kDcpClasses, "Metadata")) {
      fail(cat("its root is not a ", kDcpClasses, ".Metadata"));
    }
    for (const PickleGlobal& global : pickle_.globals()) {
      if (global.alarming) result_.alarms.push_back(global);
    }
    read_storage(member(root, "storage_data"));
    if (const PickleValue* paths = root.state().find("planner_data")) read_paths(*paths);
    const auto tensors = pairs(member(root, "state_dict_metadata"), "state_dict_metadata");
    for (size_t i = 0; i + 1 < tensors.size(); i += 2) add(text(tensors[i]), tensors[i + 1]);
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(
        ErrorKind::kFormat,
        cat(where_, ": not a valid .metadata of torch.distributed.checkpoint: ", what),
        "the file may be damaged, or written by a version of PyTorch that automesh does not know");
  }

  const PickleValue& member(const PickleValue& object, std::string_view key) const {
    const PickleValue* found = object.state().find(key);
    if (found == nullptr) {
      fail(cat(object.global().name().empty() ? "a value" : object.global().name(), " has no ",
               key));
    }
    // The reference stays valid after the temporary object.state() is destroyed, because the pickle
    // owns all values.
    return *found;
  }
  std::span<const PickleValue> pairs(const PickleValue& dict, std::string_view what) const {
    if (!dict.is(PickleKind::kDict)) fail(cat(what, " is not a dict"));
    return dict.items();
  }
  std::string_view text(const PickleValue& value) const {
    const auto text = value.text();
    if (!text) fail("a name is not a string");
    return *text;
  }
  Shape shape(const PickleValue& value, std::string_view of) const {
    auto shape = shape_of(value);
    if (!shape) fail(cat(of, ": the shape is not a tuple of sizes"));
    return std::move(*shape);
  }

  // ---- storage_data: {MetadataIndex: _StorageInfo}

  void read_storage(const PickleValue& storage) {
    const auto rows = pairs(storage, "storage_data");
    for (size_t i = 0; i + 1 < rows.size(); i += 2) {
      if (!rows[i].is_object(kDcpClasses, "MetadataIndex"))
        fail("a key of storage_data is not a MetadataIndex");
      StoredSlice row;
      const std::string_view name = text(member(rows[i], "fqn"));
      const PickleValue* offset = rows[i].state().find("offset");
      if (offset != nullptr && !offset->is(PickleKind::kNone)) row.offset = offset;
      row.slice = slice_of(rows[i + 1], name);
      stored_[name].push_back(row);
    }
  }

  DcpSlice slice_of(const PickleValue& info, std::string_view name) {
    const PickleValue global = info.global();
    std::string_view writer;
    if (global.is_global(kDcpStorageClasses, "_StorageInfo")) {
      writer = "torch";
    } else if (global.is_global("olmo_core.distributed.checkpoint.filesystem", "_StorageInfo")) {
      writer = "olmo_core";
    } else {
      fail(cat(name, ": unknown storage class ", global.module(), ".", global.name()));
    }
    if (result_.writer.empty()) result_.writer = writer;
    const PickleValue* transforms = info.state().find("transform_descriptors");
    if (transforms != nullptr && !transforms->is(PickleKind::kNone) &&
        !transforms->items().empty()) {
      throw Error(ErrorKind::kFormat,
                  cat(where_, ": ", name,
                      ": the data is compressed or otherwise transformed, which is not supported"),
                  "save the checkpoint again, without extensions of the storage writer");
    }
    const auto offset = member(info, "offset").integer();
    const auto length = member(info, "length").integer();
    if (!offset || !length || *offset < 0 || *length < 0)
      fail(cat(name, ": its storage_data has no valid offset and length"));
    return {file_of(text(member(info, "relative_path"))), static_cast<uint64_t>(*offset),
            static_cast<uint64_t>(*length)};
  }

  uint32_t file_of(std::string_view name) {
    const auto [place, fresh] = files_.emplace(name, static_cast<uint32_t>(result_.files.size()));
    if (!fresh) return place->second;
    if (!is_file_name(name))
      fail(cat("the data file \"", name, "\" is not the name of a file in this folder"));
    result_.files.emplace_back(name);
    return place->second;
  }

  // ---- planner_data: {flat name: path in the nested state}

  void read_paths(const PickleValue& paths) {
    const auto rows = paths.items();
    for (size_t i = 0; i + 1 < rows.size(); i += 2) {
      const auto name = rows[i].text();
      const auto path = rows[i + 1].items();
      if (!name) continue;
      DcpPath keys;
      for (const PickleValue& key : path) {
        if (const auto text = key.text()) {
          keys.emplace_back(std::string(*text));
        } else if (const auto place = key.integer()) {
          keys.emplace_back(*place);
        }
      }
      if (keys.size() == path.size()) paths_.emplace(*name, std::move(keys));
    }
  }
  DcpPath path_of(std::string_view name) const {
    const auto found = paths_.find(name);
    return found == paths_.end() ? DcpPath() : found->second;
  }

  // ---- state_dict_metadata: {name: TensorStorageMetadata or BytesStorageMetadata}

  void add(std::string_view name, const PickleValue& metadata) {
    if (metadata.is_object(kDcpClasses, "BytesStorageMetadata")) {
      const auto rows = stored_.find(name);
      if (rows == stored_.end()) fail(cat(name, ": storage_data has no entry for it"));
      result_.values.push_back({std::string(name), path_of(name), rows->second.front().slice});
      return;
    }
    if (!metadata.is_object(kDcpClasses, "TensorStorageMetadata")) {
      fail(cat(name, ": its metadata describes neither a tensor nor a value"));
    }
    DcpTensor tensor;
    tensor.name = name;
    tensor.path = path_of(name);
    tensor.dtype = dtype_of(member(metadata, "properties"));
    if (tensor.dtype.empty()) fail(cat(name, ": unknown dtype"));
    tensor.shape = shape(member(metadata, "size"), name);
    const PickleValue& chunks = member(metadata, "chunks");
    if (!chunks.is(PickleKind::kList)) fail(cat(name, ": its chunks are not a list"));
    const auto items = chunks.items();
    tensor.chunks.reserve(items.size());
    by_offset_.clear();
    for (size_t i = 0; i < items.size(); ++i) add_chunk(tensor, items[i], i);
    result_.tensors.push_back(std::move(tensor));
  }

  // Returns the dtype in the object TensorProperties of a tensor. The object's pickled state is a
  // tuple that begins with the dtype; in old files, the state is a dict with the key "dtype".
  static std::string_view dtype_of(const PickleValue& properties) {
    const PickleValue state = properties.state();
    if (const PickleValue* dtype = state.find("dtype")) return dtype_of_global(*dtype);
    const auto items = state.items();
    return items.empty() ? std::string_view() : dtype_of_global(items[0]);
  }

  void add_chunk(DcpTensor& tensor, const PickleValue& value, size_t number) {
    if (!value.is_object(kDcpClasses, "ChunkStorageMetadata")) {
      fail(cat(tensor.name, ": a chunk has no offset and sizes"));
    }
    DcpChunk chunk;
    chunk.offset = shape(member(value, "offsets"), tensor.name);
    chunk.shape = shape(member(value, "sizes"), tensor.name);
    if (std::find(chunk.shape.begin(), chunk.shape.end(), 0) != chunk.shape.end()) return;
    const auto rows = stored_.find(tensor.name);
    if (rows == stored_.end()) fail(cat(tensor.name, ": storage_data has no entry for it"));
    chunk.slice = slice_at(rows->second, tensor.name, chunk.offset, number);
    tensor.chunks.push_back(std::move(chunk));
  }

  // Returns the slice of chunk `number` of the tensor `name`. `offset`: the chunk's offset in the
  // tensor. `rows`: the tensor's entries in storage_data. Entries usually have the order of the
  // chunks. If entry `number` has another offset, the function searches for an entry with `offset`.
  const DcpSlice& slice_at(const std::vector<StoredSlice>& rows, std::string_view name,
                           const Shape& offset, size_t number) {
    if (number < rows.size() && offset_of(rows[number], name) == offset) return rows[number].slice;
    if (by_offset_.empty()) {
      for (const StoredSlice& row : rows) by_offset_.emplace(offset_of(row, name), &row);
    }
    const auto found = by_offset_.find(offset);
    if (found == by_offset_.end()) {
      fail(cat(name, ": its chunk at ", shape_text(offset), " has no entry in storage_data"));
    }
    return found->second->slice;
  }
  Shape offset_of(const StoredSlice& row, std::string_view name) const {
    return row.offset == nullptr ? Shape() : shape(*row.offset, name);
  }

  const Pickle& pickle_;
  std::string where_;
  DcpMetadata result_;
  std::unordered_map<std::string_view, std::vector<StoredSlice>> stored_;
  std::map<Shape, const StoredSlice*> by_offset_;  // entries of the current tensor, by chunk offset
  std::unordered_map<std::string_view, DcpPath> paths_;
  std::unordered_map<std::string_view, uint32_t> files_;
};

}  // namespace

DcpMetadata read_dcp_metadata(const std::filesystem::path& path) {
  const MappedFile file(path);
  const Pickle pickle = Pickle::read(file.bytes(), path.string());
  return MetadataReader(pickle, path.string()).read();
}

}  // namespace am::formats
