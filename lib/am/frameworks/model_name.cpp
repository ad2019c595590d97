#include "am/frameworks/model_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/frameworks/job_shape.h"
#include "am/model/inventory.h"

namespace am::frameworks {
namespace {

// A model family, and the word by which model names mention the family. A name with the word
// "llama4", for example, mentions only this family, and not the family of the shorter word "llama".
struct Family {
  std::string_view word;   // word in names, in lower case and without dashes
  std::string_view types;  // globs for the model types of the family, separated by "|"
};

constexpr std::array<Family, 59> kFamilies = {{
    {"llama", "llama"},
    {"llama4", "llama4*"},
    {"falcon3", "llama|falcon3"},
    {"falcon", "falcon*"},
    {"smollm", "llama|smollm*"},
    {"smollm3", "smollm3"},
    {"yi1.5", "llama"},
    {"mistral", "mistral*|ministral*"},
    {"ministral", "mistral*|ministral*"},
    {"mixtral", "mixtral"},
    {"qwen2", "qwen2|qwen2_moe|qwen2_vl*|qwen2_5*"},
    {"qwen2.5", "qwen2|qwen2_moe|qwen2_5*"},
    {"qwen1.5", "qwen2|qwen2_moe"},
    {"qwq", "qwen2"},
    {"qwen3", "qwen3|qwen3_moe"},
    {"qwen3next", "qwen3_next"},
    {"qwen3.5", "qwen3_5*"},
    {"qwen3.6", "qwen3_5*|qwen3_6*"},
    {"qwen35", "qwen3_5*"},
    {"qwen3vl", "qwen3_vl*"},
    {"qwen3omni", "qwen3_omni*"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3*"},
    {"gemma3n", "gemma3n*"},
    {"gemma4", "gemma4*"},
    {"embeddinggemma", "gemma3*"},
    {"deepseekv2", "deepseek_v2"},
    {"deepseekv3", "deepseek_v3"},
    {"deepseekv3.2", "deepseek_v32|deepseek_v3"},
    {"deepseekv4", "deepseek_v4"},
    {"deepseekr1", "deepseek_v3"},
    {"moonlight", "deepseek_v3"},
    {"kimik2", "deepseek_v3|kimi*"},
    {"gptoss", "gpt_oss"},
    {"gpt2", "gpt2"},
    {"phi3", "phi3*"},
    {"phi4", "phi3*|phi4*"},
    {"olmo2", "olmo2"},
    {"olmo3", "olmo3"},
    {"olmoe", "olmoe"},
    {"glm4", "glm*"},
    {"baichuan", "baichuan"},
    {"granite", "granite*"},
    {"nemotronh", "nemotron_h"},
    {"starcoder2", "starcoder2"},
    {"exaone4", "exaone4"},
    {"seedoss", "seed_oss"},
    {"glm4.5", "glm4_moe"},
    {"glm4.6", "glm4_moe"},
    {"minimaxm2", "minimax_m2"},
    {"helium", "helium"},
    {"ernie4.5", "ernie4_5*"},
    {"commandr", "cohere|cohere2"},
    {"commanda", "cohere2"},
    {"nemotron4", "nemotron"},
    {"hunyuan", "hunyuan*"},
    {"pythia", "gpt_neox"},
    {"stablelm", "stablelm*"},
}};

// Returns the families that a name mentions. If the words of several families begin at one
// position, only the longest word counts. `word`: the name in lower case, without `_` and `-`.
std::vector<const Family*> families_in(std::string_view word) {
  std::vector<const Family*> found;
  for (size_t at = 0; at < word.size(); ++at) {
    const Family* longest = nullptr;
    for (const Family& family : kFamilies) {
      if (!starts_with(word.substr(at), family.word)) continue;
      if (longest == nullptr || family.word.size() > longest->word.size()) longest = &family;
    }
    if (longest == nullptr) continue;
    found.push_back(longest);
    at += longest->word.size() - 1;
  }
  return found;
}

bool has_type(const Family& family, const model::ModelConfig& model) {
  const std::vector<std::string> types = split(std::string(family.types), '|');
  return std::any_of(types.begin(), types.end(), [&](const std::string& type) {
    return glob_match(type, model.model_type) ||
           (!model.wrapped_in.empty() && glob_match(type, model.wrapped_in));
  });
}

// Returns the numbers of parameters that a name states, for example 8e9 for "8B" and 135e6 for
// "135m". Skips numbers of active parameters ("A3B") and products with a number of experts ("8x7B",
// "17bx16e").
std::vector<double> sizes_in(std::string_view name) {
  const auto part_of_word = [&](size_t at) {
    return at < name.size() && (std::isalnum(static_cast<unsigned char>(name[at])) != 0);
  };
  std::vector<double> sizes;
  for (size_t at = 0; at < name.size(); ++at) {
    const size_t end = std::min(name.find_first_not_of("0123456789.", at), name.size());
    if (end == at) continue;
    const bool begins = at == 0 || !part_of_word(at - 1);
    const char unit = end < name.size()
                          ? static_cast<char>(std::tolower(static_cast<unsigned char>(name[end])))
                          : ' ';
    if (begins && (unit == 'b' || unit == 'm') && !part_of_word(end + 1)) {
      const double number = std::strtod(std::string(name.substr(at, end - at)).c_str(), nullptr);
      if (number > 0) sizes.push_back(number * (unit == 'b' ? 1e9 : 1e6));
    }
    at = end;
  }
  return sizes;
}

}  // namespace

std::string contradiction(std::string_view name, const model::ModelConfig& model) {
  while (ends_with(name, "/")) name.remove_suffix(1);
  name.remove_prefix(name.rfind('/') + 1);  // without a '/', rfind returns npos, and npos + 1 is 0
  const std::vector<const Family*> families = families_in(plain_word(name));
  const bool known = std::any_of(families.begin(), families.end(),
                                 [&](const Family* family) { return has_type(*family, model); });
  if (!families.empty() && !known) return cat("has model_type = \"", model.model_type, "\"");
  const std::vector<double> sizes = sizes_in(name);
  if (sizes.empty()) return "";
  constexpr double kNear = 1.7;
  const auto total = static_cast<double>(model::build_inventory(model).total());
  const bool near = std::any_of(sizes.begin(), sizes.end(), [&](double size) {
    return size < total * kNear && total < size * kNear;
  });
  return near ? "" : cat("has ", format_general(total / 1e9, 3), " billion parameters");
}

}  // namespace am::frameworks
