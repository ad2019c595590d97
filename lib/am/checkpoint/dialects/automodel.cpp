#include "am/checkpoint/dialects/automodel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/dcp_source.h"
#include "am/checkpoint/dialects/hub_config.h"
#include "am/checkpoint/hf_shards_source.h"
#include "am/checkpoint/hf_source.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kNewest = "LATEST";  // a link

// Weights of one source, all tensors of the other behind them.
class AutoModelSource : public TensorSource {
 public:
  AutoModelSource(fs::path folder, std::unique_ptr<TensorSource> model,
                  std::unique_ptr<TensorSource> optim, fs::path config_file)
      : folder_(std::move(folder)),
        model_(std::move(model)),
        optim_(std::move(optim)),
        config_file_(std::move(config_file)) {
    if (!optim_) return;
    for (const auto* list : {&optim_->tensors(), &optim_->optimizer_tensors()}) {
      for (const StoredTensor& tensor : *list) {
        if (model_->find(tensor.name) == nullptr) optimizer_.push_back(tensor);
      }
    }
    std::sort(optimizer_.begin(), optimizer_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }

  std::string format() const override { return "automodel"; }
  fs::path path() const override { return folder_; }
  std::string note() const override { return model_->note(); }
  const std::vector<StoredTensor>& tensors() const override { return model_->tensors(); }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override {
    return optim_ ? optim_->values() : std::vector<std::string>();
  }
  bool see_value(std::string_view name, const SeeValue& see) const override {
    return optim_ && optim_->see_value(name, see);
  }
  fs::path config_file() const override { return config_file_; }
  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths = model_->data_files();
    if (!optim_) return paths;
    for (fs::path& path : optim_->data_files()) paths.push_back(std::move(path));
    return paths;
  }
  fs::path file_of(const StoredTensor& tensor, size_t shard) const override {
    const bool of_model = !optim_ || model_->find(tensor.name) != nullptr;
    return (of_model ? *model_ : *optim_).file_of(tensor, shard);
  }
  void verify(const VerifyCalls& calls) const override {
    model_->verify(calls);
    if (optim_) optim_->verify(calls);
  }

  void read(std::string_view name, const mesh::Box& box, at::Tensor out) const override {
    const bool of_model = !optim_ || model_->find(name) != nullptr;
    (of_model ? *model_ : *optim_).read(name, box, std::move(out));
  }

 private:
  fs::path folder_;
  std::unique_ptr<TensorSource> model_;
  std::unique_ptr<TensorSource> optim_;  // may be null
  fs::path config_file_;
  std::vector<StoredTensor> optimizer_;
};

// The newest parts: a consolidated copy may be of all ranks' shards, which lie beside it.
std::unique_ptr<TensorSource> open_model(const fs::path& folder,
                                         const std::vector<fs::path>& configs) {
  if (is_hf_shards_source(folder)) return open_hf_shards_source(folder, configs);
  for (const fs::path& each : {folder, folder / "consolidated"}) {
    if (fs::is_directory(each) && is_hf_source(each)) return open_hf_source(each);
  }
  if (is_dcp_source(folder)) return open_dcp_source(folder);
  throw Error(ErrorKind::kFormat, cat(folder.string(), ": holds no weights"),
              "NeMo AutoModel writes shard-*.safetensors or consolidated/ there");
}

bool is_step(const fs::path& path) {
  const fs::path model = path / "model";
  if (!fs::is_directory(model)) return false;
  const bool states = is_dcp_source(path / "optim") || fs::exists(path / kIncomplete) ||
                      fs::exists(path / "losses.json") || fs::exists(path / "config.yaml");
  return states && (is_hf_shards_source(model) || is_hf_source(model) || is_dcp_source(model) ||
                    fs::is_directory(model / "consolidated") || fs::exists(path / kIncomplete));
}

std::unique_ptr<TensorSource> open_step(const fs::path& path) {
  if (fs::exists(path / kIncomplete)) {
    throw Error(
        ErrorKind::kFormat,
        cat(path.string(), ": NeMo AutoModel did not finish it: it has a file ", kIncomplete),
        "open an earlier checkpoint, which LATEST names");
  }
  const fs::path model = path / "model";
  const std::vector<fs::path> configs = {model / ".hf_metadata", model / "consolidated", model,
                                         path};
  auto weights = open_model(model, configs);
  auto states = is_dcp_source(path / "optim") ? open_dcp_source(path / "optim") : nullptr;
  return std::make_unique<AutoModelSource>(path, std::move(weights), std::move(states),
                                           find_hub_config(configs).file);
}

}  // namespace

bool is_automodel_folder(const fs::path& path) {
  const fs::path newest = path / kNewest;
  return is_step(fs::is_directory(newest) ? newest : path);
}

std::unique_ptr<TensorSource> open_automodel_folder(const fs::path& path) {
  const fs::path newest = path / kNewest;
  return open_step(fs::is_directory(newest) ? fs::canonical(newest) : path);
}

}  // namespace am::checkpoint
