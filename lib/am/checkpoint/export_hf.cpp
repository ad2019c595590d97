// export_hf() writes a folder for transformers, from a live model, from tensors in memory, or from
// stored tensors.
//
// An export of a live model holds one full parameter in memory at a time. An export of stored
// tensors holds one block of rows. Tensors are written to files in order. If a tensor would make a
// file larger than max_file_bytes, a new file begins.

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/read_ahead.h"
#include "am/base/text.h"
#include "am/checkpoint/block_buffer.h"
#include "am/checkpoint/collective_step.h"
#include "am/checkpoint/export_folder.h"
#include "am/checkpoint/peft.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/formats/safetensors.h"
#include "am/model/inventory.h"
#include "am/stored/hub_config.h"
#include "am/stored/hub_names.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

using Between = std::function<void()>;
using Sink = std::function<void(std::span<const std::byte>)>;
// Function that passes the bytes of a tensor (an ExportItem) to the sink, in small parts: between
// two parts, the user can interrupt the export without a noticeable delay.
using Deliver = std::function<void(const ExportItem&, const Sink&)>;
using Fetch = std::function<at::Tensor(const std::string& name)>;

Deliver whole(const Fetch& fetch) {
  return [fetch](const ExportItem& item, const Sink& sink) {
    const at::Tensor value = fetch(item.name).to(item.dtype).cpu().contiguous();
    for_each_piece(bytes_of(value), kBlockBytes, sink);
  };
}

// Distributes the tensors over files, in order. Only a file with a single tensor may be larger than
// `max_file_bytes`.
std::vector<std::vector<ExportItem>> split_files(const std::vector<ExportItem>& items,
                                                 int64_t max_file_bytes) {
  std::vector<std::vector<ExportItem>> files(1);
  int64_t bytes = 0;
  for (const auto& item : items) {
    if (!files.back().empty() && bytes + item.bytes() > max_file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(item);
    bytes += item.bytes();
  }
  return files;
}

// Names of the files in an exported folder.
struct FileNames {
  const char* config = "config.json";
  const char* single = "model.safetensors";
};

std::string file_name(const FileNames& names, size_t index, size_t count) {
  if (count == 1) return names.single;
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

class FolderWriter {
 public:
  FolderWriter(fs::path folder, const std::vector<ExportItem>& items, int64_t max_file_bytes,
               FileNames names = {})
      : folder_(std::move(folder)),
        partial_(partial_export(folder_)),
        files_(split_files(items, max_file_bytes)),
        names_(names) {}

  const fs::path& partial() const { return partial_; }

  // Creates the temporary folder. Writes `config_text` as its config, unless the text is empty.
  void begin(const std::string& config_text) const {
    begin_export(folder_);
    if (!config_text.empty()) write_file_atomically(partial_ / names_.config, config_text);
  }

  // Writes all files if `writes` is true. `deliver` and `between` may be collective. Therefore
  // calls `deliver` for every item in order, also on ranks that do not write, and after an error in
  // writing: otherwise other ranks would wait in `deliver`. An exception from `between` ends the
  // export.
  void write(bool writes, const Deliver& deliver, const Between& between) const {
    std::optional<Error> failed;
    for (size_t i = 0; i < files_.size(); ++i) {
      std::unique_ptr<formats::SafetensorsWriter> writer;
      const auto attempt = [&](const std::function<void()>& action) {
        if (!writes || failed) return;
        try {
          action();
        } catch (const Error& error) {
          failed = error;
        }
      };
      attempt([&] { writer = open(i); });
      for (const auto& item : files_[i]) {
        if (between) between();
        deliver(item, [&](std::span<const std::byte> part) {
          attempt([&] { writer->write(part); });
          if (between) between();
        });
      }
      attempt([&] { writer->close(); });
    }
    if (failed) throw *failed;
  }

  void finish() const {
    if (files_.size() > 1) write_index();
    finish_export(folder_);
  }

 private:
  std::unique_ptr<formats::SafetensorsWriter> open(size_t index) const {
    std::vector<formats::SafetensorsItem> items;
    for (const auto& item : files_[index]) {
      items.push_back(
          {item.name, formats::safetensors_name(tensor::stored_dtype(item.dtype)), item.shape});
    }
    return std::make_unique<formats::SafetensorsWriter>(
        partial_ / file_name(names_, index, files_.size()), items,
        std::map<std::string, std::string>{{"format", "pt"}});
  }

  void write_index() const {
    SortedJson map = SortedJson::object();
    int64_t bytes = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const auto& item : files_[i]) {
        map[item.name] = file_name(names_, i, files_.size());
        bytes += item.bytes();
      }
    }
    const SortedJson index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
    write_file_atomically(partial_ / "model.safetensors.index.json", index.dump(2) + "\n");
  }

  fs::path folder_;
  fs::path partial_;
  std::vector<std::vector<ExportItem>> files_;
  FileNames names_;
};

