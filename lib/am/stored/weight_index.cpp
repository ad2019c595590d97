#include "am/stored/weight_index.h"

#include <map>
#include <string_view>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::stored {
namespace {

constexpr std::string_view kMapKey = "weight_map";

// Reads the index while the JSON text is parsed, without building a JSON tree. For a hundred
// thousand names, building the tree would take longer than reading the headers of all weight files.
class IndexSax final : public SortedJson::json_sax_t {
 public:
  IndexSax(const std::filesystem::path& path, WeightIndex& index) : path_(path), index_(index) {}

  bool has_map() const { return has_map_; }

  bool null() override { return other(); }
  bool boolean(bool /*value*/) override { return other(); }
  bool number_integer(number_integer_t /*value*/) override { return other(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return other(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return other(); }
  bool binary(binary_t& /*value*/) override { return other(); }

  bool string(string_t& text) override {
    if (!in_map()) return true;
    const auto file = path_inside(text);
    if (!file) refuse_file();
    index_.emplace_back(std::move(name_), file->string());
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) is_map_ = text == kMapKey;
    name_ = std::move(text);
    return true;
  }

  bool start_object(size_t /*size*/) override {
    if (in_map()) refuse_file();
    if (depth_ == 1 && is_map_ && is_object_) has_map_ = true;
    if (depth_ == 0) is_object_ = true;
    ++depth_;
    return true;
  }

  bool start_array(size_t /*size*/) override {
    if (in_map()) refuse_file();
    if (depth_ == 1) is_map_ = false;
    ++depth_;
    return true;
  }

  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t /*position*/, const string_t& /*token*/,
                   const SortedJson::exception& error) override {
    throw Error(ErrorKind::kFormat, cat(path_.string(), ": not JSON: ", json_reason(error)));
  }

 private:
  // Returns whether the current value is a direct member of the object "weight_map".
  bool in_map() const { return depth_ == 2 && is_map_ && has_map_; }

  bool other() const {
    if (in_map()) refuse_file();
    return true;
  }

  bool close() {
    --depth_;
    return true;
  }

  [[noreturn]] void refuse_file() const {
    throw Error(ErrorKind::kFormat,
                cat(path_.string(), ": ", name_, " does not name a file inside this folder"));
  }

  const std::filesystem::path& path_;
  WeightIndex& index_;
  int depth_ = 0;
  bool is_object_ = false;  // whether the root is an object
  bool is_map_ = false;     // whether the root object's current key is "weight_map"
  bool has_map_ = false;
  std::string name_;
};

}  // namespace

WeightIndex read_weight_index(const std::filesystem::path& path) {
  WeightIndex index;
  IndexSax reader(path, index);
  SortedJson::sax_parse(read_file(path), &reader);
  if (!reader.has_map()) {
    throw Error(ErrorKind::kFormat, cat(path.string(), ": not an index of weights"),
                "expected {\"weight_map\": {name: file, ..}}");
  }
  return index;
}

std::optional<std::filesystem::path> path_inside(std::string_view text) {
  const std::filesystem::path file = std::filesystem::path(text).lexically_normal();
  const bool outside = !file.has_filename() || file.is_absolute() || *file.begin() == "..";
  return outside || file == "." ? std::nullopt : std::optional(file);
}

IndexedFiles indexed_files(const std::filesystem::path& path, const WeightIndex& index,
                           OnDamage damage) {
  std::map<std::string, int64_t> names;  // file name -> number of tensors in the file
  for (const auto& [name, file] : index) ++names[file];
  IndexedFiles files;
  for (const auto& [name, tensors] : names) {
    const std::filesystem::path file = path.parent_path() / name;
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) {
      files.there.push_back(file);
    } else if (damage == OnDamage::kRefuse) {
      throw Error(ErrorKind::kIo,
                  cat(path.string(), ": names ", name, ", but this file is missing"));
    } else {
      files.problems.push_back(
          {name, cat("the file is missing; ", path.filename().string(), " lists ",
                     format_count(tensors), tensors == 1 ? " tensor in it" : " tensors in it")});
      files.missing.insert(name);
    }
  }
  return files;
}

std::vector<StoredProblem> compare_with_index(
    const std::filesystem::path& path, const WeightIndex& index,
    const std::set<std::string>& missing, OnDamage damage,
    const std::function<std::filesystem::path(std::string_view name)>& file_of) {
  std::vector<StoredProblem> problems;
  for (const auto& [name, file] : index) {
    if (missing.contains(file)) continue;
    const std::filesystem::path found = file_of(name);
    if (found == path.parent_path() / file) continue;
    std::string what = cat("says that ", name, " is in ", file,
                           found.empty() ? ", which has no such tensor"
                                         : cat(", but it is in ", found.filename().string()));
    if (!found.empty() && damage == OnDamage::kRefuse) {
      throw Error(ErrorKind::kFormat, cat(path.string(), ": ", what),
                  "the index does not belong to these files; fetch all files again");
    }
    problems.push_back({path.filename().string(), std::move(what)});
  }
  return problems;
}

}  // namespace am::stored
