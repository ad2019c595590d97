#include "am/frameworks/torch_checkpointing/checkpoint.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/frameworks/torch_checkpointing/metadata.h"
#include "am/stored/hub_config.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMetadata = "metadata.pkl";
// A text that metadata.pkl contains in versions 1.0 and 2.0 of torch_checkpointing's format. This
// text distinguishes metadata.pkl from files of the same name that other programs write.
constexpr std::string_view kLayouts = "rank_to_layout_info";

using Metadata = TorchCheckpointingMetadata;

// Returns the item and rank in a file's name, for example "model" and 3 for "model_3.pt"; nullopt
// if the name does not have this form.
std::optional<Metadata::ItemFile> item_file(const fs::path& path) {
  const std::string name = path.stem().string();
  const size_t at = name.rfind('_');
  if (path.extension() != ".pt" || at == std::string::npos || at == 0) return std::nullopt;
  const auto rank = parse_integer(std::string_view(name).substr(at + 1));
  Metadata::ItemFile file{name.substr(0, at), rank.value_or(-1), path.filename().string()};
  const bool usual = file.rank >= 0 && usual_file(file.item, file.rank) == path.filename();
  return usual ? std::optional(std::move(file)) : std::nullopt;
}

// Returns the files with names like "model_3.pt" whose items `metadata` does not describe; without
// `metadata`, all files with names of this form. Ignores files of ranks that are not below the
// metadata's world size.
std::vector<Metadata::ItemFile> other_files(const fs::path& folder, const Metadata* metadata) {
  std::vector<Metadata::ItemFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto file = item_file(entry.path());
    if (!file) continue;
    const bool known =
        metadata != nullptr && (metadata->has(file->item) || file->rank >= metadata->ranks());
    if (!known) files.push_back(*std::move(file));
  }
  return files;
}

bool has_metadata(const fs::path& folder) {
  const fs::path path = folder / kMetadata;
  if (!fs::is_regular_file(path) || fs::file_size(path) == 0) return false;
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return text.find(kLayouts) != std::string_view::npos;
}

}  // namespace

bool is_torch_checkpointing(const fs::path& path) {
  if (!fs::is_directory(path)) return false;
  const bool model = fs::is_regular_file(path / usual_file("model", 0));
  return has_metadata(path) || (model && (fs::is_regular_file(path / kMetadata) ||
                                          fs::is_regular_file(path / usual_file("model", 1))));
}

std::unique_ptr<stored::TensorSource> open_torch_checkpointing(const fs::path& path,
                                                               stored::OnDamage damage) {
  const fs::path above = fs::absolute(path).lexically_normal().parent_path();
  stored::TorchFiles all{.format = "torch-checkpointing",
                         .path = path,
                         .by_rank = true,
                         .config_file = stored::find_hub_config({path, above}).file,
                         .damage = damage};
  std::shared_ptr<const Metadata> metadata;
  if (fs::is_regular_file(path / kMetadata)) {
    const MappedFile file(path / kMetadata);
    metadata =
        std::make_shared<Metadata>(Metadata::read(file.bytes(), (path / kMetadata).string()));
    all.place = [metadata](const stored::KeyPath& name, int64_t rank) {
      return metadata->place(name, rank);
    };
  } else {
    all.rank_file = [path](int64_t rank) { return path / usual_file("model", rank); };
  }
  auto files = other_files(path, metadata.get());
  if (metadata) files.insert(files.end(), metadata->files().begin(), metadata->files().end());
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.item < b.item;
  });
  for (const auto& file : files) all.parts.push_back({path / file.path, {file.item}, file.rank});
  return stored::open_torch_files(std::move(all));
}

}  // namespace am::frameworks
