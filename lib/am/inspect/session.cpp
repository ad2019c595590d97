#include "am/inspect/session.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {
namespace {

// "did you mean a, b?" from names near to `word`, or that contain it.
std::string suggest(std::string_view word, const std::vector<std::string>& names) {
  if (const auto near = nearest(word, names)) return cat("did you mean ", *near, "?");
  std::vector<std::string> containing;
  for (const std::string& name : names) {
    if (name.find(word) != std::string::npos) containing.push_back(name);
  }
  if (containing.empty()) return "`ls` and `tree` list what there is";
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

}  // namespace

Session::Session(std::unique_ptr<Holder> holder, SessionOptions options)
    : holder_(std::move(holder)), options_(std::move(options)) {}

const HeldParameter& Session::parameter(std::string_view name) const {
  const std::vector<HeldParameter>& all = holder_->parameters();
  const HeldParameter* found = nullptr;
  int endings = 0;
  for (const HeldParameter& candidate : all) {
    if (candidate.name == name) return candidate;
    if (!name.empty() && ends_with(candidate.name, cat(".", name))) {
      found = &candidate;
      ++endings;
    }
  }
  if (endings == 1) return *found;
  if (endings > 1) {
    throw Error(ErrorKind::kUsage, cat(endings, " parameters end in `", name, "`"),
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
  const std::string as_module = cat(pattern, ".");
  std::vector<const HeldParameter*> found;
  for (const HeldParameter& candidate : holder_->parameters()) {
    if (all || candidate.name == pattern || starts_with(candidate.name, as_module) ||
        glob_match(pattern, candidate.name)) {
      found.push_back(&candidate);
    }
  }
  if (!found.empty() || all) return found;
  if (is_glob(pattern)) {
    throw Error(ErrorKind::kUsage, cat("no parameter matches `", pattern, "`"),
                "`*` also matches dots: *.q_proj.weight");
  }
  std::vector<std::string> names = names_of(holder_->parameters());
  for (const std::string& module : module_names(holder_->parameters())) names.push_back(module);
  const auto ending = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    return ends_with(name, cat(".", pattern));
  });
  if (ending == 1) {
    const auto full = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return ends_with(name, cat(".", pattern));
    });
    return matching(*full);
  }
  throw Error(ErrorKind::kUsage, cat("there is no parameter or module `", pattern, "`"),
              suggest(pattern, names));
}

const data::Tokenizer& Session::tokenizer() {
  if (!tokenizer_) {
    set_tokenizer(options_.tokenizer.empty() ? holder_->default_tokenizer() : options_.tokenizer);
  }
  return *tokenizer_;
}

void Session::set_tokenizer(const std::string& name) { tokenizer_ = data::make_tokenizer(name); }

void Session::check_interrupt() {
  const bool here = options_.interrupted && options_.interrupted();
  const at::Tensor flag = at::full({1}, here ? 1 : 0, at::TensorOptions(at::kLong));
  if (holder_->gather(flag).max().item<int64_t>() != 0) {
    throw Error(ErrorKind::kUsage, "interrupted");
  }
}

std::vector<std::string> module_names(const std::vector<HeldParameter>& parameters) {
  std::set<std::string> names;
  for (const HeldParameter& parameter : parameters) {
    for (size_t dot = parameter.name.find('.'); dot != std::string::npos;
         dot = parameter.name.find('.', dot + 1)) {
      names.insert(parameter.name.substr(0, dot));
    }
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const std::string& a, const std::string& b) { return natural_less(a, b); });
  return sorted;
}

}  // namespace am::inspect
