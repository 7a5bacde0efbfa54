// The Python module tutti_torch._C_*, one for each PyTorch (python/tutti_torch/_builds.py): makes backends for
// torch.distributed, where tutti_torch/__init__.py registers it.
#include <torch/csrc/utils/pybind.h>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/devices.h"
#include "interop/torch/csrc/invalid_argument.h"

namespace tutti::pytorch {
namespace {

c10::intrusive_ptr<BackendBase> Create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int ranks,
                                       double timeout_seconds, const std::string& name,
                                       const std::vector<std::int64_t>& global_ranks, bool enable_reconfigure) {
  GroupIdentity identity;
  identity.name = name;
  identity.rank = rank;
  identity.ranks = ranks;
  identity.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  identity.global_ranks = global_ranks;
  return c10::make_intrusive<Backend>(store, std::move(identity), enable_reconfigure);
}

std::string LibraryVersion() {
  int version = 0;
  tuttiGetVersion(&version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// For CUDA (cuda/module.cc), and for devices that stand in for it (tests/): `native_stream` is the address of a
// NativeStream.
void TakeDevicesOf(const std::string& type, std::uintptr_t native_stream) {
  TakeDevices(c10::Device(type).type(), reinterpret_cast<NativeStream>(native_stream));
}

// Creates tutti_torch.InvalidArgument. PyTorch's own translation would make a ValueError of it.
py::object RegisterInvalidArgument() {
  const auto bases = py::make_tuple(py::handle(PyExc_ValueError), py::handle(PyExc_RuntimeError));
  static PyObject* const type = PyErr_NewExceptionWithDoc(
      "tutti_torch.InvalidArgument", "A call that was refused before anything was sent.", bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const InvalidArgument& refusal) {
      PyErr_SetString(type, refusal.what_without_backtrace());
    }
  });
  return py::reinterpret_borrow<py::object>(type);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "The c10d backend tutti";
  module.def("create", &Create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout_seconds"),
             py::arg("name"), py::arg("global_ranks"), py::arg("enable_reconfigure") = false,
             py::call_guard<py::gil_scoped_release>());
  module.attr("InvalidArgument") = RegisterInvalidArgument();
  module.def("library_version", &LibraryVersion);
  module.def("take_devices_of", &TakeDevicesOf, py::arg("type"), py::arg("native_stream"));
}

}  // namespace tutti::pytorch
