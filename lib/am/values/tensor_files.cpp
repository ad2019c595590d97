#include "am/values/tensor_files.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/checkpoint/block_buffer.h"
#include "am/formats/safetensors.h"
#include "am/tensor/dtype.h"
#include "am/values/parameter_view.h"

namespace am::values {
namespace {

namespace fs = std::filesystem;
using inspect::Picked;
using inspect::Session;

at::Tensor values_of_picked(Session& session, const Picked& picked) {
  return values_of(session)
      .read(*picked.parameter, picked.selection.box)
      .reshape(picked.selection.shape)
      .cpu()
      .contiguous();
}

// Returns numpy's name of a dtype, for example "<f4"; nothing if numpy does not have the dtype.
std::optional<std::string> numpy_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return "|b1";
    case at::kByte:
      return "|u1";
    case at::kChar:
      return "|i1";
    case at::kUInt16:
      return "<u2";
    case at::kUInt32:
      return "<u4";
    case at::kUInt64:
      return "<u8";
    case at::kShort:
      return "<i2";
    case at::kInt:
      return "<i4";
    case at::kLong:
      return "<i8";
    case at::kHalf:
      return "<f2";
    case at::kFloat:
      return "<f4";
    case at::kDouble:
      return "<f8";
    case at::kComplexFloat:
      return "<c8";
    case at::kComplexDouble:
      return "<c16";
    default:
      return std::nullopt;
  }
}

// Returns the bytes of a .npy file: a magic number, version 1.0, the length of the header, the
// header, and the values in C order. The header is a Python dict. Spaces extend it so that the
// values begin at a multiple of 64 bytes.
std::string npy_of(at::Tensor values) {
  auto dtype = numpy_name(values.scalar_type());
  if (!dtype) {
    if (!at::isFloatingType(values.scalar_type())) {
      throw Error(ErrorKind::kUsage,
                  cat("numpy has no dtype ", tensor::dtype_name(values.scalar_type())),
                  "write it to FILE.safetensors");
    }
    values = values.to(at::kFloat);
    dtype = "<f4";
  }
  std::string shape;
  for (const int64_t size : values.sizes()) shape += cat(size, ", ");
  std::string header =
      cat("{'descr': '", *dtype, "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr size_t kPreamble = 10;
  constexpr size_t kAlignment = 64;
  while ((kPreamble + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const auto bytes = checkpoint::bytes_of(values);
  file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return file;
}

// Calls `act` on rank 0. If `act` throws, throws on every rank. Collective.
void on_first_rank(Session& session, const std::function<void()>& act) {
  values_of(session).run_on_all_or_fail([&] {
    if (session.view().rank() == 0) act();
  });
}

void write_safetensors(Session& session, const std::vector<Picked>& tensors, const fs::path& path) {
  const fs::path partial = cat(path.string(), ".partial-", ::getpid());
  std::optional<formats::SafetensorsWriter> writer;
  try {
    on_first_rank(session, [&] {
      std::vector<formats::SafetensorsItem> items;
      for (const Picked& picked : tensors) {
        items.push_back({picked.label, formats::safetensors_name(picked.parameter->dtype),
                         picked.selection.shape});
      }
      writer.emplace(partial, items, std::map<std::string, std::string>{});
    });
    for (const Picked& picked : tensors) {
      session.check_interrupt();
      const at::Tensor values = values_of_picked(session, picked);
      on_first_rank(session, [&] { writer->write(checkpoint::bytes_of(values)); });
    }
    on_first_rank(session, [&] {
      writer->close();
      fs::rename(partial, path);
    });
  } catch (...) {
    std::error_code ignored;
    if (session.view().rank() == 0) fs::remove(partial, ignored);
    throw;
  }
}

}  // namespace

void write_tensors(Session& session, const std::vector<Picked>& tensors, const fs::path& path) {
  const at::NoGradGuard no_grad;
  const bool is_npy = path.extension() == ".npy";
  if (!is_npy && path.extension() != ".safetensors") {
    throw Error(ErrorKind::kUsage,
                cat(path.string(), ": the name must end in .npy or .safetensors"));
  }
  if (is_npy && tensors.size() != 1) {
    throw Error(ErrorKind::kUsage,
                cat("a .npy file has one tensor, but ", tensors.size(), " are named"),
                "FILE.safetensors takes several");
  }
  if (!is_npy) return write_safetensors(session, tensors, path);
  const at::Tensor values = values_of_picked(session, tensors.front());
  on_first_rank(session, [&] { write_file_atomically(path, npy_of(values)); });
}

inspect::Result written_tensors(Session& session, const std::vector<Picked>& tensors,
                                const std::string& file, bool forced) {
  fs::path path = session.path(file);
  on_first_rank(session, [&] {
    require_free_path(path, forced);
    if (fs::exists(path) && !fs::is_regular_file(path)) {
      throw Error(ErrorKind::kUsage, cat(path.string(), ": not a regular file"));
    }
    if (fs::is_symlink(path)) path = fs::canonical(path);
  });
  write_tensors(session, tensors, path);
  inspect::Result result;
  result.json = {{"path", path.string()}, {"tensors", Json::array()}};
  for (const Picked& picked : tensors) result.json["tensors"].push_back(picked.label);
  result.text = cat("wrote ", path.string(), ": ", tensors.size(),
                    tensors.size() == 1 ? " tensor\n" : " tensors\n");
  return result;
}

}  // namespace am::values
