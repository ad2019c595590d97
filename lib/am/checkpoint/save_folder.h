// How a checkpoint's folder comes to be, beside its data files: each rank reports what it has
// written, in a file of its own, and rank 0 makes of the reports the index, the `.metadata` that
// torch.distributed.checkpoint reads, and the marker, and gives the folder its name.
//
//   step-100.tmp/__3_0.distcp    a rank's data
//   step-100.tmp/report-3.json   that it is on the disk: a part of index.json
//
// No message passes between ranks, so that this may happen while they train.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "am/checkpoint/optimizer_values.h"
#include "am/checkpoint/rank_file.h"
#include "am/run_folder/checkpoint_info.h"

namespace am::checkpoint {

// Of a save; on rank 0.
struct Publication {
  std::filesystem::path folder;  // checkpoints/step-N
  run_folder::CheckpointInfo info;
  std::string plan_toml;
  std::string config;                           // the model's config.json
  OptimizerValues optimizer;                    // its slices stand in rank 0's file
  std::vector<formats::DcpSlice> value_slices;  // there, by slice
  std::map<std::string, std::string> aliases;   // a tied head's name, and whose values it has
};

// "step-100.tmp"
std::filesystem::path partial_folder(const std::filesystem::path& folder);
// An empty one. Throws filesystem_error.
void begin_folder(const std::filesystem::path& folder);
// After the rank's file was written.
void write_report(const std::filesystem::path& folder, int64_t rank,
                  const run_folder::ShardIndex& index);
// Whether every rank has reported.
bool all_have_reported(const std::filesystem::path& folder, int64_t world_size);
// Once they have. Throws Error, filesystem_error; then the folder has its partial name still.
void publish(const Publication& publication);

// What torch.distributed.checkpoint is told of an index's tensors: parameters as "model.NAME".
formats::DcpMetadata dcp_metadata_of(const run_folder::ShardIndex& index);

}  // namespace am::checkpoint
