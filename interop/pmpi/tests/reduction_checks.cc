// Collectives that compute.
#include <algorithm>
#include <complex>
#include <cstdint>

#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

constexpr int kCounts[] = {1, 3, 1000, 4099};
constexpr std::size_t kOdd = 1;  // bytes that a buffer is off its alignment, where it is

// Small numbers, so that sums and products are exact in every type.
template <typename T>
T Contribution(int rank, int i) {
  return static_cast<T>((rank + i) % 3 + 1);
}

enum class Op { sum, product, greatest, least };

template <typename T>
T Combine(Op op, T a, T b) {
  if (op == Op::sum) return static_cast<T>(a + b);
  if (op == Op::product) return static_cast<T>(a * b);
  if constexpr (std::is_arithmetic_v<T>) return op == Op::greatest ? std::max(a, b) : std::min(a, b);
  return a;
}

template <typename T>
T Expected(Op op, int ranks, int i) {
  T all = Contribution<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) all = Combine(op, all, Contribution<T>(rank, i));
  return all;
}

// Elements at an address that is off by `off` bytes.
template <typename T>
class Numbers {
 public:
  Numbers(int count, std::size_t off) : bytes_((static_cast<std::size_t>(count) + 1) * sizeof(T) + off), off_(off) {}
  void* data() { return bytes_.data() + off_; }
  void Set(int i, T value) { std::memcpy(At(i), &value, sizeof value); }
  T Get(int i) {
    T value;
    std::memcpy(&value, At(i), sizeof value);
    return value;
  }

 private:
  char* At(int i) { return bytes_.data() + off_ + static_cast<std::size_t>(i) * sizeof(T); }
  std::vector<char> bytes_;
  std::size_t off_;
};

template <typename T>
struct Reduction {
  MPI_Comm comm;
  int rank, ranks;
  MPI_Datatype type;
  Op op;
  MPI_Op handle;
  std::string name;
  std::size_t off;

  Numbers<T> Mine(int count) const {
    Numbers<T> numbers(count, off);
    for (int i = 0; i < count; ++i) numbers.Set(i, Contribution<T>(rank, i));
    return numbers;
  }
  // `numbers` are the results from element `first` on.
  void Expect(Numbers<T>& numbers, int count, int first, const char* what) const {
    for (int i = 0; i < count; ++i) {
      if (numbers.Get(i) == Expected<T>(op, ranks, first + i)) continue;
      Require(false, std::string(what) + " of " + name + ", element " + std::to_string(i));
    }
  }

  // In place, what is not a result stays.
  void ExpectRest(Numbers<T>& numbers, int from, int to, const char* what) const {
    for (int i = from; i < to; ++i)
      Require(numbers.Get(i) == Contribution<T>(rank, i), std::string(what) + " overwrites");
  }

  void AllAndRoot(int count) const {
    auto in = Mine(count), out = Numbers<T>(count, off), both = Mine(count);
    MPI_Allreduce(in.data(), out.data(), count, type, handle, comm);
    Expect(out, count, 0, "MPI_Allreduce");
    MPI_Allreduce(MPI_IN_PLACE, both.data(), count, type, handle, comm);
    Expect(both, count, 0, "MPI_Allreduce in place");
    const int root = count % ranks;
    auto at_root = Numbers<T>(count, off), mine = Mine(count);
    // The receive buffer means nothing elsewhere, but MPICH 4.0 writes to it.
    MPI_Reduce(in.data(), at_root.data(), count, type, handle, root, comm);
    if (rank == root) Expect(at_root, count, 0, "MPI_Reduce");
    MPI_Reduce(rank == root ? MPI_IN_PLACE : mine.data(), rank == root ? mine.data() : at_root.data(), count, type,
               handle, root, comm);
    if (rank == root) Expect(mine, count, 0, "MPI_Reduce in place");
  }

