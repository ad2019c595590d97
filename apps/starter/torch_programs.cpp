#include "starter/torch_programs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include "am/base/child_process.h"
#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/launch/environment/nccl.h"
#include "am/launch/supervise/process.h"

namespace am_apps {

using namespace am;

namespace {

namespace fs = std::filesystem;

// Folders that the build defines. Relative paths are relative to the folder of this executable.
// kTorchPlaces and kPluginPlaces are colon-separated lists that cover both the build tree and an
// installation.
constexpr std::string_view kPrograms = AM_TORCH_PROGRAMS;     // folder of the programs
constexpr std::string_view kTorchPlaces = AM_TORCH_PLACES;    // folders that may have libtorch
constexpr std::string_view kPluginPlaces = AM_PLUGIN_PLACES;  // possible folders of the CUDA plugin

// Whether the tools were built without the programs that link libtorch. These programs may have
// been installed separately.
constexpr bool kWithoutTorch = AM_TORCH_FILE_SIZE == 0;

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path path_of(const std::string& program) {
  return (own_folder() / kPrograms / program).lexically_normal();
}

// Returns the existing files of this name in the colon-separated folders, in the order of the
// folders.
std::vector<fs::path> find_in(std::string_view folders, const char* name) {
  std::vector<fs::path> files;
  for (const std::string& folder : split(std::string(folders), ':')) {
    const fs::path file = own_folder() / folder / name;
    std::error_code ignored;
    if (!folder.empty() && fs::exists(file, ignored)) files.push_back(file);
  }
  return files;
}

// Returns whether ranks are certain to load the libtorch that automesh was compiled for: no
// libtorch is preloaded, and every libtorch that the dynamic linker can find has the file size of
// that version. A result of false is inconclusive: the version is then known only after loading
// libtorch.
bool has_compiled_torch() {
  // Finding a symbol of libtorch in this process means that some libtorch is preloaded.
  if (::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version") != nullptr) return false;
  const char* given = std::getenv("LD_LIBRARY_PATH");
  std::vector<fs::path> found = find_in(given == nullptr ? "" : given, "libtorch_cpu.so");
  const std::vector<fs::path> own = find_in(kTorchPlaces, "libtorch_cpu.so");
  found.insert(found.end(), own.begin(), own.end());
  for (const fs::path& file : found) {
    std::error_code failed;
    if (fs::file_size(file, failed) != AM_TORCH_FILE_SIZE || failed) return false;
  }
  return !found.empty();
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t size = ::read(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(bytes.data(), static_cast<size_t>(size));
  }
}

constexpr const char* kWhoAnswers = "am-run-rank";

// Starts `am-run-rank --answer QUESTION` and returns the answer. If am-run-rank does not answer,
// for example because a library of libtorch is missing, throws Error(kRuntime) with the output of
// am-run-rank.
Json ask(const char* question) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a pipe: ", std::strerror(errno)));
  }
  launch::ProcessSpec spec;
  spec.argv = {torch_program(kWhoAnswers), "--answer", question};
  spec.output_fd = ends[1];
  const pid_t child = launch::spawn(spec);
  ::close(ends[1]);
  const std::string text(trim(read_all(ends[0])));
  ::close(ends[0]);
  const int status = await_exit(child);
  // The answer is the last line, because libraries may have printed lines before it.
  Json answer = Json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
  if (status == 0 && answer.is_object()) return answer;
  throw Error(ErrorKind::kRuntime, cat(kWhoAnswers, " does not start: ", text));
}

std::optional<launch::CudaProblem> ask_about_cuda() {
  if (auto problem = launch::why_no_gpu()) return problem;
  const Json answer = ask("cuda");
  if (!answer.contains("problem")) return std::nullopt;
  const Json& problem = answer.at("problem");
  return launch::CudaProblem{problem.at("what").get<std::string>(),
                             problem.at("help").get<std::string>()};
}

}  // namespace

bool has_torch_program(const std::string& name) {
  return ::access(path_of(name).c_str(), X_OK) == 0;
}

fs::path torch_program(const std::string& name) {
  fs::path program = path_of(name);
  if (::access(program.c_str(), X_OK) == 0) return program;
  if (kWithoutTorch && errno == ENOENT) {
    throw Error(
        ErrorKind::kRuntime,
        cat(name, " is not installed: this installation has only the tools that need no libtorch"),
        "to train plans and to read the values of tensors, install automesh-train, or build "
        "automesh with libtorch: scripts/setup && scripts/build in its source folder");
  }
  throw Error(ErrorKind::kRuntime, cat("cannot run ", program.string(), ": ", std::strerror(errno)),
              "this program is installed together with the tools: build or install automesh again");
}

void become_torch_program(const std::string& name, char** argv) {
  const fs::path program = torch_program(name);
  ::execv(program.c_str(), argv);
  throw Error(ErrorKind::kRuntime,
              cat("cannot run ", program.string(), ": ", std::strerror(errno)));
}

std::string library_versions() {
  if (kWithoutTorch && !has_torch_program(kWhoAnswers)) return "libtorch: not installed";
  const bool plugin = !find_in(kPluginPlaces, "libautomesh_cuda.so").empty();
  // If ranks would load NCCL, am-run-rank must report the version of NCCL. It may differ from the
  // version for which automesh was compiled.
  const bool runs_nccl =
      plugin && (launch::visible_gpus().count > 0 || launch::loaded_nccl_version());
  if (runs_nccl || !has_compiled_torch()) {
    try {
      return ask("torch").at("libraries").get<std::string>();
    } catch (const Error& error) {
      return cat("libtorch: ", error.what());
    }
  }
  return cat("libtorch ", AM_TORCH_VERSION, "\n",
             plugin ? "nccl " AM_NCCL_VERSION " (plugin)" : "nccl: no plugin");
}

void require_compiled_torch() {
  if (has_compiled_torch()) return;
  const Json answer = ask("torch");
  if (!answer.contains("problem")) return;
  const Json& problem = answer.at("problem");
  throw Error(ErrorKind::kRuntime, problem.at("what").get<std::string>(),
              problem.at("help").get<std::string>());
}

std::optional<launch::CudaProblem> why_no_cuda() {
  static const std::optional<launch::CudaProblem> problem = ask_about_cuda();
  return problem;
}

}  // namespace am_apps
