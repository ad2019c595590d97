#include "am/checkpoint/save_folder.h"

#include <utility>
#include <vector>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/run_folder/step_folders.h"
#include "am/stored/state_keys.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kModelPrefix = "model.";

std::string report_name(int64_t rank) { return cat("report-", rank, ".json"); }

void add_aliases(formats::DcpMetadata& metadata,
                 const std::map<std::string, std::string>& aliases) {
  for (const auto& [alias, name] : aliases) {
    const std::string key = cat(kModelPrefix, name);
    for (size_t i = 0; i < metadata.tensors.size(); ++i) {
      if (metadata.tensors[i].name != key) continue;
      formats::DcpTensor tensor = metadata.tensors[i];
      tensor.name = cat(kModelPrefix, alias);
      tensor.path = stored::parameter_path(alias);
      metadata.tensors.push_back(std::move(tensor));
      break;
    }
  }
}

int64_t parts_of(const run_folder::ShardIndex& index) {
  size_t parts = 0;
  for (const run_folder::IndexedTensor& tensor : index.tensors) parts += tensor.boxes.size();
  return static_cast<int64_t>(parts);
}

std::string metadata_bytes(const Publication& publication, const run_folder::ShardIndex& index) {
  formats::DcpMetadata metadata = dcp_metadata_of(index);
  add_aliases(metadata, publication.aliases);
  append_values(metadata, publication.optimizer, publication.value_slices);
  return formats::dcp_metadata_bytes(metadata);
}

}  // namespace

fs::path partial_folder(const fs::path& folder) {
  return folder.string() + run_folder::kPartialSuffix;
}

void begin_folder(const fs::path& folder) {
  const fs::path partial = partial_folder(folder);
  fs::remove_all(partial);
  fs::create_directories(partial);
}

// Writes the report under a temporary name and then renames it, so rank 0 never reads an incomplete
// report. Does not call fsync: rank 0 removes the report before the checkpoint is complete, so the
// report need not survive a crash.
void write_report(const fs::path& folder, int64_t rank, const run_folder::ShardIndex& index) {
  const fs::path path = partial_folder(folder) / report_name(rank);
  const fs::path unfinished = path.string() + ".new";
  FileWriter(unfinished).write(run_folder::to_json_text(index));
  fs::rename(unfinished, path);
}

int64_t first_unreported(const fs::path& folder, int64_t rank, int64_t world_size) {
  while (rank < world_size && fs::exists(partial_folder(folder) / report_name(rank))) ++rank;
  return rank;
}

void publish(const Publication& publication) {
  const fs::path partial = partial_folder(publication.folder);
  std::vector<run_folder::ShardIndex> reports;
  for (int64_t rank = 0; rank < publication.info.world_size; ++rank) {
    reports.push_back(run_folder::read_shard_index(partial / report_name(rank)));
  }
  const run_folder::ShardIndex index = run_folder::merge(std::move(reports));
  for (int64_t rank = 0; rank < publication.info.world_size; ++rank) {
    fs::remove(partial / report_name(rank));
  }
  const bool with_metadata =
      publication.metadata_parts == 0 || parts_of(index) <= publication.metadata_parts;
  const std::string index_text = run_folder::to_json_text(index);
  const std::string metadata = with_metadata ? metadata_bytes(publication, index) : "";
  const std::string info_text = run_folder::to_json_text(publication.info);
  std::vector<NewFile> files = {{run_folder::kIndexFile, index_text}};
  if (!publication.plan_toml.empty()) files.push_back({"plan.toml", publication.plan_toml});
  if (!publication.config.empty()) files.push_back({"config.json", publication.config});
  if (with_metadata) files.push_back({formats::kDcpMetadataFile, metadata});
  files.push_back({run_folder::kInfoFile, info_text});
  write_new_files(partial, files);
  run_folder::publish(partial, publication.folder);
}

formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index) {
  formats::DcpMetadata metadata;
  for (const run_folder::IndexedFile& file : index.files) metadata.files.push_back(file.name);
  for (const run_folder::IndexedTensor& from : index.tensors) {
    formats::DcpTensor tensor;
    const bool state = starts_with(from.name, run_folder::kOptimizerPrefix);
    tensor.name = state ? from.name : cat(kModelPrefix, from.name);
    tensor.path = state ? stored::state_path(from.name) : stored::parameter_path(from.name);
    tensor.dtype = from.dtype;
    tensor.shape = from.shape;
    for (const run_folder::IndexedBox& box : from.boxes) {
      tensor.chunks.push_back(
          {box.box.offset, box.box.shape, {box.file, box.slice_offset, box.slice_length}});
    }
    metadata.tensors.push_back(std::move(tensor));
  }
  return metadata;
}

}  // namespace am::checkpoint
