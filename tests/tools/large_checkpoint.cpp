// Creates checkpoints of jobs with thousands of ranks, and measures the cost of resuming one rank;
// for scripts/bench/large_checkpoint.py.
//
//   large_checkpoint make PLAN FOLDER          writes the plan's checkpoint with sparse data files
//   large_checkpoint open PLAN FOLDER RANK     opens the checkpoint and reads the rank's shards
//   large_checkpoint look PLAN FOLDER          checks that the files of all ranks are complete
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <vector>

#include "am/base/crc32c.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"
#include "am/job/job.h"
#include "am/run_folder/data_files.h"
#include "am/stored/automesh_source.h"

namespace {

using namespace am;
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Prints the peak resident memory of this process in MiB.
void print_memory() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  std::cout << ", " << usage.ru_maxrss / 1024 << " MiB at most\n";
}

job::Job open_job(const fs::path& plan) {
  Diagnostics found;
  auto job = job::open_job({.file = plan}, found);
  if (!job) throw Error(ErrorKind::kPlan, found.items().front().message);
  return *std::move(job);
}

// Calls visit(name, parameter, part) for each tensor that the rank saves or reads: each part of a
// parameter and of its optimizer states.
template <typename Visit>
void for_each_box(const job::Job& job, int64_t rank, const Visit& visit) {
  const layout::Layout& layout = job.layout;
  for (const layout::ParameterLayout& parameter : layout.parameters) {
    if (!layout.holds(rank, parameter)) continue;
    for (const layout::LocalShard& part : parameter.parts(layout.mesh, rank)) {
      if (part.box.numel() == 0) continue;
      visit(parameter.name, parameter, part);
      for (const auto state : config::state_names(job.plan.optimizer, parameter.orthogonalized)) {
        visit(cat(run_folder::kOptimizerPrefix, parameter.name, ".", state), parameter, part);
      }
    }
  }
}

uint32_t checksum_of_zeros(size_t bytes) {
  static std::map<size_t, uint32_t> known;
  const auto [found, fresh] = known.emplace(bytes, 0);
  if (fresh) found->second = crc32c(std::vector<std::byte>(bytes));
  return found->second;
}

std::vector<uint32_t> checksums_of_zeros(size_t bytes) {
  std::vector<uint32_t> sums;
  for (size_t at = 0; at < bytes; at += run_folder::kChecksumPiece) {
    sums.push_back(checksum_of_zeros(std::min<size_t>(run_folder::kChecksumPiece, bytes - at)));
  }
  return sums;
}

constexpr const char* kSave = "0123456789abcdef0123456789abcdef";

run_folder::ShardIndex index_of(const job::Job& job, int64_t rank) {
  run_folder::ShardIndex index;
  index.save_id = kSave;
  uint64_t bytes = run_folder::data_file_label(kSave, rank).size();
  for_each_box(job, rank, [&](const std::string& name, const auto& parameter, const auto& part) {
    if (part.copy != 0) return;  // only the first of several copies is written
    const formats::SlicePlace slice = formats::place_slice("float32", part.box.shape, bytes);
    bytes = slice.end;
    if (index.tensors.empty() || index.tensors.back().name != name) {
      index.tensors.push_back({name, "float32", parameter.shape, {}});
    }
    const auto size = static_cast<size_t>(part.box.numel()) * sizeof(float);
    index.tensors.back().boxes.push_back(
        {0, slice.position, slice.offset, slice.length(), part.box, checksums_of_zeros(size)});
  });
  index.files.push_back({run_folder::data_file_name(rank), bytes});
  return index;
}

void make(const job::Job& job, const fs::path& folder) {
  fs::create_directories(folder);
  const int64_t world = job.layout.mesh.world_size();
  std::vector<run_folder::ShardIndex> parts;
  for (int64_t rank = 0; rank < world; ++rank) {
    parts.push_back(index_of(job, rank));
    const fs::path file = folder / run_folder::data_file_name(rank);
    write_file_atomically(file, run_folder::data_file_label(kSave, rank));
    fs::resize_file(file, parts.back().files.front().bytes);
  }
  const auto start = Clock::now();
  const run_folder::ShardIndex index = run_folder::merge(std::move(parts));
  const std::string text = run_folder::to_json_text(index);
  std::cout << "merged in " << seconds_since(start) << " s; index of " << text.size() << " bytes\n";
  write_file_atomically(folder / run_folder::kIndexFile, text);
  write_file_atomically(folder / "config.json", job.model.text);
  run_folder::CheckpointInfo info;
  info.step = 100;
  info.world_size = world;
  info.mesh = job.layout.mesh.sizes();
  info.model_type = job.model.model_type;
  info.save_id = kSave;
  write_file_atomically(folder / run_folder::kInfoFile, run_folder::to_json_text(info));
}

void open(const job::Job& job, const fs::path& folder, int64_t rank) {
  std::map<std::string, std::vector<mesh::Box>> own;
  for_each_box(job, rank, [&](const std::string& name, const auto&, const auto& part) {
    own[name].push_back(part.box);
  });
  const auto start = Clock::now();
  const auto source = stored::open_automesh_part(
      folder, [&](const std::string& name) -> std::optional<std::vector<mesh::Box>> {
        const auto found = own.find(name);
        return found == own.end() ? std::vector<mesh::Box>() : found->second;
      });
  std::cout << "rank " << rank << ": opened in " << seconds_since(start) << " s";
  print_memory();
  int64_t bytes = 0;
  for (const auto& [name, boxes] : own) {
    for (const mesh::Box& box : boxes) {
      std::vector<float> values(static_cast<size_t>(box.numel()));
      bytes += box.numel() * static_cast<int64_t>(sizeof(float));
      source->read(
          name, box,
          {std::as_writable_bytes(std::span(values)).data(), stored::dense_strides(box.shape)});
    }
  }
  std::cout << "  its " << bytes << " bytes of " << own.size() << " tensors were read after "
            << seconds_since(start) << " s";
  print_memory();
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) throw Error(ErrorKind::kUsage, "make|open|look PLAN FOLDER [RANK]");
  const job::Job job = open_job(arguments[1]);
  const fs::path folder = arguments[2];
  if (arguments[0] == "make") {
    make(job, folder);
  } else if (arguments[0] == "open") {
    open(job, folder, std::stoll(arguments.at(3)));
  } else {
    const auto start = Clock::now();
    run_folder::require_complete(folder, run_folder::read_checkpoint_info(folder));
    std::cout << "all files looked at in " << seconds_since(start) << " s";
    print_memory();
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
