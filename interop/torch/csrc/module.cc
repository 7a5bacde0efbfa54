// The Python module tutti_torch._C: makes backends for torch.distributed, where tutti_torch/__init__.py registers it.
#include <torch/csrc/utils/pybind.h>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/devices.h"
#if TUTTI_TORCH_CUDA
#include "interop/torch/csrc/cuda/native_stream.h"
#endif

namespace tutti::pytorch {
namespace {

c10::intrusive_ptr<BackendBase> Create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                       double timeout_seconds, const std::string& name,
                                       const std::vector<std::int64_t>& global_ranks) {
  GroupIdentity identity;
  identity.name = name;
  identity.rank = rank;
  identity.ranks = ranks;
  identity.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  identity.global_ranks = global_ranks;
  return c10::make_intrusive<Backend>(store, std::move(identity));
}

std::string LibraryVersion() {
  int version = 0;
  tuttiGetVersion(&version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// For devices of other vendors that stand in for CUDA's (tests/): `native_stream` is the address of a NativeStream.
void TakeDevicesOf(const std::string& type, std::uintptr_t native_stream) {
  TakeDevices(c10::Device(type).type(), reinterpret_cast<NativeStream>(native_stream));
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "The c10d backend tutti";
  module.def("create", &Create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout_seconds"),
             py::arg("name"), py::arg("global_ranks"), py::call_guard<py::gil_scoped_release>());
  module.def("library_version", &LibraryVersion);
  module.def("take_devices_of", &TakeDevicesOf, py::arg("type"), py::arg("native_stream"));
#if TUTTI_TORCH_CUDA
  TakeDevices(c10::kCUDA, &CudaNativeStream);
#endif
  module.attr("has_cuda") = NativeStreamOf(c10::kCUDA) != nullptr;
  module.attr("torch_version") = TORCH_VERSION;  // the version it was built against
}

}  // namespace tutti::pytorch
