#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "testing/fake_gpu/extension.h"
#include "testing/fake_gpu/memory/dma_buf.h"
#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {
namespace {

template <class T>
T AttributeOf(CUpointer_attribute attribute, CUdeviceptr pointer) {
  T value{};
  EXPECT_EQ(cuPointerGetAttribute(&value, attribute, pointer), CUDA_SUCCESS);
  return value;
}

TEST_F(Driver, PointersTellWhatTheyPointTo) {
  const auto pointer = Allocate(1000);
  EXPECT_EQ(pointer % 256, 0U);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 999), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(AttributeOf<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer), 0);
  EXPECT_EQ(AttributeOf<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 10), pointer);
  EXPECT_EQ(AttributeOf<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 10), 1000U);
  const auto id = AttributeOf<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 64, 0), CUDA_SUCCESS);
  const auto pinned_pointer = reinterpret_cast<CUdeviceptr>(pinned);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned_pointer), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(AttributeOf<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pinned_pointer), pinned);
  EXPECT_NE(AttributeOf<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, pinned_pointer), id);
  ASSERT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, OrdinaryMemoryIsUnknownUntilRegistered) {
  std::vector<char> memory(100);
  const auto pointer = reinterpret_cast<CUdeviceptr>(memory.data());
  unsigned type = 7;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  EXPECT_EQ(cuPointerGetAttributes(1, &attribute, &value, pointer), CUDA_SUCCESS);
  EXPECT_EQ(type, 0U);
  ASSERT_EQ(cuMemHostRegister(memory.data(), memory.size(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(memory.data() + 50, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(Driver, CopiesGoBothWaysAndStayInside) {
  std::vector<int> source(100), back(100);
  std::iota(source.begin(), source.end(), 1);
  const std::size_t bytes = source.size() * sizeof(int);
  const auto pointer = Allocate(bytes);
  const auto other = Allocate(bytes);
  EXPECT_NE(*As<unsigned char>(pointer), 0);  // fresh memory is not zero
  const auto stream = NewStream();
  EXPECT_EQ(cuMemcpyHtoDAsync(pointer, source.data(), bytes, stream), CUDA_SUCCESS);
  std::fill(source.begin(), source.end(), 0);  // pageable: the call has already read it
  EXPECT_EQ(cuMemcpyDtoDAsync(other, pointer, bytes, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoHAsync(back.data(), other, bytes, stream), CUDA_SUCCESS);
  EXPECT_EQ(back[99], 100);
  EXPECT_EQ(cuMemcpyDtoH(back.data(), pointer, bytes + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(back.data()), source.data(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(pointer, 7, source.size(), stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(pointer, 7, source.size() + 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(As<int>(pointer)[99], 7);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
}

TEST_F(Driver, MemoryRunsOut) {
  CUdeviceptr pointer = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&pointer, free + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

constexpr const char* kPipes = "TUTTI_FAKE_GPU_TEST_PIPES";  // a child's: to read from and to write to

void OpenDeviceZero() {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

// The other process of the test below.
TEST(Ipc, DISABLED_Child) {
  std::istringstream pipes(std::getenv(kPipes));
  int in = -1;
  int out = -1;
  pipes >> in >> out;
  OpenDeviceZero();
  CUipcMemHandle handle{};
  ASSERT_EQ(read(in, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  CUdeviceptr pointer = 0;
  CUdeviceptr again = 0;
  ASSERT_EQ(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  EXPECT_EQ(pointer, again);
  EXPECT_EQ(AttributeOf<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(As<int>(pointer)[10], 42);
  As<int>(pointer)[11] = 43;
  EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
  char freed = 0;
  ASSERT_EQ(write(out, "x", 1), 1);
  ASSERT_EQ(read(in, &freed, 1), 1);
  EXPECT_NE(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
}

TEST(Ipc, AnotherProcessSeesTheSameMemory) {
  std::array<int, 2> to_child{}, to_parent{};
  ASSERT_EQ(pipe(to_child.data()), 0);
  ASSERT_EQ(pipe(to_parent.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv(kPipes, (std::to_string(to_child[0]) + " " + std::to_string(to_parent[1])).c_str(), 1);
    close(to_child[1]);
    execl("/proc/self/exe", "child", "--gtest_filter=Ipc.DISABLED_Child", "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  close(to_child[0]);
  close(to_parent[1]);
  OpenDeviceZero();
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cuMemAlloc(&pointer, 4096), CUDA_SUCCESS);
  As<int>(pointer)[10] = 42;
  CUipcMemHandle handle{};
  ASSERT_EQ(cuIpcGetMemHandle(&handle, pointer + 8), CUDA_SUCCESS);
  CUdeviceptr own = 0;
  EXPECT_EQ(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(write(to_child[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  char done = 0;
  EXPECT_EQ(read(to_parent[0], &done, 1), 1);
  EXPECT_EQ(As<int>(pointer)[11], 43);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  EXPECT_EQ(write(to_child[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  close(to_child[1]);
  close(to_parent[0]);
}

TEST_F(Driver, AForkedChildMustNotUseIt) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As PyTorch's allocator does with expandable segments.
class Pieces : public Driver {
 protected:
  static constexpr std::size_t kPiece = std::size_t{2} << 20;
  static constexpr std::size_t kReserved = std::size_t{4} << 30;  // more than a multicast object has

  void SetUp() override {
    Driver::SetUp();
    std::size_t granularity = 0;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
              CUDA_SUCCESS);
    ASSERT_EQ(kPiece % granularity, 0U);
    ASSERT_EQ(cuMemAddressReserve(&base_, kReserved, 0, 0, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemAddressFree(base_, kReserved), CUDA_SUCCESS);
    Driver::TearDown();
  }
  void Map(std::size_t piece) {
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(cuMemCreate(&handle, kPiece, &properties_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(base_ + piece * kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(SetAccess(piece, 1), CUDA_SUCCESS);
  }
  CUresult SetAccess(std::size_t first, std::size_t pieces,
                     CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) const {
    const CUmemAccessDesc access{properties_.location, flags};
    return cuMemSetAccess(base_ + first * kPiece, pieces * kPiece, &access, 1);
  }
  void Unmap(std::size_t piece) { EXPECT_EQ(cuMemUnmap(base_ + piece * kPiece, kPiece), CUDA_SUCCESS); }

  CUmemAllocationProp properties_{};
  CUdeviceptr base_ = 0;
};

TEST_F(Pieces, ThatFollowEachOtherAreCopiedAsOne) {
  Map(0);
  Map(1);
  const CUdeviceptr across = base_ + kPiece - 4;
  const std::array<unsigned, 2> values{3, 5};
  EXPECT_EQ(cuMemcpyHtoD(across, values.data(), sizeof values), CUDA_SUCCESS);
  std::array<unsigned, 2> back{};
  EXPECT_EQ(cuMemcpyDtoH(back.data(), across, sizeof back), CUDA_SUCCESS);
  EXPECT_EQ(back, values);
  Unmap(1);
  EXPECT_EQ(cuMemcpyDtoH(back.data(), across, sizeof back), CUDA_ERROR_INVALID_VALUE);
  Map(1);  // its addresses have stayed reserved
  EXPECT_EQ(cuMemcpyDtoH(back.data(), across, sizeof back), CUDA_SUCCESS);
  EXPECT_EQ(back[0], values[0]);
  Unmap(0);
  Unmap(1);
}

using PiecesDeathTest = Pieces;

TEST_F(PiecesDeathTest, AreNobodysUntilAccessIsSet) {
  Map(0);
  Map(1);
  unsigned value = 3;
  EXPECT_EQ(SetAccess(0, 2, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(base_, &value, sizeof value), CUDA_ERROR_INVALID_VALUE);
  EXPECT_DEATH(*As<unsigned>(base_) = 1, "");
  EXPECT_EQ(SetAccess(0, 2), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(base_ + kPiece, &value, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(SetAccess(0, 3), CUDA_ERROR_INVALID_VALUE) << "nothing is mapped to the third";
  EXPECT_EQ(SetAccess(2, 1), CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc half{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  EXPECT_EQ(cuMemSetAccess(base_, kPiece / 2, &half, 1), CUDA_ERROR_INVALID_VALUE);
  Unmap(0);
  Unmap(1);
}

TEST_F(Pieces, HaveHandlesAgain) {
  Map(0);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(base_ + 8)), CUDA_SUCCESS);
  CUmemAllocationProp properties{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
  EXPECT_EQ(properties.location.id, 0);
  ASSERT_EQ(cuMemMap(base_ + kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);  // the same memory
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(SetAccess(1, 1), CUDA_SUCCESS);
  const auto stream = NewStream();
  EXPECT_EQ(cuStreamWriteValue32(stream, base_, 17, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(*As<unsigned>(base_ + kPiece), 17U);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  Unmap(0);
  Unmap(1);
}

TEST_F(Pieces, AreSharedByDescriptorIfTheirMakerAskedForThat) {
  CUmemGenericAllocationHandle handle = 0;
  int file = -1;
  ASSERT_EQ(cuMemCreate(&handle, kPiece, &properties_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  Map(0);
  ASSERT_EQ(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(base_)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  void* const number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(file));
  ASSERT_EQ(cuMemImportFromShareableHandle(&handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_SUCCESS);
  close(file);
  ASSERT_EQ(cuMemMap(base_ + kPiece, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  const std::array<CUmemAccessDesc, 2> accesses{{{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                                 {properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}}};
  EXPECT_EQ(cuMemSetAccess(base_ + kPiece, kPiece, accesses.data(), accesses.size()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemSetAccess(base_, 0, accesses.data(), accesses.size()), CUDA_ERROR_INVALID_VALUE);
  *As<unsigned>(base_) = 17;
  EXPECT_EQ(*As<unsigned>(base_ + kPiece), 17U);
  Unmap(0);
  Unmap(1);
}

// What a file for NICs names is the range, whatever pieces it lies in.
TEST_F(Pieces, HaveAFileForNics) {
  Map(0);
  Map(1);
  constexpr std::size_t kPage = 4096;
  const CUdeviceptr begin = base_ + kPiece - kPage;
  int file = -1;
  const auto ask = [&](CUdeviceptr pointer, std::size_t bytes) {
    return cuMemGetHandleForAddressRange(&file, pointer, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  };
  EXPECT_EQ(ask(begin + 8, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ask(begin, kPage + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ask(begin, kPiece + 2 * kPage), CUDA_ERROR_INVALID_VALUE) << "nothing is mapped behind the second";
  ASSERT_EQ(ask(begin, 3 * kPage), CUDA_SUCCESS);
  std::array<DmaBufPiece, 3> named;
  ASSERT_EQ(pread(file, named.data(), sizeof named, 0), static_cast<ssize_t>(2 * sizeof named[0]));
  close(file);
  EXPECT_EQ(named[0].bytes, kPage);
  EXPECT_EQ(named[1].bytes, 2 * kPage);
  constexpr unsigned kLast = 29;
  *As<unsigned>(begin + 3 * kPage - sizeof kLast) = kLast;
  unsigned value = 0;
  const auto last = static_cast<off_t>(named[1].offset + named[1].bytes - sizeof value);
  ASSERT_EQ(pread(static_cast<int>(named[1].file), &value, sizeof value, last), static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, kLast);

  int ordered = -1;
  EXPECT_EQ(cuDeviceGetAttribute(&ordered, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0), CUDA_SUCCESS);
  EXPECT_EQ(ordered, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
  Unmap(0);
  Unmap(1);
}

}  // namespace
}  // namespace tutti::fake_gpu
