// A PyTorch device over CUDA's driver, for tests without a GPU. With testing/fake_gpu as the driver, its memory is the
// host's, its streams are threads, and it cannot be mistaken for a real GPU. It uses PyTorch's PrivateUse1 and provides
// what a backend of torch.distributed needs: an allocator that caches as CUDA's does, streams, events, copies. All
// other operators run on the CPU.
//
// It does not touch the driver before the first tensor, so that a process may still fork after loading this.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda.h>
#include <torch/extension.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

void Must(CUresult result) {
  const char* name = "?";
  if (result != CUDA_SUCCESS) cuGetErrorName(result, &name);
  TORCH_CHECK(result == CUDA_SUCCESS, "the driver says ", name);
}

const std::vector<CUcontext>& Contexts() {
  static const auto contexts = [] {
    Must(cuInit(0));
    int count = 0;
    Must(cuDeviceGetCount(&count));
    std::vector<CUcontext> all(static_cast<std::size_t>(count));
    for (int device = 0; device < count; ++device) {
      Must(cuDevicePrimaryCtxRetain(&all[static_cast<std::size_t>(device)], device));
    }
    return all;
  }();
  return contexts;
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::map<c10::DeviceIndex, c10::StreamId> current_streams;

void Enter(c10::DeviceIndex device) { Must(cuCtxSetCurrent(Contexts().at(static_cast<std::size_t>(device)))); }

std::mutex streams_mutex;
std::vector<CUstream> streams{nullptr};  // by id; 0 is the default stream

CUstream StreamOf(c10::StreamId id) {
  const std::lock_guard lock(streams_mutex);
  return streams.at(static_cast<std::size_t>(id));
}

c10::Stream CurrentStream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), current_streams[device]);
}

CUstream CurrentHandle(c10::DeviceIndex device) { return StreamOf(CurrentStream(device).id()); }

// Like CUDA's: memory is reused for allocations on the same stream, and if other streams were recorded, only after they
// have finished the work that they had when it was freed.
class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    Enter(current_device);
    const c10::Device device(kType, current_device);
    if (bytes == 0) return {nullptr, nullptr, &Free, device};
    const std::lock_guard lock(mutex_);
    Key key{current_device, current_streams[current_device], bytes};
    auto& free = free_[key];
    for (auto block = free.begin(); block != free.end(); ++block) {
      if (!IsFree(*block)) continue;
      void* const memory = block->memory;
      free.erase(block);
      used_[memory] = {key, {}};
      return {memory, memory, &Free, device};
    }
    CUdeviceptr memory = 0;
    Must(cuMemAlloc(&memory, bytes));
    auto* const pointer = reinterpret_cast<void*>(memory);
    used_[pointer] = {key, {}};
    return {pointer, pointer, &Free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    Must(cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes));
  }

  void Record(void* memory, const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return;
    if (stream.id() != std::get<1>(found->second.key)) found->second.streams.insert(stream.id());
  }

 private:
  using Key = std::tuple<c10::DeviceIndex, c10::StreamId, std::size_t>;
  struct Used {
    Key key;
    std::set<c10::StreamId> streams;
  };
  struct Block {
    void* memory;
    std::vector<CUevent> events;
  };

  static bool IsFree(const Block& block) {
    for (auto* const event : block.events) {
      if (cuEventQuery(event) == CUDA_ERROR_NOT_READY) return false;
    }
    return true;
  }
  static void Free(void* memory);
  void Return(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto used = used_.extract(memory);
    if (used.empty()) return;
    Block block{memory, {}};
    Enter(std::get<0>(used.mapped().key));
    for (const auto id : used.mapped().streams) {
      block.events.emplace_back();
      Must(cuEventCreate(&block.events.back(), CU_EVENT_DISABLE_TIMING));
      Must(cuEventRecord(block.events.back(), StreamOf(id)));
    }
    free_[used.mapped().key].push_back(std::move(block));
  }

  std::mutex mutex_;
  std::map<void*, Used> used_;
  std::map<Key, std::vector<Block>> free_;
};

CachingAllocator& Memory() {
  static auto* const memory = new CachingAllocator();  // tensors may be freed while the process exits
  return *memory;
}

