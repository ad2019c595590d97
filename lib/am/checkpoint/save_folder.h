// Publishes a checkpoint's folder when the data files are written. Each rank describes its data
// file in a report file. From the reports rank 0 writes index.json, torch.distributed.checkpoint's
// `.metadata` and checkpoint.json, and then gives the folder its final name.
//
//   step-100.tmp/__3_0.distcp    data file of rank 3
//   step-100.tmp/report-3.json   rank 3's part of index.json; written when its data is on disk
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

// Arguments of publish(), which rank 0 calls.
struct Publication {
  std::filesystem::path folder;  // path of checkpoints/step-N
  run_folder::CheckpointInfo info;
  std::string plan_toml;
  int64_t metadata_parts = 0;  // most boxes for which `.metadata` is written; 0: no limit
  std::string config;          // text of the model's config.json
  OptimizerValues optimizer;   // rank 0's data file has its slices
  std::vector<formats::DcpSlice> value_slices;  // locations of optimizer.slices in that file
  // Additional names in `.metadata`, each with the name of the parameter that has its values: the
  // tied head's name, with the embedding's.
  std::map<std::string, std::string> aliases;
};

// Returns the path of the folder while it is written, for example checkpoints/step-100.tmp.
std::filesystem::path partial_folder(const std::filesystem::path& folder);
// Creates an empty partial_folder(folder). Throws filesystem_error.
void begin_folder(const std::filesystem::path& folder);
// Writes the rank's report, which is the index of its data file. The data file must be on disk.
void write_report(const std::filesystem::path& folder, int64_t rank,
                  const run_folder::ShardIndex& index);
// Returns the first rank >= `rank` whose report is missing; world_size if none is. To wait for all
// reports, pass the previous result as `rank`, so that reports that were found are not looked for
// again.
int64_t first_unreported(const std::filesystem::path& folder, int64_t rank, int64_t world_size);
// Publishes the folder. All ranks must have written their reports. If it throws Error or
// filesystem_error, the folder remains as partial_folder(folder).
void publish(const Publication& publication);

// Returns torch.distributed.checkpoint's metadata of the tensors in an index. Parameters have names
// like "model.NAME".
formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index);

}  // namespace am::checkpoint
