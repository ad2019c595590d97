// Records the kernels and copies that a program runs on its GPU. The CUDA driver loads this library into any program:
//
//   CUDA_INJECTION64_PATH=kernel_times.so AM_KERNEL_TIMES=/tmp/times am-run plan.toml
//
// Each process writes /tmp/times.PID: a line `start end stream name` for each kernel, copy and memset. Times are in
// nanoseconds of the device's clock. scripts/gpu/kernel_times.py adds up these lines. The records come from CUPTI's
// activity API.
#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

namespace {

constexpr size_t kBufferBytes = 8 << 20;
FILE* lines = nullptr;

const char* readable(const char* name) {
  static auto* known = new std::unordered_map<std::string, std::string>;  // lives until the process ends
  const auto [entry, is_new] = known->try_emplace(name);
  if (is_new) {
    char* plain = abi::__cxa_demangle(name, nullptr, nullptr, nullptr);
    entry->second = plain != nullptr ? plain : name;
    std::free(plain);
  }
  return entry->second.c_str();
}

template<typename Record> void write(const CUpti_Activity* activity, const char* name) {
  const auto* record = reinterpret_cast<const Record*>(activity);
  std::fprintf(lines, "%llu %llu %u %s\n", static_cast<unsigned long long>(record->start),
               static_cast<unsigned long long>(record->end), record->streamId, name);
}

const char* copy_name(const CUpti_Activity* activity) {
  switch (reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity)->copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy from host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy on the device";
    default: return "copy";
  }
}

void CUPTIAPI provide(uint8_t** buffer, size_t* bytes, size_t* records) {
  *bytes = kBufferBytes;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *records = 0;
}

// CUPTI calls this function from its own threads, never from two threads at once.
void CUPTIAPI consume(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*bytes*/, size_t valid) {
  CUpti_Activity* one = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &one) == CUPTI_SUCCESS) {
    if (one->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      write<CUpti_ActivityMemcpy6>(one, copy_name(one));
    } else if (one->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      write<CUpti_ActivityMemset4>(one, "memset");
    } else if (one->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      write<CUpti_ActivityKernel10>(one, readable(reinterpret_cast<const CUpti_ActivityKernel10*>(one)->name));
    }
  }
  std::fflush(lines);
  std::free(buffer);
}

void finish() { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("AM_KERNEL_TIMES");
  if (path == nullptr) return 1;
  lines = std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
  if (lines == nullptr) return 1;
  cuptiActivityRegisterCallbacks(provide, consume);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  cuptiActivityFlushPeriod(500);  // milliseconds
  std::atexit(finish);
  return 1;
}