void CachingAllocator::Free(void* memory) { Memory().Return(memory); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override {
    current_device = device.index();
    Enter(current_device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Stream getStream(c10::Device device) const noexcept override { return CurrentStream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    Enter(device.index());
    CUstream stream = nullptr;
    Must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const std::lock_guard lock(streams_mutex);
    streams.push_back(stream);
    return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(streams.size() - 1));
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const auto before = CurrentStream(stream.device_index());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    static_cast<void>(cuEventDestroy(static_cast<CUevent>(event)));
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    Enter(stream.device_index());
    if (*event == nullptr) Must(cuEventCreate(reinterpret_cast<CUevent*>(event), CU_EVENT_DISABLE_TIMING));
    Must(cuEventRecord(static_cast<CUevent>(*event), StreamOf(stream.id())));
  }
  void block(void* event, const c10::Stream& stream) const override {
    Enter(stream.device_index());
    if (event != nullptr) Must(cuStreamWaitEvent(StreamOf(stream.id()), static_cast<CUevent>(event), 0));
  }
  bool queryEvent(void* event) const override {
    Enter(current_device);
    const auto result = cuEventQuery(static_cast<CUevent>(event));
    if (result != CUDA_ERROR_NOT_READY) Must(result);
    return result == CUDA_SUCCESS;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(Contexts().size()); }
  bool queryStream(const c10::Stream& stream) const override {
    Enter(stream.device_index());
    const auto result = cuStreamQuery(StreamOf(stream.id()));
    if (result != CUDA_ERROR_NOT_READY) Must(result);
    return result == CUDA_SUCCESS;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Enter(stream.device_index());
    Must(cuStreamSynchronize(StreamOf(stream.id())));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    Memory().Record(memory.get(), stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

at::Tensor Empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device && device->has_index() ? device : std::nullopt);
  return at::detail::empty_generic(sizes, &Memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                        std::optional<bool> /*pinned*/) {
  const c10::OptionalDeviceGuard guard(device && device->has_index() ? device : std::nullopt);
  return at::detail::empty_strided_generic(
      sizes, strides, &Memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type));
}

// Copies bytes; the CPU converts anything else. Copies within device memory are enqueued, others finish in the call.
at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  if (from.scalar_type() != to.scalar_type() || from.sizes() != to.sizes() || !from.is_contiguous() ||
      !to.is_contiguous()) {
    TORCH_CHECK(from.is_contiguous() || from.is_cpu(), "not contiguous on the device");
    auto converted = at::empty(to.sizes(), to.options().device(at::kCPU));
    converted.copy_(from.cpu());
    TORCH_CHECK(to.is_cpu() || to.is_contiguous(), "not contiguous on the device");
    const_cast<at::Tensor&>(to).copy_(converted);
    return to;
  }
  const auto device = (from.is_cpu() ? to : from).device();
  Enter(device.index());
  auto* const stream = CurrentHandle(device.index());
  const auto address = [](const at::Tensor& tensor) { return reinterpret_cast<CUdeviceptr>(tensor.data_ptr()); };
  if (from.nbytes() == 0) return to;
  if (from.is_cpu()) {
    Must(cuMemcpyHtoDAsync(address(to), from.data_ptr(), from.nbytes(), stream));
  } else if (to.is_cpu()) {
    Must(cuMemcpyDtoHAsync(to.data_ptr(), address(from), from.nbytes(), stream));
  } else {
    Must(cuMemcpyDtoDAsync(address(to), address(from), from.nbytes(), stream));
    return to;
  }
  Must(cuStreamSynchronize(stream));
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) { return CopyFrom(from, to, false); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("_copy_from", &CopyFrom);
  library.impl("_copy_from_and_resize", &CopyFromAndResize);
  library.impl("view", &at::native::view);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
}

void OnTheCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&OnTheCpu>());
}

TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

// Work behind a closed gate on a stream waits until the gate opens.
class Gate {
 public:
  void CloseOn(c10::DeviceIndex device) {
    open_ = false;
    Enter(device);
    Must(cuLaunchHostFunc(
        CurrentHandle(device), [](void* gate) { static_cast<Gate*>(gate)->Pass(); }, this));
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  void Pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};

Gate& TheGate() {
  static auto* const gate = new Gate();
  return *gate;
}

// Work enqueued on the current stream during this object's lifetime becomes a graph, as in torch.cuda.graph.
class Capture {
 public:
  explicit Capture(c10::DeviceIndex device) : device_(device) {
    Enter(device);
    Must(cuStreamBeginCapture(CurrentHandle(device), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  }
  void End() {
    CUgraph graph = nullptr;
    Must(cuStreamEndCapture(CurrentHandle(device_), &graph));
    Must(cuGraphInstantiate(&executable_, graph, 0));
    Must(cuGraphDestroy(graph));
  }
  void Replay() const { Must(cuGraphLaunch(executable_, CurrentHandle(device_))); }

 private:
  const c10::DeviceIndex device_;
  CUgraphExec executable_ = nullptr;
};

void* NativeStream(const c10::Stream& stream) { return StreamOf(stream.id()); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("native_stream", [] { return reinterpret_cast<std::uintptr_t>(&NativeStream); });
  module.def("new_stream", [](c10::DeviceIndex device) {
    return c10::impl::VirtualGuardImpl(kType).getStreamFromGlobalPool({kType, device}).id();
  });
  module.def("current_stream", [](c10::DeviceIndex device) { return CurrentStream(device).id(); });
  module.def("use_stream", [](c10::DeviceIndex device, c10::StreamId stream) { current_streams[device] = stream; });
  module.def("get_device", [] { return current_device; });
  module.def("set_device", [](c10::DeviceIndex device) { Guard().setDevice({kType, device}); });
  module.def(
      "synchronize", [](c10::DeviceIndex device) { Must(cuStreamSynchronize(CurrentHandle(device))); },
      py::call_guard<py::gil_scoped_release>());
  module.def("close_gate", [](c10::DeviceIndex device) { TheGate().CloseOn(device); });
  module.def("open_gate", [] { TheGate().Open(); });
  py::class_<Capture>(module, "Capture")
      .def(py::init<c10::DeviceIndex>())
      .def("end", &Capture::End)
      .def("replay", &Capture::Replay);
}
