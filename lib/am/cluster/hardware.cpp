#include "am/cluster/hardware.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/cluster/embedded_files.h"
#include "am/config/codec.h"
#include "am/config/value.h"

namespace am::cluster {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGigabit = 1e9 / 8.0;

struct NumberKey {
  const char* name;
  double Gpu::*member;
  double unit;
  bool required;
};

constexpr std::array<NumberKey, 12> kNumbers = {{
    {"bf16_tflops", &Gpu::bf16_flops, kTera, true},
    {"fp8_tflops", &Gpu::fp8_flops, kTera, false},
    {"fp4_tflops", &Gpu::fp4_flops, kTera, false},
    {"fp32_tflops", &Gpu::fp32_flops, kTera, false},
    {"memory_gib", &Gpu::memory_bytes, kGiB, true},
    {"memory_tb_per_s", &Gpu::memory_bandwidth, kTera, true},
    {"link_gb_per_s", &Gpu::link_bandwidth, kGiga, true},
    {"link_domain", &Gpu::link_domain, 1.0, false},
    {"gpus_per_node", &Gpu::gpus_per_node, 1.0, false},
    {"nic_gbit_per_s", &Gpu::nic_bandwidth, kGigabit, true},
    {"host_gb_per_s", &Gpu::host_bandwidth, kGiga, false},
    {"watts", &Gpu::watts, 1.0, false},
}};

class GpuReader {
 public:
  GpuReader(const config::Value& root, Gpu& gpu, Diagnostics& found)
      : root_(root), gpu_(gpu), found_(found) {}

  bool read() {
    const int before = found_.errors();
    for (const config::Member& member : root_.members) read_member(member);
    for (const NumberKey& key : kNumbers) {
      if (key.required && root_.find(key.name) == nullptr) {
        found_.error("cluster.key", root_.span, cat(key.name, " is missing"),
                     "add this key; plans/clusters/h100-sxm.toml is an example with every key");
      }
    }
    return found_.errors() == before;
  }

 private:
  void read_member(const config::Member& member) {
    const config::Input input{member.value, member.key, found_};
    if (member.key == "architecture") {
      // The architecture determines which fitted constants are used (Gpu::generation), so an
      // unknown name is an error.
      const std::vector<std::string> known(kArchitectures.begin(), kArchitectures.end());
      if (const auto name = config::Choice{known}.read(input)) gpu_.architecture = *name;
    } else if (member.key == "source") {
      if (const auto text = config::Text{}.read(input)) gpu_.source = *text;
    } else if (member.key == "aliases") {
      if (auto texts = config::Texts{}.read(input)) gpu_.aliases = std::move(*texts);
    } else {
      read_number(member, input);
    }
  }

  void read_number(const config::Member& member, const config::Input& input) {
    const auto* key = std::find_if(kNumbers.begin(), kNumbers.end(),
                                   [&](const NumberKey& k) { return member.key == k.name; });
    if (key == kNumbers.end()) {
      std::vector<std::string> known = {"architecture", "source", "aliases"};
      for (const NumberKey& number : kNumbers) known.emplace_back(number.name);
      const auto near = nearest(member.key, known);
      found_.error(
          "cluster.key", member.key_span, cat("unknown key ", member.key),
          near ? cat("did you mean ", *near, "?") : cat("known keys: ", join(known, ", ")));
      return;
    }
    const auto value = config::Number{.min = 0.0, .below = 1e9}.read(input);
    if (!value) return;
    gpu_.*(key->member) = *value * key->unit;
    if (*value == 0.0 && key->required) {
      input.out_of_range(" must be above 0", "");
    }
  }

  const config::Value& root_;
  Gpu& gpu_;
  Diagnostics& found_;
};

std::optional<Gpu> parse_gpu(std::string_view text, const std::string& name,
                             const std::string& file, Diagnostics& found) {
  const auto root = config::read_toml(text, file, found);
  if (!root) return std::nullopt;
  Gpu gpu;
  gpu.name = name;
  if (!GpuReader(*root, gpu, found).read()) return std::nullopt;
  return gpu;
}

// Whether `text`, the text of a built-in GPU file, lists the alias `name`. Only searches the line
// `aliases = ["a", "b"]`, because parsing the file would take longer.
bool has_alias(std::string_view text, const std::string& name) {
  const size_t start = text.find("aliases = [");
  if (start == std::string_view::npos) return false;
  const std::string_view line = text.substr(start, text.find('\n', start) - start);
  return line.find(cat("\"", name, "\"")) != std::string_view::npos;
}

}  // namespace

GpuGeneration Gpu::generation() const {
  if (architecture == "blackwell" || architecture == "cdna4") return GpuGeneration::kBlackwell;
  if (architecture == "hopper" || architecture == "cdna3") return GpuGeneration::kHopper;
  return GpuGeneration::kAmpere;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : cluster_files()) names.emplace_back(file.name);
  return names;
}

std::optional<Gpu> find_gpu(std::string_view name, const std::filesystem::path& folder,
                            const Span& where, Diagnostics& found) {
  if (looks_like_path(name)) {
    const std::filesystem::path file = folder / name;
    try {
      return parse_gpu(read_file(file), file.stem().string(), file.string(), found);
    } catch (const Error& error) {
      found.error("cluster.gpu", where, error.what(),
                  "in a plan, paths are relative to the plan file");
      return std::nullopt;
    }
  }
  const std::string wanted = lower(name);
  for (const EmbeddedFile& file : cluster_files()) {
    if (wanted == file.name || has_alias(file.text, wanted)) {
      return parse_gpu(file.text, std::string(file.name),
                       cat("plans/clusters/", file.name, ".toml"), found);
    }
  }
  const std::vector<std::string> names = gpu_names();
  const auto near = nearest(wanted, names);
  found.error("cluster.gpu", where, cat("no GPU is called \"", name, "\""),
              cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "known: ", join(names, ", "), "; or name a file, such as \"./mine.toml\""));
  return std::nullopt;
}

}  // namespace am::cluster
