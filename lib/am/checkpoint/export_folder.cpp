#include "am/checkpoint/export_folder.h"

#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/quantization.h"
#include "am/stored/fit.h"
#include "am/tensor/dtype.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

fs::path partial_export(const fs::path& folder) { return folder.string() + ".tmp"; }

fs::path begin_export(const fs::path& folder) {
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder))) {
    throw Error(ErrorKind::kIo, cat(folder.string(), ": exists and is not an empty folder"),
                "name a folder that does not exist yet");
  }
  fs::path partial = partial_export(folder);
  fs::remove_all(partial);
  fs::create_directories(partial);
  return partial;
}

void finish_export(const fs::path& folder) {
  const fs::path partial = partial_export(folder);
  sync_folder(partial);
  if (fs::exists(folder)) fs::remove(folder);
  fs::rename(partial, folder);
  sync_folder(fs::absolute(folder).parent_path());
}

namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr std::array<const char*, 14> kTokenizerFiles = {kTokenizer,
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "added_tokens.json",
                                                         "tokenizer.model",
                                                         "spiece.model",
                                                         "sentencepiece.bpe.model",
                                                         "vocab.json",
                                                         "vocab.txt",
                                                         "merges.txt",
                                                         "tekken.json",
                                                         "tiktoken.model",
                                                         "chat_template.jinja",
                                                         "chat_template.json"};

void copy_one(const fs::path& into, const fs::path& from, const char* name) {
  if (fs::is_regular_file(from / name)) write_file_atomically(into / name, read_file(from / name));
}

}  // namespace

void copy_tokenizer(const fs::path& into, const fs::path& config_folder,
                    const fs::path& tokenizer) {
  copy_one(into, config_folder, kGeneration);
  // A file whose name is not in kTokenizerFiles is copied alone, because the other files in its
  // folder may belong to a different tokenizer.
  const std::string name = tokenizer.filename().string();
  const bool known =
      std::find(kTokenizerFiles.begin(), kTokenizerFiles.end(), name) != kTokenizerFiles.end();
  if (fs::is_regular_file(tokenizer) && !known) {
    const std::string copied = tokenizer.extension() == ".json" ? kTokenizer : name;
    return write_file_atomically(into / copied, read_file(tokenizer));
  }
  fs::path from = config_folder;
  if (!tokenizer.empty()) from = fs::is_directory(tokenizer) ? tokenizer : folder_of(tokenizer);
  for (const char* each : kTokenizerFiles) copy_one(into, from, each);
}

std::string config_with_dtype(const std::string& text, const std::string& file,
                              at::ScalarType dtype) {
  Json config = parse_json_object(text, file);
  model::remove_quantization(config);
  const bool old_spelling = config.contains("torch_dtype");
  config[old_spelling ? "torch_dtype" : "dtype"] = tensor::dtype_name(dtype);
  return config.dump(2) + "\n";
}

const stored::StoredTensor* find_codes(const stored::TensorSource& source) {
  const auto& all = source.tensors();
  const auto found = std::find_if(
      all.begin(), all.end(), [](const auto& each) { return !stored::holds_values(each.dtype); });
  return found == all.end() ? nullptr : &*found;
}

void refuse_adapters(const stored::TensorSource& source) {
  const auto& all = source.tensors();
  const auto found = std::find_if(all.begin(), all.end(), [](const stored::StoredTensor& tensor) {
    return tensor.name.find(".lora_") != std::string::npos;
  });
  if (found == all.end()) return;
  throw Error(
      ErrorKind::kUsage,
      cat(source.path().string(), ": ", found->name,
          " belongs to a LoRA adapter, whose factor (alpha / rank) is not stored with the tensors"),
      "if am-run wrote this checkpoint, export it with --format hf [--merge] and convert the "
      "exported "
      "folder; otherwise set model.weights to this folder and open the plan in am-repl");
}

void require_values(const stored::TensorSource& source, std::optional<at::ScalarType> dtype) {
  if (source.tensors().empty()) {
    throw Error(ErrorKind::kFormat, cat(source.path().string(), ": holds no parameters"));
  }
  const stored::StoredTensor* codes = find_codes(source);
  if (codes == nullptr || !dtype) return;
  throw Error(ErrorKind::kFormat,
              cat(source.path().string(), ": ", codes->name, " is ",
                  formats::safetensors_name(codes->dtype), ", which cannot be converted to ",
                  tensor::dtype_name(*dtype)),
              "export without a dtype, which copies the tensors as they are");
}

}  // namespace am::checkpoint
