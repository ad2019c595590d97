#include "am/frameworks/open_weights.h"

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/framework_folder.h"
#include "am/run_folder/checkpoint_info.h"
#include "am/stored/automesh_source.h"
#include "am/stored/dcp_source.h"
#include "am/stored/hf_shards_source.h"
#include "am/stored/hf_source.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

// Opens a checkpoint of am-run. If am-run's own index is damaged and `damage` is listed, uses the
// file `.metadata` of torch.distributed.checkpoint instead, which describes the same tensors.
std::unique_ptr<stored::TensorSource> open_checkpoint(const fs::path& folder,
                                                      stored::OnDamage damage) {
  if (damage == stored::OnDamage::kRefuse || !stored::is_dcp_source(folder)) {
    return stored::open_automesh_source(folder, damage);
  }
  try {
    return stored::open_automesh_source(folder, damage);
  } catch (const Error& error) {
    std::vector<stored::StoredProblem> known = {
        stored::file_problem(folder, run_folder::kInfoFile, error)};
    return stored::open_dcp_source(folder, std::move(known));
  }
}

// Returns whether the path has a format that is recognised by names of files. Such formats are
// checked before torch.save files, whose names are arbitrary.
bool is_named_source(const fs::path& path) {
  return run_folder::is_checkpoint(path) || is_framework_folder(path) || stored::is_hf_source(path);
}

}  // namespace

bool is_tensor_source(const fs::path& path) {
  return is_named_source(path) || stored::is_torch_source(path);
}

bool is_pickled_source(const fs::path& path) {
  return !is_named_source(path) && stored::is_torch_source(path);
}

std::unique_ptr<stored::TensorSource> open_tensor_source(const fs::path& path,
                                                         stored::OnDamage damage) {
  if (!fs::exists(path)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file or folder"));
  }
  if (run_folder::is_checkpoint(path)) return open_checkpoint(path, damage);
  if (is_framework_folder(path)) return open_framework_folder(path, damage);
  if (stored::is_hf_shards_source(path)) {
    return stored::open_hf_shards_source(path, {path.parent_path()}, damage);
  }
  if (stored::is_hf_source(path)) return stored::open_hf_source(path, damage);
  if (stored::is_torch_source(path)) return stored::open_torch_source(path, damage);
  throw Error(ErrorKind::kFormat, cat(path.string(), ": holds no weights that can be opened"),
              "expected *.safetensors or pytorch_model.bin (or a folder with them), a folder of "
              "torch.distributed.checkpoint, or "
              "a checkpoint folder step-N of am-run");
}

}  // namespace am::frameworks
