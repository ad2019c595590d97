#include "am/formats/parquet/thrift.h"

namespace am::formats::parquet {

namespace {

constexpr int kDeepestThrift = 32;  // limit of nesting; Parquet's own structs have up to 8 levels

}  // namespace

ThriftType ThriftReader::type_of(int number) {
  if (number < 1 || number > 12) fail_damaged("a field has an unknown type");
  return static_cast<ThriftType>(number);
}

void ThriftReader::require(bool holds, const char* wanted) {
  if (!holds) fail_damaged(cat("a field is not ", wanted));
}

int64_t ThriftReader::integer(ThriftType type) {
  if (type == ThriftType::kByte) return bytes_.number<int8_t>();
  require(type == ThriftType::kShort || type == ThriftType::kInt || type == ThriftType::kLong,
          "an integer");
  return bytes_.zigzag();
}

bool ThriftReader::boolean(ThriftType type) const {
  require(type == ThriftType::kTrue || type == ThriftType::kFalse, "a boolean");
  return type == ThriftType::kTrue;
}

std::string ThriftReader::text(ThriftType type) {
  require(type == ThriftType::kBinary, "a text");
  return std::string(as_text(bytes_.take(bytes_.varint())));
}

ThriftReader::ListHead ThriftReader::list_head() {
  const auto head = bytes_.number<uint8_t>();
  const uint64_t size = head >> 4 == 15 ? bytes_.varint() : head >> 4;
  // Each element has at least one byte.
  if (size > bytes_.rest().size()) fail_damaged("a list is longer than the bytes");
  return {type_of(head & 0xF), size};
}

void ThriftReader::skip_value(ThriftType type, int depth) {
  if (depth > kDeepestThrift) fail_damaged("values are nested too deeply");
  switch (type) {
    case ThriftType::kStop:
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      break;
    case ThriftType::kByte:
      bytes_.take(1);
      break;
    case ThriftType::kShort:
    case ThriftType::kInt:
    case ThriftType::kLong:
      bytes_.varint();
      break;
    case ThriftType::kDouble:
      bytes_.take(sizeof(double));
      break;
    case ThriftType::kBinary:
      bytes_.take(bytes_.varint());
      break;
    case ThriftType::kList:
    case ThriftType::kSet: {
      const ListHead head = list_head();
      for (uint64_t i = 0; i < head.size; ++i) skip_element(head.type, depth + 1);
      break;
    }
    case ThriftType::kMap: {
      const uint64_t size = bytes_.varint();
      if (size == 0) break;
      if (size > bytes_.rest().size()) fail_damaged("a map is longer than the bytes");
      const auto types = bytes_.number<uint8_t>();
      for (uint64_t i = 0; i < size; ++i) {
        skip_element(type_of(types >> 4), depth + 1);
        skip_element(type_of(types & 0xF), depth + 1);
      }
      break;
    }
    case ThriftType::kStruct:
      fields([&](int64_t /*id*/, ThriftType field) { skip_value(field, depth + 1); });
      break;
  }
}

// Skips an element of a list or map. A boolean element occupies a byte, unlike a boolean field.
void ThriftReader::skip_element(ThriftType type, int depth) {
  const bool is_boolean = type == ThriftType::kTrue || type == ThriftType::kFalse;
  skip_value(is_boolean ? ThriftType::kByte : type, depth);
}

}  // namespace am::formats::parquet
