// A fake NVML library that reports two GPUs. The second GPU has less total and less free memory.
#include <cstdio>

extern "C" {

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int status) { return status == 2 ? "Invalid Argument" : "?"; }

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "550.54.15");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int devices[2] = {0, 1};
  if (index > 1) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::snprintf(name, length, "Test GPU %d", *static_cast<int*>(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const bool second = *static_cast<int*>(device) == 1;
  memory->total = second ? 40ULL << 30 : 80ULL << 30;
  memory->free = second ? 1ULL << 30 : 79ULL << 30;
  memory->used = memory->total - memory->free;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
}
