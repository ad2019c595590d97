// Publication of a checkpoint's folder once the data files are written. Each rank reports its data
// file in a report file; rank 0 makes of the reports the index, the `.metadata` that
// torch.distributed.checkpoint reads, and the marker, and renames the folder.
//
//   step-100.tmp/__3_0.distcp    a rank's data
//   step-100.tmp/report-3.json   its part of index.json; written when the data is on the disk
//
// Ranks exchange no messages, so this can overlap with training.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "am/checkpoint/optimizer_values.h"
#include "am/checkpoint/rank_file.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::checkpoint {

// Inputs of publish(), on rank 0.
struct Publication {
  std::filesystem::path folder;  // checkpoints/step-N
  run_folder::CheckpointInfo info;
  std::string plan_toml;
  int64_t metadata_parts = 0;                   // checkpoint.metadata_parts
  std::string config;                           // the model's config.json
  OptimizerValues optimizer;                    // its slices are in rank 0's file
  std::vector<formats::DcpSlice> value_slices;  // places of these in the file, by slice
  std::map<std::string, std::string> aliases;   // tied head -> the parameter with its values
};

// "step-100.tmp"
std::filesystem::path partial_folder(const std::filesystem::path& folder);
// Makes an empty partial folder. Throws filesystem_error.
void begin_folder(const std::filesystem::path& folder);
// Writes the rank's report, its index; call it after the rank's data file is written.
void write_report(const std::filesystem::path& folder, int64_t rank,
                  const run_folder::ShardIndex& index);
// Returns the first rank >= `rank` that has not reported; world_size if all have. Called with its
// last result, it looks for each report once.
int64_t first_unreported(const std::filesystem::path& folder, int64_t rank, int64_t world_size);
// Publishes the folder; requires that all ranks have reported. Throws Error, filesystem_error; then
// the folder still has its partial name.
void publish(const Publication& publication);

// Returns torch.distributed.checkpoint's metadata of an index's tensors: parameters as
// "model.NAME".
formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index);

}  // namespace am::checkpoint
