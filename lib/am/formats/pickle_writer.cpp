#include "am/formats/pickle_writer.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

namespace am::formats {

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

template <typename T>
void PickleWriter::put_number(T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  bytes_.append(bytes.data(), bytes.size());
}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<uint8_t>::max()) {
    put('K');
    put_number(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= std::numeric_limits<uint16_t>::max()) {
    put('M');
    put_number(static_cast<uint16_t>(value));
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    put('J');
    put_number(static_cast<int32_t>(value));
  } else {
    put('\x8a');
    put_number(static_cast<uint8_t>(sizeof value));
    put_number(value);
  }
}

void PickleWriter::real(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  put('G');
  put_number(__builtin_bswap64(bits));
}

bool PickleWriter::repeats(const std::string& what) {
  const auto [place, fresh] = seen_.emplace(what, remembered_);
  if (!fresh) recall(place->second);
  return !fresh;
}

void PickleWriter::text(std::string_view value) {
  if (repeats(std::string("X").append(value))) return;
  put('X');
  put_number(static_cast<uint32_t>(value.size()));
  bytes_.append(value);
  remember();
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  std::string both = "c";
  both.append(module).append("\n").append(name).append("\n");
  if (repeats(both)) return;
  bytes_.append(both);
  remember();
}

void PickleWriter::integers(std::span<const int64_t> values) {
  if (values.empty()) {
    empty_tuple();
    return;
  }
  open_mark();
  for (const int64_t value : values) integer(value);
  close_tuple();
}

void PickleWriter::put_index(char short_opcode, char long_opcode, uint32_t index) {
  if (index <= std::numeric_limits<uint8_t>::max()) {
    put(short_opcode);
    put_number(static_cast<uint8_t>(index));
  } else {
    put(long_opcode);
    put_number(index);
  }
}

uint32_t PickleWriter::remember() {
  put_index('q', 'r', remembered_);
  return remembered_++;
}

void PickleWriter::recall(uint32_t number) { put_index('h', 'j', number); }

std::string PickleWriter::finish() && {
  put('.');
  return std::move(bytes_);
}

}  // namespace am::formats
