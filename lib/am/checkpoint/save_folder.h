// Publication of a checkpoint's folder once the data files are written. Each rank describes its
// data file in a report file. From the reports rank 0 writes index.json,
// torch.distributed.checkpoint's `.metadata` and checkpoint.json, and then renames the folder.
//
//   step-100.tmp/__3_0.distcp    a rank's data
//   step-100.tmp/report-3.json   the rank's part of index.json; written once its data is on disk
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
  std::vector<formats::DcpSlice> value_slices;  // locations of optimizer.slices in that file
  std::map<std::string, std::string> aliases;   // tied head -> the parameter with its values
};

// "step-100.tmp"
std::filesystem::path partial_folder(const std::filesystem::path& folder);
// Creates an empty partial folder. Throws filesystem_error.
void begin_folder(const std::filesystem::path& folder);
// Writes the rank's report, the index of its data file, which must be written before.
void write_report(const std::filesystem::path& folder, int64_t rank,
                  const run_folder::ShardIndex& index);
// Returns the first rank >= `rank` that has not reported; world_size if all have. If each call
// passes the previous result as `rank`, each report is looked for until it is found, and then no
// more.
int64_t first_unreported(const std::filesystem::path& folder, int64_t rank, int64_t world_size);
// Publishes the folder; requires that all ranks have reported. Throws Error or filesystem_error,
// and then leaves the folder under its partial name.
void publish(const Publication& publication);

// Returns torch.distributed.checkpoint's metadata of an index's tensors: parameters as
// "model.NAME".
formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index);

}  // namespace am::checkpoint
