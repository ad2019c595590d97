// Publishes the folder of a checkpoint after all ranks have written their data files. Each rank
// describes its data file in a report file. Rank 0 merges the reports into index.json and, unless
// the checkpoint has too many boxes, writes torch.distributed.checkpoint's `.metadata`. Rank 0 also
// writes the folder's other files (checkpoint.h), and then gives the folder its final name.
//
//   step-100.tmp/__3_0.distcp    data file of rank 3
//   step-100.tmp/report-3.json   rank 3's part of index.json; written when its data is on disk
//
// No collective is needed, so saving can overlap with training.
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
  std::filesystem::path folder;  // final path, checkpoints/step-N
  run_folder::CheckpointInfo info;
  std::string plan_toml;
  // `.metadata` is written only if the checkpoint has at most this number of boxes. 0: no limit.
  int64_t metadata_parts = 0;
  std::string config;         // text of the model's config.json
  OptimizerValues optimizer;  // rank 0's data file contains its archives
  // Locations of optimizer.slices in rank 0's data file.
  std::vector<formats::DcpSlice> value_slices;
  // Additional names in `.metadata`, each mapped to the parameter whose values it has: the name of
  // a tied head's weight is mapped to the name of the embedding.
  std::map<std::string, std::string> aliases;
};

// Returns the path that a checkpoint's folder has until it is published, for example
// checkpoints/step-100.tmp.
std::filesystem::path partial_folder(const std::filesystem::path& folder);
// Creates an empty folder partial_folder(folder). Deletes an older folder of this name. Throws
// filesystem_error.
void begin_folder(const std::filesystem::path& folder);
// Writes the rank's report, which contains `index`, the index of its data file. The data file must
// be on disk.
void write_report(const std::filesystem::path& folder, int64_t rank,
                  const run_folder::ShardIndex& index);
// Returns the first rank, from `rank` on, that has no report; world_size if none is missing. A
// caller that waits for all reports passes the previous result as `rank`, and thus skips reports
// that were already found.
int64_t first_unreported(const std::filesystem::path& folder, int64_t rank, int64_t world_size);
// Publishes the folder. All ranks must have written their reports. After an exception (Error or
// filesystem_error), the folder still has the name partial_folder(folder).
void publish(const Publication& publication);

// Converts the tensors of an index to torch.distributed.checkpoint's metadata. Names of parameters
// get the prefix "model.".
formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index);

}  // namespace am::checkpoint
