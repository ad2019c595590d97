// Reads structs in Thrift's compact protocol, the encoding of Parquet's footer and page headers.
//
//   ThriftReader reader(bytes);
//   reader.fields([&](int64_t id, ThriftType type) {
//     if (id == 3) rows = reader.integer(type);
//     else reader.skip(type);
//   });
#pragma once

#include <cstdint>
#include <string>

#include "am/formats/parquet/byte_reader.h"

namespace am::formats::parquet {

enum class ThriftType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kShort = 4,
  kInt = 5,
  kLong = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

// All functions except consumed() throw Error(kFormat) if the bytes end early, or if a value has
// another type than the function reads.
class ThriftReader {
 public:
  explicit ThriftReader(Bytes bytes) : bytes_(bytes) {}

  size_t consumed() const { return bytes_.at(); }

  // Calls visit(id, type) for each field of a struct. `visit` must read or skip the field's value.
  template <typename Visit>
  void fields(const Visit& visit) {
    int64_t id = 0;
    while (true) {
      const auto head = bytes_.number<uint8_t>();
      if (head == 0) return;
      // Ids of fields have 16 bits.
      id = head >> 4 == 0 ? static_cast<int16_t>(bytes_.zigzag()) : id + (head >> 4);
      visit(id, type_of(head & 0xF));
    }
  }
  // Like fields(), for a struct that is the value of a field of type `type`.
  template <typename Visit>
  void fields_of(ThriftType type, const Visit& visit) {
    require(type == ThriftType::kStruct, "a struct");
    fields(visit);
  }
  // Calls visit(type) for each element of a list. `visit` must read or skip the element.
  template <typename Visit>
  void elements(ThriftType type, const Visit& visit) {
    require(type == ThriftType::kList, "a list");
    const ListHead head = list_head();
    for (uint64_t i = 0; i < head.size; ++i) visit(head.type);
  }

  int64_t integer(ThriftType type);
  bool boolean(ThriftType type) const;  // for fields only, because list elements occupy a byte
  std::string text(ThriftType type);
  void skip(ThriftType type) { skip_value(type, 0); }

 private:
  struct ListHead {
    ThriftType type = ThriftType::kStop;
    uint64_t size = 0;
  };

  static ThriftType type_of(int number);
  static void require(bool holds, const char* wanted);
  ListHead list_head();
  void skip_value(ThriftType type, int depth);
  void skip_element(ThriftType type, int depth);

  ByteReader bytes_;
};

}  // namespace am::formats::parquet