// Reads stored tensors in blocks of rows for an export. Prefetches the next blocks while a block is
// written.
class RowsAtRest {
 public:
  RowsAtRest(const stored::TensorSource& source, const std::vector<ExportItem>& items)
      : source_(source), blocks_(blocks_of(items)), ahead_(blocks_.size(), [this](size_t i) {
          source_.prefetch(blocks_[i].item->name, blocks_[i].box);
        }) {}

  // Passes the bytes of an item to the sink. Must be called for the items in order.
  void deliver(const ExportItem& item, const Sink& sink) {
    for (; next_ < blocks_.size() && blocks_[next_].item->name == item.name; ++next_) {
      ahead_.reached(next_);
      const at::Tensor taken = buffer_.block(blocks_[next_].box.shape, item.dtype);
      read(source_, item.name, blocks_[next_].box, taken);
      sink(bytes_of(taken));
    }
  }

 private:
  struct Block {
    const ExportItem* item;
    mesh::Box box;
  };
  static std::vector<Block> blocks_of(const std::vector<ExportItem>& items) {
    std::vector<Block> blocks;
    for (const ExportItem& item : items) {
      const auto most = kBlockBytes / static_cast<int64_t>(c10::elementSize(item.dtype));
      stored::for_each_row_block(mesh::Box::whole(item.shape), most, [&](const mesh::Box& box) {
        blocks.push_back({&item, box});
      });
    }
    return blocks;
  }

  const stored::TensorSource& source_;
  std::vector<Block> blocks_;
  BlockBuffer buffer_;
  size_t next_ = 0;
  ReadAhead ahead_;  // declared last, because its thread reads the members above
};

ExportTensors adapters_of(const parallel::ParallelModel& model, at::ScalarType dtype) {
  ExportTensors out;
  std::map<std::string, std::string> own_names;
  for (const size_t i : parameters_of_adapter(model.layout())) {
    const model::ParameterSpec& parameter = model.layout().inventory.parameters[i];
    out.items.push_back({cat(stored::kPeftPrefix, parameter.name), parameter.shape, dtype});
    own_names.emplace(out.items.back().name, parameter.name);
  }
  out.fetch = [&model, own_names = std::move(own_names)](const std::string& name) {
    return model.full_parameter(own_names.at(name));
  };
  out.config = adapter_config(model);
  return out;
}

ExportTensors model_of(const parallel::ParallelModel& model, at::ScalarType dtype) {
  ExportTensors out;
  for (const model::ParameterSpec& parameter : model.layout().inventory.parameters) {
    if (parameter.adapter != model::AdapterPart::kNone) continue;
    out.items.push_back({parameter.name, parameter.shape, dtype});
  }
  out.fetch = [&model](const std::string& name) { return merged_parameter(model, name); };
  out.config = config_with_dtype(model.config().text, model.config().file, dtype);
  return out;
}

