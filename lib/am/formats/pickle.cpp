#include "am/formats/pickle.h"

#include "am/formats/pickle_memory.h"

namespace am::formats {

std::optional<int64_t> PickleValue::integer() const {
  if (kind_ != PickleKind::kInt) return std::nullopt;
  return integer_;
}

std::optional<double> PickleValue::real() const {
  if (kind_ != PickleKind::kFloat) return std::nullopt;
  return real_;
}

std::optional<std::string_view> PickleValue::text() const {
  if (kind_ != PickleKind::kText) return std::nullopt;
  return std::string_view(text_, size_);
}

std::string_view PickleValue::bytes() const {
  switch (kind_) {
    case PickleKind::kText:
    case PickleKind::kBytes:
    case PickleKind::kLongInt:
      return {text_, size_};
    default:
      return {};
  }
}

std::span<const PickleValue> PickleValue::items() const {
  switch (kind_) {
    case PickleKind::kTuple:
    case PickleKind::kList:
    case PickleKind::kSet:
    case PickleKind::kDict:
      return {node_->items, node_->count};
    default:
      return {};
  }
}

std::string_view PickleValue::module() const {
  return kind_ == PickleKind::kGlobal ? node_->items[0].bytes() : std::string_view();
}

std::string_view PickleValue::name() const {
  return kind_ == PickleKind::kGlobal ? node_->items[1].bytes() : std::string_view();
}

bool PickleValue::is_global(std::string_view module, std::string_view name) const {
  return kind_ == PickleKind::kGlobal && this->name() == name && this->module() == module;
}

PickleValue PickleValue::global() const {
  return kind_ == PickleKind::kObject ? node_->items[kGlobalItem] : PickleValue();
}

PickleValue PickleValue::arguments() const {
  return kind_ == PickleKind::kObject ? node_->items[kArgumentsItem] : PickleValue();
}

PickleValue PickleValue::state() const {
  return kind_ == PickleKind::kObject ? node_->items[kStateItem] : PickleValue();
}

std::span<const PickleValue> PickleValue::contents() const {
  if (kind_ != PickleKind::kObject) return {};
  return std::span<const PickleValue>(node_->items, node_->count).subspan(kObjectItems);
}

bool PickleValue::is_object(std::string_view module, std::string_view name) const {
  return kind_ == PickleKind::kObject && node_->items[kGlobalItem].is_global(module, name);
}

PickleValue PickleValue::persistent_id() const {
  return kind_ == PickleKind::kPersistent ? node_->items[0] : PickleValue();
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const auto pairs = kind_ == PickleKind::kObject ? contents()
                     : kind_ == PickleKind::kDict ? items()
                                                  : std::span<const PickleValue>();
  for (size_t end = pairs.size() / 2 * 2; end > 0; end -= 2) {
    if (pairs[end - 2].text() == key) return &pairs[end - 1];
  }
  return nullptr;
}

Pickle::Pickle() : arena_(std::make_unique<Arena>()) {}
Pickle::Pickle(Pickle&&) noexcept = default;
Pickle& Pickle::operator=(Pickle&&) noexcept = default;
Pickle::~Pickle() = default;

}  // namespace am::formats
