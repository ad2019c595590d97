#include "am/inspect/session.h"

#include <algorithm>
#include <string_view>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

// Returns a hint for an unknown or ambiguous name `word`: the nearest name, or names that contain
// `word`, for example "there are a, b, c and 2 more". If `word` is shell syntax (a redirection such
// as ">", or a short option such as "-l"), the hint explains what am-repl has instead.
std::string suggest(std::string_view word, const std::vector<std::string>& names) {
  if (starts_with(word, ">")) return "`output FILE` writes the next answers to a file";
  if (starts_with(word, "-")) return "options begin with `--`; `help ls` lists those of `ls`";
  if (const auto near = nearest(word, names)) return cat("did you mean ", *near, "?");
  std::vector<std::string> containing;
  for (const std::string& name : names) {
    if (name.find(word) != std::string::npos) containing.push_back(name);
  }
  if (containing.empty()) return "`ls` and `tree` list all parameters";
  const size_t shown = std::min<size_t>(3, containing.size());
  const std::string more =
      containing.size() > shown ? cat(" and ", containing.size() - shown, " more") : "";
  containing.resize(shown);
  return cat("there are ", join(containing, ", "), more);
}

std::vector<std::string> names_of(const std::vector<HeldParameter>& parameters) {
  std::vector<std::string> names;
  for (const HeldParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

const HeldParameter* named(std::span<const HeldParameter> all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Returns the tensors that match the pattern: by name, by a glob for the name or for a module, or
// by the name of their module. With `all`, returns all tensors.
std::vector<const HeldParameter*> matches(std::span<const HeldParameter> among,
                                          std::string_view pattern, bool all) {
  const std::string as_module = cat(pattern, ".");
  const std::string in_module = cat(pattern, ".*");
  const bool glob = is_glob(pattern);
  std::vector<const HeldParameter*> found;
  for (const HeldParameter& candidate : among) {
    if (all || candidate.name == pattern || starts_with(candidate.name, as_module) ||
        (glob && (glob_match(pattern, candidate.name) || glob_match(in_module, candidate.name)))) {
      found.push_back(&candidate);
    }
  }
  return found;
}

}  // namespace

Session::Session(std::unique_ptr<TensorCatalog> view, SessionOptions options,
                 ValueFunctions functions)
    : view_(std::move(view)), options_(std::move(options)), functions_(functions) {}

RankFunction& Session::value_function(std::string_view command) const {
  RankFunction* function = functions_ == nullptr ? nullptr : functions_(command);
  if (function != nullptr) return *function;
  throw Error(ErrorKind::kInternal, cat("the session has no function for `", command, "`"));
}

const HeldParameter& Session::parameter(std::string_view name) const {
  const std::vector<HeldParameter>& all = view_->parameters();
  if (const HeldParameter* exact = named(all, name)) return *exact;
  if (const HeldParameter* exact = named(view_->states(), name)) return *exact;
  const HeldParameter* found = nullptr;
  int endings = 0;
  for (const HeldParameter& candidate : all) {
    if (!name.empty() && ends_with(candidate.name, cat(".", name))) {
      found = &candidate;
      ++endings;
    }
  }
  if (endings == 1) return *found;
  if (endings > 1) {
    throw Error(ErrorKind::kUsage,
                cat("`", name, "` is ambiguous: ", endings, " parameters end in it"),
                suggest(name, names_of(all)));
  }
  const bool is_module = std::any_of(all.begin(), all.end(), [&](const HeldParameter& candidate) {
    return starts_with(candidate.name, cat(name, "."));
  });
  if (is_module) {
    throw Error(ErrorKind::kUsage, cat("`", name, "` is a module, not a parameter"),
                cat("`ls ", name, "` lists its parameters"));
  }
  throw Error(ErrorKind::kUsage, cat("there is no parameter `", name, "`"),
              suggest(name, names_of(all)));
}

std::vector<const HeldParameter*> Session::matching(std::string_view pattern) const {
  const bool all = pattern.empty() || pattern == "all";
  std::vector<const HeldParameter*> found = matches(view_->parameters(), pattern, all);
  if (found.empty() && !all) found = matches(view_->states(), pattern, false);
  if (!found.empty() || all) return found;
  if (is_glob(pattern)) {
    throw Error(ErrorKind::kUsage, cat("no parameter matches `", pattern, "`"),
                "`*` also matches dots: *.q_proj.weight");
  }
  std::vector<std::string> names = names_of(view_->parameters());
  for (const std::string& module : module_names(view_->parameters())) names.push_back(module);
  const auto is_ending = [&](const std::string& name) {
    return ends_with(name, cat(".", pattern));
  };
  if (std::count_if(names.begin(), names.end(), is_ending) == 1) {
    return matching(*std::find_if(names.begin(), names.end(), is_ending));
  }
  throw Error(ErrorKind::kUsage, cat("there is no parameter or module `", pattern, "`"),
              suggest(pattern, names));
}

std::filesystem::path Session::path(const std::string& operand) const {
  return options_.folder / expand_home(operand);
}

DefaultTokenizer Session::tokenizer() const {
  return options_.tokenizer.empty() ? view_->default_tokenizer()
                                    : DefaultTokenizer{options_.tokenizer, {}};
}

Between Session::between() {
  return [this] { check_interrupt(); };
}

void Session::require_memory(int64_t bytes, const std::string& what, bool forced) {
  if (forced || options_.force || bytes == 0) return;
  const launch::MemoryInfo own = options_.memory ? options_.memory() : launch::memory_of_machine();
  // All ranks compare with the smallest memory of any rank, so that either all of them throw or
  // none does.
  launch::MemoryInfo least = own;
  for (const auto& rank : view_->gather_numbers({own.total, own.available})) {
    least.total = std::min(least.total, rank[0]);
    least.available = std::min(least.available, rank[1]);
  }
  const auto shortage = launch::memory_shortage(bytes, least);
  if (shortage) {
    throw Error(ErrorKind::kPlan, cat(what, " ", *shortage), "--force tries it nevertheless");
  }
}

bool Session::any_interrupted() {
  const auto ranks = view_->gather_numbers({is_interrupted() ? 1 : 0});
  return std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank[0] != 0; });
}

void Session::check_interrupt() {
  if (any_interrupted()) throw Error(ErrorKind::kUsage, "interrupted");
}

std::vector<std::string> module_names(const std::vector<HeldParameter>& parameters) {
  std::vector<std::string> names;
  // Name of the previous parameter. Modules in the common prefix of both names are already in the
  // list.
  std::string_view last;
  for (const HeldParameter& parameter : parameters) {
    const std::string& name = parameter.name;
    const auto [end, ignored] = std::mismatch(name.begin(), name.end(), last.begin(), last.end());
    const auto shared = static_cast<size_t>(end - name.begin());
    for (size_t dot = name.find('.', shared); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      names.push_back(name.substr(0, dot));
    }
    last = name;
  }
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace am::inspect
