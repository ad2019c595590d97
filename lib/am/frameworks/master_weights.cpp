#include "am/frameworks/master_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/name_map.h"
#include "am/frameworks/state_name.h"

namespace am::frameworks {

namespace {

// Possible names of the optimizer state that contains the master weights. Megatron's distributed
// optimizer writes "fp32_param" with the sharding type fully_sharded_model_space, and "param" with
// the sharding type fully_reshardable. Transformer Engine's optimizer writes "master_param".
constexpr std::array<std::string_view, 3> kMasters = {"fp32_param", "param", "master_param"};

class MasterWeights : public stored::TensorSource {
 public:
  explicit MasterWeights(const stored::TensorSource& source)
      : source_(source), tensors_(source.tensors()) {
    for (const stored::StoredTensor& state : source.optimizer_tensors()) {
      const auto name = split_state(state.name);
      if (!name || std::find(kMasters.begin(), kMasters.end(), name->state) == kMasters.end()) {
        optimizer_.push_back(state);
      } else {
        masters_.emplace(name->parameter, state.name);
      }
    }
    for (stored::StoredTensor& tensor : tensors_) {
      const auto master = masters_.find(tensor.name);
      if (master == masters_.end()) continue;
      const stored::StoredTensor& state = *source.find(master->second);
      if (state.shape != tensor.shape) {
        throw Error(ErrorKind::kFormat,
                    cat(source.path().string(), ": ", state.name, " is ", shape_text(state.shape),
                        ", but its parameter is ", shape_text(tensor.shape)));
      }
      tensor.dtype = state.dtype;
      tensor.shards = state.shards;
    }
  }

  std::string format() const override { return source_.format(); }
  std::string note() const override { return source_.note(); }
  std::filesystem::path path() const override { return source_.path(); }
  const std::vector<stored::StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override { return source_.values(); }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    return source_.visit_value(name, view);
  }
  std::optional<int64_t> step() const override { return source_.step(); }
  std::vector<stored::StoredProblem> damage() const override { return source_.damage(); }
  std::filesystem::path config_file() const override { return source_.config_file(); }
  std::vector<std::filesystem::path> data_files() const override { return source_.data_files(); }
  std::filesystem::path file_of(const stored::StoredTensor& tensor, size_t shard) const override {
    return source_.file_of(*source_.find(stored_name(tensor.name)), shard);
  }
  void verify(const stored::VerifyCalls& calls) const override { source_.verify(calls); }

  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    source_.read(stored_name(name), box, out);
  }
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    source_.prefetch(stored_name(name), box);
  }

 private:
  std::string_view stored_name(std::string_view name) const {
    const auto master = masters_.find(name);
    return master == masters_.end() ? name : std::string_view(master->second);
  }

  const stored::TensorSource& source_;
  std::vector<stored::StoredTensor> tensors_;
  std::vector<stored::StoredTensor> optimizer_;
  // The name of each master weight, by the name of its parameter.
  std::map<std::string, std::string, std::less<>> masters_;
};

}  // namespace

std::unique_ptr<stored::TensorSource> with_master_weights(const stored::TensorSource& source) {
  if (!starts_with(source.format(), megatron_table().format)) return nullptr;
  return std::make_unique<MasterWeights>(source);
}

}  // namespace am::frameworks
