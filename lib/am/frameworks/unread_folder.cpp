#include "am/frameworks/unread_folder.h"

#include <algorithm>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

bool has_entry(const fs::path& folder, std::string_view pattern) {
  if (!fs::is_directory(folder)) return false;
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [&](const fs::directory_entry& entry) {
                       return glob_match(pattern, entry.path().filename().string());
                     });
}

bool is_deepspeed(const fs::path& path) {
  if (has_entry(path, "*mp_rank_*_model_states.pt")) return true;
  if (has_entry(path, "*zero_pp_rank_*_optim_states.pt")) return true;
  return fs::is_regular_file(path / "latest") && has_entry(path, "global_step*");
}

bool is_megatron_ranks(const fs::path& path) {
  if (!has_entry(path, "mp_rank_*")) return false;
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       return fs::is_regular_file(entry.path() / "model_optim_rng.pt");
                     });
}

}  // namespace

bool is_unread_folder(const fs::path& path) {
  return is_deepspeed(path) || is_megatron_ranks(path);
}

void refuse_folder(const fs::path& path) {
  if (is_deepspeed(path)) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": a checkpoint of DeepSpeed, which is not read"),
                "`python zero_to_fp32.py FOLDER OUT --safe_serialization`, which DeepSpeed puts "
                "next to it, writes the weights as safetensors");
  }
  throw Error(ErrorKind::kFormat,
              cat(path.string(),
                  ": Megatron has saved it as \"torch\", a pickle for each rank, "
                  "which is not read"),
              "load it with Megatron and save it with --ckpt-format torch_dist");
}

}  // namespace am::frameworks
