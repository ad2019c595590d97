#include "am/frameworks/mapped_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/frameworks/state_name.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/hub_config.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

constexpr size_t kNamesInNote = 3;

// Returns the name without its leading components "module.". Wrappers such as DDP add these
// components.
std::string_view without_module(std::string_view name) {
  constexpr std::string_view kModule = "module.";
  while (starts_with(name, kModule)) name.remove_prefix(kModule.size());
  return name;
}

class MappedSource : public stored::TensorSource {
 public:
  MappedSource(std::unique_ptr<stored::TensorSource> stored, const NameTable& table,
               stored::HubConfig config, TrainerFacts facts)
      : stored_(std::move(stored)),
        table_(table),
        config_file_(config.file),
        facts_(std::move(facts)) {
    if (!config.config) {
      keep_stored(config.problem);
    } else {
      const std::string type = config.config->model_type;
      map(NameMap(table, *std::move(config.config)), type);
    }
    if (!facts_.note.empty()) note_ += cat("; ", facts_.note);
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tensors_.begin(), tensors_.end(), by_name);
    std::sort(optimizer_.begin(), optimizer_.end(), by_name);
  }

  std::string format() const override { return std::string(table_.format); }
  fs::path path() const override { return stored_->path(); }
  std::string note() const override { return note_; }
  const std::vector<stored::StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override { return stored_->values(); }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    return stored_->visit_value(name, view);
  }
  std::optional<int64_t> step() const override {
    return facts_.step ? facts_.step : stored_->step();
  }
  fs::path config_file() const override { return config_file_; }
  std::vector<fs::path> data_files() const override { return stored_->data_files(); }
  std::vector<stored::StoredProblem> damage() const override { return stored_->damage(); }
  // Reported problems contain the stored names of tensors, not the names in tensors().
  void verify(const stored::VerifyCalls& calls) const override { stored_->verify(calls); }

  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    const StoredPart& place = stored::place_in(places_, name, path());
    if (place.rows.is_whole()) return read_stored(place, box, out);
    const int64_t rows = place.rows.rows();
    if (box.offset.front() < 0 || box.shape.front() > rows - box.offset.front()) {
      throw Error(ErrorKind::kFormat,
                  cat(path().string(), ": ", name, " has ", rows, " rows, but the model needs ",
                      box.offset.front() + box.shape.front()));
    }
    if (box.numel() == 0) return;
    const int64_t element = formats::dtype_size(stored_->find(place.name)->dtype);
    for (const RowPiece& piece : place.rows.pieces({box.offset.front(), box.shape.front()})) {
      stored::Destination rows_out = out;
      rows_out.data += (piece.rows.offset - box.offset.front()) * out.strides.front() * element;
      mesh::Box from = box;
      from.offset.front() = piece.span.offset;
      from.shape.front() = piece.span.size;
      if (piece.in_order) {
        read_stored(place, from, rows_out);
      } else {
        read_rearranged(place, piece, from, element, rows_out);
      }
    }
  }

 private:
  using Parts = std::map<std::string, std::vector<HubPart>, std::less<>>;

  void map(const NameMap& names, const std::string& type) {
    if (!names.knows_model()) {
      keep_stored(cat("automesh does not know the tensor names of a ", type, " in this format"));
      return;
    }
    Parts parts;                    // name without "module." -> hub tensors in the stored tensor
    std::vector<std::string> left;  // stored names that the name table does not contain
    for (const stored::StoredTensor& stored : stored_->tensors()) {
      const std::string_view name = without_module(stored.name);
      HubParts found = names.to_hub(name, stored.shape);
      if (!found.problem.empty()) {
        keep_stored(cat(config_file_.string(), " describes another model: ", found.problem));
        return;
      }
      if (found.parts.empty() && !names.is_trainers(name)) left.push_back(stored.name);
      parts.emplace(name, std::move(found.parts));
    }
    for (const stored::StoredTensor& stored : stored_->tensors()) {
      const std::string_view name = without_module(stored.name);
      const std::vector<HubPart>& of_hub = parts.find(name)->second;
      const bool trainers = of_hub.empty() && names.is_trainers(name);
      add(trainers ? optimizer_ : tensors_, stored, of_hub);
    }
    for (const stored::StoredTensor& stored : stored_->optimizer_tensors()) {
      add(optimizer_, stored, state_parts(stored, names, parts));
    }
    note_ = cat("names and rows are converted from ", table_.framework,
                "'s to Hugging Face's, using ", config_file_.filename().string());
    if (!left.empty()) note_ += cat("; tensors without a Hugging Face name: ", shortened(left));
  }

  static std::string shortened(std::vector<std::string> names) {
    const size_t all = names.size();
    if (all <= kNamesInNote) return join(names, ", ");
    names.resize(kNamesInNote);
    return cat(join(names, ", "), " and ", all - kNamesInNote, " more");
  }

  void keep_stored(const std::string& why) {
    tensors_ = stored_->tensors();
    optimizer_ = stored_->optimizer_tensors();
    for (const auto* list : {&tensors_, &optimizer_}) {
      for (const stored::StoredTensor& each : *list)
        places_.emplace(each.name, StoredPart{each.name, {}, {}});
    }
    note_ = cat("names and rows are kept as ", table_.framework,
                "'s, not converted to Hugging Face's: ", why);
  }

  // Returns the parts of a stored optimizer state. Each part is the state of one hub tensor. A
  // state with the parameter's shape, such as exp_avg, is divided like the parameter. A scalar,
  // such as the step count, is the state of every hub tensor inside of the stored parameter. Empty
  // if the parameter has no hub name.
  std::vector<HubPart> state_parts(const stored::StoredTensor& stored, const NameMap& names,
                                   const Parts& parameters) const {
    const auto name = split_state(stored.name, table_.state_before_name);
    if (!name) return {};
    const std::string_view parameter = without_module(name->parameter);
    std::vector<HubPart> parts;
    if (stored.shape.empty()) {
      const auto found = parameters.find(parameter);
      if (found != parameters.end()) parts = found->second;
      for (HubPart& part : parts) part.stored = {{}, {}, {}};
    } else {
      parts = names.to_hub(parameter, stored.shape).parts;
    }
    for (HubPart& part : parts) part.name = run_folder::state_name(part.name, name->state);
    return parts;
  }

  void add(std::vector<stored::StoredTensor>& list, const stored::StoredTensor& stored,
           std::vector<HubPart> parts) {
    if (parts.empty()) parts.push_back({stored.name, {stored.name, {}, {}}});
    for (HubPart& part : parts) {
      part.stored.name = stored.name;
      list.push_back(described(stored, part));
      if (places_.emplace(part.name, std::move(part.stored)).second) continue;
      throw Error(
          ErrorKind::kFormat,
          cat(path().string(), ": two tensors are converted to the same name, ", list.back().name));
    }
  }

  // Returns the name, dtype and shape of the hub tensor `part`, and the boxes of this tensor that
  // each rank's file contains. `stored`: the stored tensor that contains the part.
  static stored::StoredTensor described(const stored::StoredTensor& stored, const HubPart& part) {
    const Shape& index = part.stored.index;
    const auto in_front = static_cast<std::ptrdiff_t>(index.size());
    stored::StoredTensor tensor{
        part.name, Shape(stored.shape.begin() + in_front, stored.shape.end()), stored.dtype, {}};
    const RowMap& rows = part.stored.rows;
    if (!rows.is_whole()) tensor.shape.front() = rows.rows();
    for (const stored::StoredShard& shard : stored.shards) {
      bool has_index = true;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        const int64_t at = index[dim] - shard.box.offset[dim];
        has_index = has_index && at >= 0 && at < shard.box.shape[dim];
      }
      if (!has_index) continue;
      mesh::Box box{Shape(shard.box.offset.begin() + in_front, shard.box.offset.end()),
                    Shape(shard.box.shape.begin() + in_front, shard.box.shape.end())};
      if (rows.is_whole()) {
        tensor.shards.push_back({shard.rank, std::move(box)});
        continue;
      }
      for (const mesh::Extent& held : rows.held_in({box.offset.front(), box.shape.front()})) {
        mesh::Box piece = box;
        piece.offset.front() = held.offset;
        piece.shape.front() = held.size;
        tensor.shards.push_back({shard.rank, std::move(piece)});
      }
    }
    return tensor;
  }

  // Reads a box into `out`. The box has the dims of the hub tensor, but its first dim counts rows
  // of the stored tensor.
  void read_stored(const StoredPart& place, const mesh::Box& box,
                   const stored::Destination& out) const {
    if (place.index.empty()) return stored_->read(place.name, box, out);
    mesh::Box stored{place.index, Shape(place.index.size(), 1)};
    stored.offset.insert(stored.offset.end(), box.offset.begin(), box.offset.end());
    stored.shape.insert(stored.shape.end(), box.shape.begin(), box.shape.end());
    stored_->read(place.name, stored, stored::with_dims_in_front(out, place.index.size()));
  }

  // Reads rows whose order in the stored tensor differs from their order in the hub tensor. First
  // reads `from`, the range of stored rows that contains these rows, into a buffer, then copies
  // each row to its position in `out`. `element`: number of bytes of an element.
  void read_rearranged(const StoredPart& place, const RowPiece& piece, const mesh::Box& from,
                       int64_t element, const stored::Destination& out) const {
    std::vector<std::byte> span(static_cast<size_t>(from.numel() * element));
    const Shape strides = stored::dense_strides(from.shape);
    read_stored(place, from, {span.data(), strides});
    mesh::Box row = mesh::Box::whole(from.shape);
    row.shape.front() = 1;
    stored::Destination to = out;
    for (int64_t i = 0; i < piece.rows.size; ++i) {
      row.offset.front() = place.rows.stored(piece.rows.offset + i) - piece.span.offset;
      stored::copy_box(span, strides, row, element, to);
      to.data += out.strides.front() * element;
    }
  }

  std::unique_ptr<stored::TensorSource> stored_;
  const NameTable& table_;
  fs::path config_file_;
  TrainerFacts facts_;
  std::string note_;
  std::map<std::string, StoredPart, std::less<>> places_;
  std::vector<stored::StoredTensor> tensors_;
  std::vector<stored::StoredTensor> optimizer_;
};

}  // namespace

std::unique_ptr<stored::TensorSource> as_hub(std::unique_ptr<stored::TensorSource> stored,
                                             const NameTable& table,
                                             const std::vector<fs::path>& config_folders,
                                             TrainerFacts facts) {
  return std::make_unique<MappedSource>(std::move(stored), table,
                                        stored::find_hub_config(config_folders), std::move(facts));
}

}  // namespace am::frameworks
