#include "am/frameworks/am_checkpoint.h"

#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "am/base/error.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/frameworks/open_weights.h"
#include "am/mesh/shard.h"

namespace {

using am::Error;
using am::ErrorKind;

thread_local std::string t_error;

// Returns the result of `action`. If `action` throws, records the message for am_checkpoint_error()
// and returns `failure`.
template <typename Result, typename Action>
Result guarded(Result failure, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    t_error = error.hint().empty() ? error.what() : am::cat(error.what(), "; ", error.hint());
  } catch (const std::exception& error) {
    t_error = error.what();
  }
  return failure;
}

}  // namespace

struct am_checkpoint {
  struct Tensor {
    const am::stored::StoredTensor* stored;
    std::string dtype;
    bool is_state;
  };

  std::unique_ptr<am::stored::TensorSource> source;
  std::string format;
  std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, int64_t> index_of;

  explicit am_checkpoint(const char* path) : source(am::frameworks::open_tensor_source(path)) {
    format = source->format();
    for (const am::stored::StoredProblem& problem : source->damage()) {
      throw Error(ErrorKind::kFormat, am::cat(path, ": ", problem.where, " ", problem.what));
    }
    for (const bool is_state : {false, true}) {
      for (const auto& stored : is_state ? source->optimizer_tensors() : source->tensors()) {
        if (!am::is_utf8(stored.name)) {
          throw Error(ErrorKind::kFormat, am::cat(path, ": the name of a tensor is not UTF-8"));
        }
        index_of.emplace(stored.name, static_cast<int64_t>(tensors.size()));
        tensors.push_back({&stored, am::formats::torch_name(stored.dtype), is_state});
      }
    }
  }

  const Tensor& at(int64_t index) const {
    if (index >= 0 && index < std::ssize(tensors)) return tensors[static_cast<size_t>(index)];
    throw Error(ErrorKind::kUsage, am::cat("no tensor has the index ", index,
                                           ": the number of tensors is ", tensors.size()));
  }
};

namespace {

// Returns the box that the arguments of am_checkpoint_read() describe. Throws Error(kUsage) unless
// the box lies inside the tensor.
am::mesh::Box box_of(const am::stored::StoredTensor& tensor, const int64_t* first,
                     const int64_t* count) {
  am::mesh::Box box = am::mesh::Box::whole(tensor.shape);
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    const int64_t size = tensor.shape[dim];
    if (first != nullptr) box.offset[dim] = first[dim];
    const int64_t offset = box.offset[dim];
    const int64_t rest = offset >= 0 && offset <= size ? size - offset : -1;
    box.shape[dim] = count != nullptr ? count[dim] : rest;
    if (rest < 0 || box.shape[dim] < 0 || box.shape[dim] > rest) {
      throw Error(ErrorKind::kUsage,
                  count != nullptr
                      ? am::cat(tensor.name, ": ", count[dim], " elements from index ", offset,
                                " on are not inside of dim ", dim, " of size ", size)
                      : am::cat(tensor.name, ": index ", offset, " is not inside of dim ", dim,
                                " of size ", size));
    }
  }
  return box;
}

// Returns the number of bytes of a box. Throws Error(kUsage) if the number does not fit in 64 bits,
// which is possible with the shape in a damaged header.
size_t bytes_of(const am::stored::StoredTensor& tensor, const am::mesh::Box& box) {
  size_t bytes = static_cast<size_t>(am::formats::dtype_size(tensor.dtype));
  for (const int64_t size : box.shape) {
    if (size == 0) return 0;
  }
  for (const int64_t size : box.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) {
      throw Error(ErrorKind::kUsage,
                  am::cat(tensor.name, ": the box has more bytes than 64 bits can count"));
    }
  }
  return bytes;
}

}  // namespace

am_checkpoint* am_checkpoint_open(const char* path) {
  return guarded<am_checkpoint*>(nullptr, [&] {
    static std::once_flag once;
    std::call_once(once, am::guard_mapped_files);
    return new am_checkpoint(path);
  });
}

void am_checkpoint_close(am_checkpoint* checkpoint) { delete checkpoint; }

const char* am_checkpoint_format(const am_checkpoint* checkpoint) {
  return checkpoint->format.c_str();
}

int64_t am_checkpoint_step(const am_checkpoint* checkpoint) {
  return guarded<int64_t>(-1, [&] { return checkpoint->source->step().value_or(-1); });
}

int64_t am_checkpoint_count(const am_checkpoint* checkpoint) {
  return std::ssize(checkpoint->tensors);
}

int64_t am_checkpoint_find(const am_checkpoint* checkpoint, const char* name) {
  return guarded<int64_t>(-1, [&] {
    const auto found = checkpoint->index_of.find(name);
    if (found != checkpoint->index_of.end()) return found->second;
    throw Error(ErrorKind::kUsage,
                am::cat(checkpoint->source->path().string(), ": no tensor is called ", name));
  });
}

int am_checkpoint_describe(const am_checkpoint* checkpoint, int64_t index,
                           am_checkpoint_tensor* tensor) {
  return guarded(-1, [&] {
    const am_checkpoint::Tensor& one = checkpoint->at(index);
    *tensor = {.name = one.stored->name.c_str(),
               .dtype = one.dtype.c_str(),
               .shape = one.stored->shape.data(),
               .dims = static_cast<int32_t>(one.stored->shape.size()),
               .element_size = static_cast<int32_t>(am::formats::dtype_size(one.stored->dtype)),
               .is_state = one.is_state ? 1 : 0};
    return 0;
  });
}

int am_checkpoint_read(const am_checkpoint* checkpoint, int64_t index, const int64_t* first,
                       const int64_t* count, void* values, size_t bytes) {
  return guarded(-1, [&] {
    const am::stored::StoredTensor& tensor = *checkpoint->at(index).stored;
    const am::mesh::Box box = box_of(tensor, first, count);
    const size_t needed = bytes_of(tensor, box);
    if (bytes != needed) {
      throw Error(ErrorKind::kUsage, am::cat(tensor.name, ": `values` has ", bytes,
                                             " bytes, but the box has ", needed));
    }
    if (needed == 0) return 0;
    checkpoint->source->read(
        tensor.name, box, {static_cast<std::byte*>(values), am::stored::dense_strides(box.shape)});
    return 0;
  });
}

const char* am_checkpoint_error(void) { return t_error.c_str(); }
