// A CUDA runtime for a machine without a GPU. Some network plug-ins want one although they are to carry host memory
// only: they look up the driver's functions when they are initialised. This runtime has an answer for each name: the
// driver's version, and for all others a function that refuses.
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 801;
constexpr int kVersion = 13000;

// Called with whatever arguments the refused function takes, as C's conventions allow.
int Refuse() { return kNotSupported; }

int DriverVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

int Find(const char* symbol, void** function, int* status) {
  *function = std::strcmp(symbol, "cuDriverGetVersion") == 0 ? reinterpret_cast<void*>(&DriverVersion)
                                                             : reinterpret_cast<void*>(&Refuse);
  if (status != nullptr) *status = kSuccess;
  return kSuccess;
}

}  // namespace

extern "C" {

int cudaRuntimeGetVersion(int* version) { return DriverVersion(version); }

int cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long /*flags*/, int* status) {
  return Find(symbol, function, status);
}

int cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                     unsigned long long /*flags*/, int* status) {
  return Find(symbol, function, status);
}

}  // extern "C"
