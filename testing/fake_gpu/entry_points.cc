// The driver's own function lookup.
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "testing/fake_gpu/call.h"

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

// Returns the newest version of the name in the header that we compile with; ignores the requested version.
CUresult cuGetProcAddress(const char* symbol, void** function, int /*version*/, cuuint64_t /*flags*/,
                          CUdriverProcAddressQueryResult* found) {
  return AnswerUninitialized([&] {
    Dl_info self{};
    Require(dladdr(reinterpret_cast<void*>(&cuInit), &self) != 0, CUDA_ERROR_UNKNOWN);
    void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    Require(library != nullptr, CUDA_ERROR_UNKNOWN);
    *function = nullptr;
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
      *function = dlsym(library, (std::string(symbol) + suffix).c_str());
      if (*function != nullptr) break;
    }
    dlclose(library);
    if (found != nullptr) {
      *found = *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    }
    Require(*function != nullptr, CUDA_ERROR_NOT_FOUND);
  });
}