void write_live(const fs::path& folder, const ExportTensors& tensors, const runtime::Group& world,
                const HubExport& options, const FileNames& names, const Between& between) {
  const bool first = world.index() == 0;
  const FolderWriter writer(folder, tensors.items, options.max_file_bytes, names);
  const auto clean = [&] {
    std::error_code ignored;
    if (first) fs::remove_all(writer.partial(), ignored);
  };
  collective_step(
      world, [] {},
      [&] {
        if (!first) return;
        writer.begin(options.weights_only ? std::string() : tensors.config);
        if (options.weights_only || tensors.config_folder.empty()) return;
        copy_tokenizer(writer.partial(), tensors.config_folder, options.tokenizer);
      });
  collective_step(world, clean, [&] { writer.write(first, whole(tensors.fetch), between); });
  collective_step(world, clean, [&] {
    if (first) writer.finish();
  });
}

}  // namespace

void export_hf(const fs::path& folder, parallel::ParallelModel& model, const HubExport& options,
               const std::function<void()>& between) {
  const runtime::Group& world = model.mesh().group("world");
  const at::ScalarType dtype = options.dtype.value_or(model.groups().front()->storage_dtype());
  HubExport chosen = options;
  FileNames names;
  const bool apart =
      options.adapters == AdapterExport::kApart && has_adapters(model.layout().inventory);
  if (apart) {
    names = {"adapter_config.json", "adapter_model.safetensors"};
    chosen.max_file_bytes = std::numeric_limits<int64_t>::max();
  }
  ExportTensors tensors = apart ? adapters_of(model, dtype) : model_of(model, dtype);
  tensors.config_folder = folder_of(model.config().file);
  write_live(folder, tensors, world, chosen, names, between);
}

void export_hf(const fs::path& folder, const ExportTensors& tensors, const runtime::Group& world,
               const HubExport& options, const std::function<void()>& between) {
  write_live(folder, tensors, world, options, {}, between);
}

namespace {

// Returns a view of the source without the common prefix of its names, for example "net." in
// "net.model.norm.weight". Returns null if the names have no common prefix, or if the source has no
// config.json of a supported model.
std::unique_ptr<stored::HubNames> without_prefix(const stored::TensorSource& source) {
  const auto config = stored::hub_config_of(source).config;
  if (!config) return nullptr;
  auto named = std::make_unique<stored::HubNames>(source, model::build_inventory(*config));
  return named->prefix().empty() ? nullptr : std::move(named);
}

void write_at_rest(const fs::path& folder, const stored::TensorSource& source,
                   const HubExport& options, const Between& between) {
  std::vector<ExportItem> items;
  for (const auto& tensor : source.tensors()) {
    const at::ScalarType stored = tensor::scalar_type(tensor.dtype);
    items.push_back({tensor.name, tensor.shape, options.dtype.value_or(stored)});
  }
  const stored::StoredTensor* codes = find_codes(source);
  const FolderWriter writer(folder, items, options.max_file_bytes);
  const runtime::Group alone;
  const auto clean = [&] {
    std::error_code ignored;
    fs::remove_all(writer.partial(), ignored);
  };
  collective_step(
      alone, [] {},
      [&] {
        if (options.weights_only) return writer.begin({});
        const std::string config = read_file(source.config_file());
        writer.begin(codes != nullptr
                         ? config
                         : config_with_dtype(config, source.config_file(), items.front().dtype));
        copy_tokenizer(writer.partial(), folder_of(source.config_file()), options.tokenizer);
      });
  collective_step(alone, clean, [&] {
    RowsAtRest rows(source, items);
    writer.write(
        true, [&](const ExportItem& item, const Sink& sink) { rows.deliver(item, sink); }, between);
    writer.finish();
  });
}

}  // namespace

void export_hf(const fs::path& folder, const stored::TensorSource& source, const HubExport& options,
               const std::function<void()>& between) {
  require_values(source, options.dtype);
  if (options.weights_only) return write_at_rest(folder, source, options, between);
  if (source.config_file().empty()) {
    throw Error(ErrorKind::kIo, cat(source.path().string(), ": has no config.json beside it"),
                "put the model's config.json beside the weights, because transformers needs it to "
                "load the export; or write only the weights with --format safetensors");
  }
  refuse_adapters(source);
  if (const auto named = without_prefix(source)) {
    return write_at_rest(folder, *named, options, between);
  }
  write_at_rest(folder, source, options, between);
}

}  // namespace am::checkpoint
