#include "interop/pmpi/datatypes.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "base/numbers/datatype.h"
#include "interop/pmpi/constants.h"
#include "interop/pmpi/handle_cache.h"

namespace tutti::pmpi {
namespace {

// A type's order is found by packing one element, unless it is longer than this: then by how it is built.
constexpr std::size_t kLongestProbe = 16 << 20;
constexpr std::size_t kLongestPack = INT_MAX;  // MPI_Pack counts bytes in an int

Epoch freed_types;

// Whether packing one element of this compact type leaves its bytes as they are. Each pass tests one byte of every
// position's number, so a type that exchanges two positions differs in some pass.
bool KeepsOrder(const Below& mpi, Datatype type) {
  type.dense = false;
  std::vector<std::byte> element(type.bytes);
  for (std::size_t shift = 0; (type.bytes - 1) >> shift != 0; shift += CHAR_BIT) {
    for (std::size_t i = 0; i < type.bytes; ++i) element[i] = static_cast<std::byte>(i >> shift);
    const Outgoing packed(mpi, TheConstants().comm_self, element.data(), 1, type);
    if (std::memcmp(packed.data(), element.data(), type.bytes) != 0) return false;
  }
  return true;
}

// The named types that programs use most, by hash; every other type is kept as an attribute of its own.
class NamedTypes {
 public:
  explicit NamedTypes(const Below& mpi) {
    const auto& named = TheConstants().types;
    types_.reserve(named.size());
    for (const auto& [handle, type, complex] : named) {
      auto described = Describe(mpi, handle);
      if (!described) continue;
      described->dense = described->dense || described->compact;
      // Fortran's types may be longer than usual.
      if (type && described->bytes == SizeOf(*type) * (complex ? 2 : 1)) described->arithmetic = {*type, complex};
      types_.push_back(*described);
    }
    for (const auto& type : types_) {
      auto place = HashOf(type.handle) % kPlaces;
      while (places_[place] != nullptr) place = (place + 1) % kPlaces;
      places_[place] = &type;
    }
  }
  const Datatype* Find(MPI_Datatype handle) const {
    for (auto place = HashOf(handle) % kPlaces; places_[place] != nullptr; place = (place + 1) % kPlaces) {
      if (places_[place]->handle == handle) return places_[place];
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kPlaces = 256;  // several times the types, so that chains are short
  std::vector<Datatype> types_;
  std::array<const Datatype*, kPlaces> places_{};
};

int ForgetType(MPI_Datatype, int, void* kept, void*) {
  freed_types.Next();
  delete static_cast<Datatype*>(kept);
  return MPI_SUCCESS;
}

int CopyNoType(MPI_Datatype, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int TypeKey(const Below& mpi) {
  static const int key = [&] {
    int made = MPI_KEYVAL_INVALID;
    mpi.Type_create_keyval(CopyNoType, ForgetType, &made, nullptr);
    return made;
  }();
  return key;
}

const Datatype* OtherDatatype(const Below& mpi, MPI_Datatype handle) {
  static std::mutex making;  // two threads may meet a new type at the same time
  const std::lock_guard lock(making);
  void* kept = nullptr;
  int found = 0;
  if (mpi.Type_get_attr(handle, TypeKey(mpi), &kept, &found) != MPI_SUCCESS) return nullptr;
  if (found != 0) return static_cast<Datatype*>(kept);
  const auto described = Describe(mpi, handle);
  if (!described) return nullptr;
  auto made = std::make_unique<Datatype>(*described);
  if (made->bytes > kLongestProbe) {
    auto map = TypeMapOf(mpi, handle);
    made->dense = map != nullptr && map->dense;
    if (!made->dense && made->bytes > kLongestPack) made->map = std::move(map);
  } else if (!made->dense) {
    made->dense = made->compact && KeepsOrder(mpi, *made);
  }
  if (mpi.Type_set_attr(handle, TypeKey(mpi), made.get()) != MPI_SUCCESS) return nullptr;
  return made.release();  // ForgetType deletes it
}

// Calls part(element, count, bytes) for runs of elements that fit MPI's int. Throws if one element does not.
// REQUIRES: the type is not dense.
template <typename Part>
void InParts(std::size_t count, const Datatype& type, Part&& part) {
  if (type.bytes > kLongestPack) {
    throw std::runtime_error(
        "an element of the datatype has more than 2 GiB of data, not in a row, and MPI does not tell where they lie");
  }
  const auto most = kLongestPack / type.bytes;
  for (std::size_t at = 0; at < count; at += most) {
    const auto elements = std::min(most, count - at);
    part(static_cast<std::ptrdiff_t>(at) * type.extent, static_cast<int>(elements), at * type.bytes,
         static_cast<int>(elements * type.bytes));
  }
}

// Calls copy(in the elements, in the packed bytes, bytes) for all data of a type that MPI_Pack cannot take.
template <typename Copy>
void ByTheMap(std::size_t count, const Datatype& type, const Copy& copy) {
  std::size_t packed = 0;
  ForEachRow(*type.map, count, 0, [&](std::ptrdiff_t at, std::size_t bytes) {
    copy(at, packed, bytes);
    packed += bytes;
  });
}

void RequirePlain(int result, int position, int bytes) {
  if (result == MPI_SUCCESS && position == bytes) return;
  throw std::runtime_error("MPI cannot pack the datatype into as many bytes as it has");
}

}  // namespace

std::optional<Datatype> Describe(const Below& mpi, MPI_Datatype handle) {
  MPI_Count bytes = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (mpi.Type_size_x(handle, &bytes) != MPI_SUCCESS || bytes == MPI_UNDEFINED ||
      mpi.Type_get_extent_x(handle, &lower, &extent) != MPI_SUCCESS ||
      mpi.Type_get_true_extent_x(handle, &true_lower, &true_extent) != MPI_SUCCESS) {
    return std::nullopt;
  }
  const bool compact = lower == 0 && true_lower == 0 && extent == bytes && true_extent == bytes;
  return Datatype{handle, static_cast<std::size_t>(bytes), static_cast<std::ptrdiff_t>(extent), compact, bytes == 0, {},
                  {}};
}

const Datatype* DatatypeOf(const Below& mpi, MPI_Datatype handle) {
  static const NamedTypes named(mpi);
  if (const auto* const found = named.Find(handle)) [[likely]]
    return found;
  if (handle == TheConstants().type_null) return nullptr;
  thread_local HandleCache<MPI_Datatype, const Datatype> latest;
  if (const auto* const found = latest.Find(handle, freed_types)) return found;
  const auto epoch = freed_types.now();
  const auto* const found = OtherDatatype(mpi, handle);
  if (found != nullptr) latest.Keep(handle, found, epoch);
  return found;
}

void Pack(const Below& mpi, MPI_Comm comm, const void* data, std::size_t count, const Datatype& type,
          std::byte* bytes) {
  if (type.dense) {
    std::memcpy(bytes, data, count * type.bytes);
    return;
  }
  if (type.map != nullptr) {
    const auto* const elements = static_cast<const std::byte*>(data);
    return ByTheMap(count, type, [&](std::ptrdiff_t from, std::size_t to, std::size_t length) {
      std::memcpy(bytes + to, elements + from, length);
    });
  }
  InParts(count, type, [&](std::ptrdiff_t from, int elements, std::size_t to, int length) {
    int position = 0;
    const auto result = mpi.Pack(static_cast<const std::byte*>(data) + from, elements, type.handle, bytes + to, length,
                                 &position, comm);
    RequirePlain(result, position, length);
  });
}

void Unpack(const Below& mpi, MPI_Comm comm, const std::byte* bytes, void* data, std::size_t count,
            const Datatype& type) {
  if (type.dense) {
    std::memcpy(data, bytes, count * type.bytes);
    return;
  }
  if (type.map != nullptr) {
    auto* const elements = static_cast<std::byte*>(data);
    return ByTheMap(count, type, [&](std::ptrdiff_t to, std::size_t from, std::size_t length) {
      std::memcpy(elements + to, bytes + from, length);
    });
  }
  InParts(count, type, [&](std::ptrdiff_t to, int elements, std::size_t from, int length) {
    int position = 0;
    const auto result =
        mpi.Unpack(bytes + from, length, &position, static_cast<std::byte*>(data) + to, elements, type.handle, comm);
    RequirePlain(result, position, length);
  });
}

Outgoing::Outgoing(const Below& mpi, MPI_Comm comm, const void* data, std::size_t count, const Datatype& type)
    : data_(static_cast<const std::byte*>(data)) {
  if (count == 0 || type.dense) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(count * type.bytes);
  Pack(mpi, comm, data, count, type, copy_.get());
  data_ = copy_.get();
}

Incoming::Incoming(const Below& mpi, MPI_Comm comm, void* data, std::size_t count, const Datatype& type)
    : mpi_(mpi), comm_(comm), data_(data), count_(count), type_(type), arrive_(static_cast<std::byte*>(data)) {
  if (count == 0 || type.dense) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(count * type.bytes);
  arrive_ = copy_.get();
}

tuttiResult_t Incoming::Deliver(tuttiResult_t result) const {
  if (copy_ && result == tuttiSuccess) Unpack(mpi_, comm_, copy_.get(), data_, count_, type_);
  return result;
}

}  // namespace tutti::pmpi
