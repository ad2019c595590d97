// Checksums of tensors that do not depend on how they are cut: each element's bits are hashed with
// its place, and the hashes are added. So ranks hash what they hold, and the sum is the whole's.
//
//   checksum(whole, Box::whole(shape), shape) == checksum(top, box, shape) + checksum(bottom, ..)
//
// 64 bits, against accidents: two tensors that differ have the same one once in 1.8e19. Whoever
// wants to can make two that do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::values {

// Of values [box.shape] that lie at `box` of a tensor of this shape. Modulo 2^64.
uint64_t checksum(const at::Tensor& values, const mesh::Box& box, const Shape& shape);

// 16 digits, which also depend on the tensor's shape and dtype.
std::string checksum_text(uint64_t sum, const Shape& shape, at::ScalarType dtype);

// The elements' bits as whole numbers, [n] int64, in row-major order; of complex numbers two each.
at::Tensor bits_of(const at::Tensor& values);

}  // namespace am::values