  void Scattered(int count) const {
    const int all = count * ranks;
    auto in = Mine(all), out = Numbers<T>(count, off), both = Mine(all);
    MPI_Reduce_scatter_block(in.data(), out.data(), count, type, handle, comm);
    Expect(out, count, rank * count, "MPI_Reduce_scatter_block");
    MPI_Reduce_scatter_block(MPI_IN_PLACE, both.data(), count, type, handle, comm);
    Expect(both, count, rank * count, "MPI_Reduce_scatter_block in place");
    ExpectRest(both, count, all, "MPI_Reduce_scatter_block in place");
    for (const bool even : {true, false}) {
      std::vector<int> counts;
      int total = 0, before = 0;
      for (int r = 0; r < ranks; ++r) {
        if (r == rank) before = total;
        counts.push_back(even ? count : r % 3 * count);
        total += counts.back();
      }
      const int own = counts[static_cast<std::size_t>(rank)];
      auto from = Mine(total), to = Numbers<T>(own, off), place = Mine(total);
      MPI_Reduce_scatter(from.data(), to.data(), counts.data(), type, handle, comm);
      Expect(to, own, before, "MPI_Reduce_scatter");
      MPI_Reduce_scatter(MPI_IN_PLACE, place.data(), counts.data(), type, handle, comm);
      Expect(place, own, before, "MPI_Reduce_scatter in place");
      ExpectRest(place, own, total, "MPI_Reduce_scatter in place");
    }
  }
};

template <typename T>
void CheckType(MPI_Comm comm, MPI_Datatype type, const char* name, std::size_t off = 0) {
  if (type == MPI_DATATYPE_NULL) return;  // an MPI without Fortran
  constexpr bool kOrdered = std::is_arithmetic_v<T>;
  const std::pair<Op, MPI_Op> ops[] = {
      {Op::sum, MPI_SUM}, {Op::product, MPI_PROD}, {Op::greatest, MPI_MAX}, {Op::least, MPI_MIN}};
  for (const auto& [op, handle] : ops) {
    if (!kOrdered && op != Op::sum) continue;  // MPICH 4.0 crashes in products, without the layer, too
    const Reduction<T> reduction{comm, RankOf(comm), RanksOf(comm), type, op, handle, name, off};
    for (const int count : kCounts) {
      reduction.AllAndRoot(count);
      reduction.Scattered(count);
    }
  }
}

}  // namespace

void CheckUnaligned(MPI_Comm comm) {
  CheckType<int>(comm, MPI_INT, "MPI_INT", kOdd);
  CheckType<float>(comm, MPI_FLOAT, "MPI_FLOAT", kOdd);
  CheckType<double>(comm, MPI_DOUBLE, "MPI_DOUBLE", kOdd);
}

// The layer hands these to MPI.
void CheckOtherTypes(MPI_Comm comm) { CheckType<long double>(comm, MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE"); }

void CheckReductions(MPI_Comm comm) {
  CheckType<short>(comm, MPI_SHORT, "MPI_SHORT");
  CheckType<std::uint16_t>(comm, MPI_UINT16_T, "MPI_UINT16_T");
  CheckType<signed char>(comm, MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR");
  CheckType<unsigned char>(comm, MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR");
  CheckType<int>(comm, MPI_INT, "MPI_INT");
  CheckType<unsigned>(comm, MPI_UNSIGNED, "MPI_UNSIGNED");
  CheckType<long>(comm, MPI_LONG, "MPI_LONG");
  CheckType<unsigned long>(comm, MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG");
  CheckType<long long>(comm, MPI_LONG_LONG, "MPI_LONG_LONG");
  CheckType<std::int8_t>(comm, MPI_INT8_T, "MPI_INT8_T");
  CheckType<std::int32_t>(comm, MPI_INT32_T, "MPI_INT32_T");
  CheckType<std::uint32_t>(comm, MPI_UINT32_T, "MPI_UINT32_T");
  CheckType<std::int64_t>(comm, MPI_INT64_T, "MPI_INT64_T");
  CheckType<std::uint64_t>(comm, MPI_UINT64_T, "MPI_UINT64_T");
  CheckType<MPI_Aint>(comm, MPI_AINT, "MPI_AINT");
  CheckType<MPI_Count>(comm, MPI_COUNT, "MPI_COUNT");
  CheckType<float>(comm, MPI_FLOAT, "MPI_FLOAT");
  CheckType<double>(comm, MPI_DOUBLE, "MPI_DOUBLE");
  CheckType<std::complex<float>>(comm, MPI_C_FLOAT_COMPLEX, "MPI_C_FLOAT_COMPLEX");
  CheckType<std::complex<double>>(comm, MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX");
}

}  // namespace tutti::pmpi_test
