// Lists the Python globals that are dangerous if an unpickler calls them. No file of tensors needs
// these globals.
#include <algorithm>
#include <array>

#include "am/base/text.h"
#include "am/formats/pickle.h"

namespace am::formats {

namespace {

// Modules whose globals are all alarming, including the globals of submodules. Through a dotted
// name, a pickle can reach any object from a harmless module, because Python resolves the parts
// after a dot as attributes. is_alarming_global() therefore also checks for dotted names that
// contain "__".
constexpr std::array<std::string_view, 30> kAlarmingModules = {
    "os",        "posix",  "nt",       "sys",       "subprocess", "pkgutil",
    "importlib", "runpy",  "ctypes",   "pickle",    "_pickle",    "marshal",
    "shutil",    "socket", "pip",      "code",      "codeop",     "pty",
    "commands",  "timeit", "operator", "functools", "webbrowser", "multiprocessing",
    "asyncio",   "http",   "urllib",   "torch.hub", "bdb",        "pdb"};
constexpr std::array<std::string_view, 12> kAlarmingBuiltins = {
    "eval", "exec",  "compile", "getattr", "setattr",    "delattr",
    "open", "input", "globals", "vars",    "__import__", "breakpoint"};

bool is_below(std::string_view module, std::string_view parent) {
  return module == parent || (starts_with(module, parent) && module[parent.size()] == '.');
}

}  // namespace

bool is_alarming_global(std::string_view module, std::string_view name) {
  if (module == "builtins" || module == "__builtin__") {
    const std::string_view first = name.substr(0, name.find('.'));
    return std::find(kAlarmingBuiltins.begin(), kAlarmingBuiltins.end(), first) !=
           kAlarmingBuiltins.end();
  }
  if (module == "torch" && (name == "load" || starts_with(name, "hub"))) return true;
  if (module == "torch.serialization" && name == "load") return true;
  if (name.find("__") != std::string_view::npos && name.find('.') != std::string_view::npos) {
    return true;
  }
  return std::any_of(kAlarmingModules.begin(), kAlarmingModules.end(),
                     [&](std::string_view each) { return is_below(module, each); });
}

}  // namespace am::formats
