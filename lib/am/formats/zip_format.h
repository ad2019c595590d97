// Constants of zip archives: PKWARE's APPNOTE 6.3.10, section 4.3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace am::formats {

inline constexpr uint32_t kZipLocalHeader = 0x04034b50;
inline constexpr uint32_t kZipCentralHeader = 0x02014b50;
inline constexpr uint32_t kZipEnd = 0x06054b50;
inline constexpr uint32_t kZipEnd64 = 0x06064b50;
inline constexpr uint32_t kZipLocator64 = 0x07064b50;
inline constexpr size_t kZipLocalBytes = 30;
inline constexpr size_t kZipCentralBytes = 46;
inline constexpr size_t kZipEndBytes = 22;
inline constexpr size_t kZipEnd64Bytes = 56;
inline constexpr size_t kZipLocator64Bytes = 20;
inline constexpr uint16_t kZipExtra64 = 1;
// Placeholders in 16-bit and 32-bit fields. The field's actual value is in the zip64 end record or
// in a zip64 extra field.
inline constexpr uint16_t kZipFull16 = 0xFFFF;
inline constexpr uint32_t kZipFull32 = 0xFFFFFFFF;

}  // namespace am::formats
