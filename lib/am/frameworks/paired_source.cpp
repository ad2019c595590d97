#include "am/frameworks/paired_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/text.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

class PairedSource : public stored::TensorSource {
 public:
  PairedSource(Paired what, std::unique_ptr<stored::TensorSource> model,
               std::unique_ptr<stored::TensorSource> states)
      : what_(std::move(what)), model_(std::move(model)), states_(std::move(states)) {
    if (!states_) return;
    for (const auto* list : {&states_->tensors(), &states_->optimizer_tensors()}) {
      for (const stored::StoredTensor& tensor : *list) {
        if (model_->find(tensor.name) == nullptr) optimizer_.push_back(tensor);
      }
    }
    std::sort(optimizer_.begin(), optimizer_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  }

  std::string format() const override { return what_.format; }
  fs::path path() const override { return what_.folder; }
  std::string note() const override { return what_.note.empty() ? model_->note() : what_.note; }
  const std::vector<stored::StoredTensor>& tensors() const override { return model_->tensors(); }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override {
    return states_ ? states_->values() : std::vector<std::string>();
  }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    return states_ && states_->visit_value(name, view);
  }
  std::optional<int64_t> step() const override { return what_.step ? what_.step : model_->step(); }
  fs::path config_file() const override { return what_.config_file; }
  std::vector<fs::path> data_files() const override {
    std::vector<fs::path> paths = model_->data_files();
    if (!states_) return paths;
    for (fs::path& path : states_->data_files()) paths.push_back(std::move(path));
    return paths;
  }
  std::vector<stored::StoredProblem> damage() const override {
    std::vector<stored::StoredProblem> problems = what_.damage;
    for (const stored::TensorSource* part : {model_.get(), states_.get()}) {
      if (part == nullptr) continue;
      for (stored::StoredProblem& problem : part->damage()) problems.push_back(std::move(problem));
    }
    return problems;
  }
  fs::path file_of(const stored::StoredTensor& tensor, size_t shard) const override {
    return source_of(tensor.name).file_of(tensor, shard);
  }
  std::vector<uint32_t> checksums(const stored::StoredTensor& tensor) const override {
    return source_of(tensor.name).checksums(tensor);
  }
  void verify(const stored::VerifyCalls& calls) const override {
    model_->verify(calls);
    if (states_) states_->verify(calls);
  }

  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    source_of(name).read(name, box, out);
  }
  bool view(std::string_view name, const mesh::Box& box, const ViewBytes& view) const override {
    return source_of(name).view(name, box, view);
  }
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    source_of(name).prefetch(name, box);
  }

 private:
  const stored::TensorSource& source_of(std::string_view name) const {
    return !states_ || model_->find(name) != nullptr ? *model_ : *states_;
  }

  Paired what_;
  std::unique_ptr<stored::TensorSource> model_;
  std::unique_ptr<stored::TensorSource> states_;  // may be null
  std::vector<stored::StoredTensor> optimizer_;
};

}  // namespace

std::unique_ptr<stored::TensorSource> pair_up(Paired what,
                                              std::unique_ptr<stored::TensorSource> model,
                                              std::unique_ptr<stored::TensorSource> states) {
  return std::make_unique<PairedSource>(std::move(what), std::move(model), std::move(states));
}

}  // namespace am::frameworks
