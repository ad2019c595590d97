#include "am/run_folder/shard_index.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/formats/torch_archive.h"

namespace am::run_folder {

namespace {

constexpr std::string_view kLabel = "automesh-checkpoint ";

class IndexText {
 public:
  void text(std::string_view value) {
    for (const char c : value) {
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\' || code < 0x20 || code >= 0x7f) {
        out_ += dump_json(Json(std::string(value)), -1);
        return;
      }
    }
    out_.append("\"").append(value).append("\"");
  }
  template <typename Number>
  void number(Number value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  template <typename Numbers>
  void numbers(const Numbers& values) {
    for (const auto value : values) {
      separate();
      number(value);
    }
  }
  void separate() {
    if (out_.back() != '[') out_ += ',';
  }
  IndexText& operator<<(std::string_view raw) {
    out_.append(raw);
    return *this;
  }
  std::string take() && { return std::move(out_); }

 private:
  std::string out_;
};

void append_box(IndexText& out, const IndexedBox& box) {
  out << "[";
  out.number(box.file);
  for (const uint64_t value : {box.position, box.slice_offset, box.slice_length}) {
    out.separate();
    out.number(value);
  }
  out.numbers(box.box.offset);
  out.numbers(box.box.shape);
  out.numbers(box.checksums);
  out << "]";
}

}  // namespace

std::string state_name(std::string_view parameter, std::string_view state) {
  return cat(kOptimizerPrefix, parameter, ".", state);
}

int64_t IndexedTensor::element_bytes() const { return formats::torch_dtype_size(dtype); }

std::string data_file_name(int64_t rank) { return cat("__", rank, "_0.distcp"); }

std::string data_file_label(const std::string& save_id, int64_t rank) {
  return cat(kLabel, save_id, " rank ", rank, "\n");
}

std::string_view label_of(std::string_view beginning) {
  if (!starts_with(beginning, kLabel)) return {};
  const size_t end = beginning.substr(0, kLongestLabel).find('\n');
  return end == std::string_view::npos ? std::string_view() : beginning.substr(0, end + 1);
}

std::string to_json_text(const ShardIndex& index) {
  IndexText out;
  out << "{\"format\":\"" << kIndexFormat << "\",\"version\":";
  out.number(kIndexVersion);
  out << ",\"save\":";
  out.text(index.save_id);
  out << ",\n\"files\":[";
  for (const IndexedFile& file : index.files) {
    out.separate();
    out << "[";
    out.text(file.name);
    out << ",";
    out.number(file.bytes);
    out << "]";
  }
  out << "],\n\"tensors\":{";
  bool first = true;
  for (const IndexedTensor& tensor : index.tensors) {
    out << (std::exchange(first, false) ? "\n" : ",\n");
    out.text(tensor.name);
    out << ":{\"dtype\":";
    out.text(tensor.dtype);
    out << ",\"shape\":[";
    out.numbers(tensor.shape);
    out << "],\"boxes\":[";
    for (const IndexedBox& box : tensor.boxes) {
      out.separate();
      append_box(out, box);
    }
    out << "]}";
  }
  out << "}}\n";
  return std::move(out).take();
}

ShardIndex merge(std::vector<ShardIndex> parts) {
  ShardIndex all;
  std::unordered_map<std::string, size_t> places;
  for (ShardIndex& part : parts) {
    all.save_id = part.save_id;
    const auto first_file = static_cast<uint32_t>(all.files.size());
    std::move(part.files.begin(), part.files.end(), std::back_inserter(all.files));
    for (IndexedTensor& tensor : part.tensors) {
      for (IndexedBox& box : tensor.boxes) box.file += first_file;
      const auto [place, fresh] = places.emplace(tensor.name, all.tensors.size());
      if (fresh) {
        all.tensors.push_back(std::move(tensor));
        continue;
      }
      IndexedTensor& known = all.tensors[place->second];
      if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
        throw Error(ErrorKind::kFormat,
                    cat(tensor.name, ": two ranks disagree on its dtype or shape"));
      }
      std::move(tensor.boxes.begin(), tensor.boxes.end(), std::back_inserter(known.boxes));
    }
  }
  std::sort(all.tensors.begin(), all.tensors.end(),
            [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  return all;
}

}  // namespace am::run_folder
