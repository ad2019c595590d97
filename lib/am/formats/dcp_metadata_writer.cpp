// Writes DCP metadata in pickle protocol 2. Classes, attributes and the order of attributes are
// those of PyTorch 2.11.
#include <string_view>
#include <unordered_map>
#include <utility>

#include "am/formats/dcp_classes.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle_writer.h"

namespace am::formats {

namespace {

constexpr std::string_view kMetadataVersion = "1.0.0";

class MetadataWriter {
 public:
  explicit MetadataWriter(const DcpMetadata& metadata) : metadata_(metadata) {}

  std::string write() && {
    begin_object(kDcpClasses, "Metadata");
    key("state_dict_metadata");
    write_tensors();
    key("planner_data");
    write_paths();
    key("storage_data");
    write_storage();
    key("storage_meta");
    pickle_.none();
    key("version");
    pickle_.text(kMetadataVersion);
    end_object();
    return std::move(pickle_).finish();
  }

 private:
  void key(std::string_view name) { pickle_.text(name); }
  void bare_object(std::string_view module, std::string_view name) {
    pickle_.global(module, name);
    pickle_.empty_tuple();
    pickle_.new_object();
  }
  // Begins an object whose state is a dict. The keys and values that are written before
  // end_object() are the items of this dict.
  void begin_object(std::string_view module, std::string_view name) {
    bare_object(module, name);
    begin_dict();
  }
  void end_object() {
    end_dict();
    pickle_.build();
  }
  void begin_dict() {
    pickle_.empty_dict();
    pickle_.open_mark();
  }
  void end_dict() { pickle_.close_dict_items(); }

  void size(const Shape& shape) {
    pickle_.global("torch", "Size");
    pickle_.open_mark();
    pickle_.integers(shape);
    pickle_.close_tuple();
    pickle_.reduce();
  }

  // ---- state_dict_metadata

  void write_tensors() {
    begin_dict();
    for (const DcpTensor& tensor : metadata_.tensors) {
      key(tensor.name);
      begin_object(kDcpClasses, "TensorStorageMetadata");
      key("properties");
      properties(tensor.dtype);
      key("size");
      size(tensor.shape);
      key("chunks");
      pickle_.empty_list();
      pickle_.open_mark();
      for (const DcpChunk& chunk : tensor.chunks) {
        begin_object(kDcpClasses, "ChunkStorageMetadata");
        key("offsets");
        size(chunk.offset);
        key("sizes");
        size(chunk.shape);
        end_object();
      }
      pickle_.close_list_items();
      end_object();
    }
    for (const DcpValue& value : metadata_.values) {
      key(value.name);
      bare_object(kDcpClasses, "BytesStorageMetadata");
    }
    end_dict();
  }

  // Writes the properties of a tensor: (dtype, layout, requires_grad, memory format, pin_memory).
  // Tensors of the same dtype share one properties object.
  void properties(const std::string& dtype) {
    if (const auto known = properties_.find(dtype); known != properties_.end()) {
      pickle_.recall(known->second);
      return;
    }
    bare_object(kDcpClasses, "TensorProperties");
    pickle_.open_mark();
    pickle_.global("torch", dtype);
    pickle_.global("torch.serialization", "_get_layout");
    pickle_.open_mark();
    pickle_.text("torch.strided");
    pickle_.close_tuple();
    pickle_.reduce();
    pickle_.boolean(false);
    pickle_.global(kDcpClasses, "_MEM_FORMAT_ENCODING");
    pickle_.open_mark();
    pickle_.integer(0);  // code of torch.contiguous_format
    pickle_.close_tuple();
    pickle_.reduce();
    pickle_.boolean(false);
    pickle_.close_tuple();
    pickle_.build();
    properties_.emplace(dtype, pickle_.remember());
  }

  // ---- planner_data

  void write_paths() {
    begin_dict();
    for (const DcpTensor& tensor : metadata_.tensors) write_path(tensor.name, tensor.path);
    for (const DcpValue& value : metadata_.values) write_path(value.name, value.path);
    end_dict();
  }
  void write_path(const std::string& name, const DcpPath& path) {
    key(name);
    pickle_.open_mark();
    for (const auto& step : path) {
      if (const auto* text = std::get_if<std::string>(&step)) {
        pickle_.text(*text);
      } else {
        pickle_.integer(std::get<int64_t>(step));
      }
    }
    if (path.empty()) pickle_.text(name);
    pickle_.close_tuple();
  }

  // ---- storage_data

  void write_storage() {
    begin_dict();
    for (const DcpTensor& tensor : metadata_.tensors) {
      for (size_t i = 0; i < tensor.chunks.size(); ++i) {
        begin_object(kDcpClasses, "MetadataIndex");
        key("fqn");
        pickle_.text(tensor.name);
        key("offset");
        size(tensor.chunks[i].offset);
        key("index");
        pickle_.integer(static_cast<int64_t>(i));
        end_object();
        slice(tensor.chunks[i].slice);
      }
    }
    for (const DcpValue& value : metadata_.values) {
      begin_object(kDcpClasses, "MetadataIndex");
      key("fqn");
      pickle_.text(value.name);
      key("index");
      pickle_.none();
      end_object();
      slice(value.slice);
    }
    end_dict();
  }
  void slice(const DcpSlice& slice) {
    begin_object(kDcpStorageClasses, "_StorageInfo");
    key("relative_path");
    pickle_.text(metadata_.files[slice.file]);
    key("offset");
    pickle_.integer(static_cast<int64_t>(slice.offset));
    key("length");
    pickle_.integer(static_cast<int64_t>(slice.length));
    end_object();
  }

  const DcpMetadata& metadata_;
  PickleWriter pickle_;
  std::unordered_map<std::string, uint32_t> properties_;  // memo index of properties, by dtype
};

}  // namespace

std::string dcp_metadata_bytes(const DcpMetadata& metadata) {
  return MetadataWriter(metadata).write();
}

}  // namespace am::formats
