// Measures what the tensor collectives save: all-gather, reduce-scatter and all-to-all along a dimension that is not
// the outermost one, directly on strided data, against packing, the plain collective and unpacking. Alternates both in
// one run, and takes the median of the slowest rank's times.
//   examples/run.sh RANKS tensor_layouts [COLUMNS [REPEATS [MOST_MIB]]]     floats of a rank's row: 1024, 9, 128
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kUsualColumns = 1024;
constexpr int kUsualRepeats = 9;
constexpr std::size_t kMiB = std::size_t{1} << 20, kUsualMiB = 128, kFactor = 2;

tuttiComm_t comm = nullptr;

void Check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s: %s\n", tuttiGetErrorString(result), tuttiGetLastError(comm));
  std::exit(EXIT_FAILURE);
}

// [rows, columns] of a row-major matrix with `all_columns` columns.
tuttiTensorLayout_t Matrix(std::size_t rows, std::size_t columns, std::size_t all_columns) {
  return {2, {rows, columns}, {all_columns, 1}};
}

// Converts between a matrix whose rows hold `blocks` blocks and the blocks one after the other.
void Pack(const float* matrix, float* packed, std::size_t rows, std::size_t columns, std::size_t blocks) {
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(packed + (b * rows + r) * columns, matrix + (r * blocks + b) * columns, columns * sizeof(float));
    }
  }
}
void Unpack(const float* packed, float* matrix, std::size_t rows, std::size_t columns, std::size_t blocks) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < blocks; ++b) {
      std::memcpy(matrix + (r * blocks + b) * columns, packed + (b * rows + r) * columns, columns * sizeof(float));
    }
  }
}

struct Comparison {
  std::string name;
  std::function<void()> packed;
  std::function<void()> strided;
  const std::vector<float>* result;
};

// The slowest rank's time in microseconds.
double Time(const std::function<void()>& call) {
  Check(tuttiBarrier(comm, nullptr));
  const auto begin = Clock::now();
  call();
  double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  Check(tuttiAllReduce(&us, &us, 1, tuttiFloat64, tuttiMax, comm, nullptr));
  return us;
}

double Median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void Compare(const Comparison& comparison, std::size_t bytes, int rank, int ranks, int repeats) {
  comparison.packed();
  const auto wanted = *comparison.result;
  comparison.strided();
  if (wanted != *comparison.result) {
    std::fprintf(stderr, "%s of %zu bytes is wrong on rank %d\n", comparison.name.c_str(), bytes, rank);
    std::exit(EXIT_FAILURE);
  }
  std::vector<double> packed, strided;
  for (int i = 0; i < repeats; ++i) {
    packed.push_back(Time(comparison.packed));
    strided.push_back(Time(comparison.strided));
  }
  if (rank != 0) return;
  std::printf("| %s | %d | %zu | %.0f | %.0f | %.2f |\n", comparison.name.c_str(), ranks, bytes >> 20, Median(packed),
              Median(strided), Median(strided) / Median(packed));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t columns = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kUsualColumns;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : kUsualRepeats;
  const std::size_t most = (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : kUsualMiB) * kMiB;
  if (columns == 0 || repeats < 1 || most == 0) {
    std::fprintf(stderr, "usage: %s [COLUMNS [REPEATS [MOST_MIB]]]\n", argv[0]);
    return EXIT_FAILURE;
  }
  int rank = 0, ranks = 0;
  Check(tuttiCommInitEnv(&comm, nullptr));
  Check(tuttiCommUserRank(comm, &rank));
  Check(tuttiCommCount(comm, &ranks));
  const auto n = static_cast<std::size_t>(ranks);
  if (rank == 0) {
    std::printf("Rows of %zu bytes a rank; MiB of the side that has all parts; times in us.\n\n",
                columns * sizeof(float));
    std::printf("| call | ranks | MiB | packed | strided | ratio |\n|---|--:|--:|--:|--:|--:|\n");
  }
  for (std::size_t bytes = kMiB; bytes <= most; bytes *= kFactor) {
    const std::size_t rows = std::max<std::size_t>(1, bytes / (n * columns * sizeof(float)));
    const std::size_t part_rows = std::max<std::size_t>(1, rows / n), block = rows * columns;
    std::vector<float> part(block), whole(n * block), packed(n * block), other(n * block);
    for (std::size_t i = 0; i < part.size(); ++i)
      part[i] = static_cast<float>((i + 7 * static_cast<std::size_t>(rank)) % 97);
    for (std::size_t i = 0; i < other.size(); ++i)
      other[i] = static_cast<float>((3 * i + static_cast<std::size_t>(rank)) % 89);
    const auto part_layout = Matrix(rows, columns, columns), whole_layout = Matrix(rows, n * columns, n * columns);
    // A share of the rows with all columns, and all rows with a share of the columns: Ulysses' exchange and its
    // reverse.
    const std::size_t piece = part_rows * columns;
    const auto by_rows = Matrix(part_rows, n * columns, n * columns),
               by_columns = Matrix(n * part_rows, columns, columns);
    std::vector<float> rows_in(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(n * piece)),
        rows_out(n * piece);
    std::vector<float> exchanged(n * piece);
    const std::array<Comparison, 4> comparisons{{
        {"all-gather along columns",
         [&] {
           Check(tuttiAllGather(part.data(), packed.data(), block, tuttiFloat32, comm, nullptr));
           Unpack(packed.data(), whole.data(), rows, columns, n);
         },
         [&] {
           Check(tuttiAllGatherTensor(part.data(), &part_layout, whole.data(), &whole_layout, 1, tuttiFloat32, comm,
                                      nullptr));
         },
         &whole},
        {"reduce-scatter along columns",
         [&] {
           Pack(other.data(), packed.data(), rows, columns, n);
           Check(tuttiReduceScatter(packed.data(), part.data(), block, tuttiFloat32, tuttiSum, comm, nullptr));
         },
         [&] {
           Check(tuttiReduceScatterTensor(other.data(), &whole_layout, part.data(), &part_layout, 1, tuttiFloat32,
                                          tuttiSum, comm, nullptr));
         },
         &part},
        {"all-to-all, columns to rows",
         [&] {
           Pack(rows_in.data(), packed.data(), part_rows, columns, n);
           Check(tuttiAlltoAll(packed.data(), exchanged.data(), piece, tuttiFloat32, comm, nullptr));
         },
         [&] {
           Check(tuttiAlltoAllTensor(rows_in.data(), &by_rows, 1, exchanged.data(), &by_columns, 0, tuttiFloat32, comm,
                                     nullptr));
         },
         &exchanged},
        {"all-to-all, rows to columns",
         [&] {
           Check(tuttiAlltoAll(exchanged.data(), packed.data(), piece, tuttiFloat32, comm, nullptr));
           Unpack(packed.data(), rows_out.data(), part_rows, columns, n);
         },
         [&] {
           Check(tuttiAlltoAllTensor(exchanged.data(), &by_columns, 0, rows_out.data(), &by_rows, 1, tuttiFloat32, comm,
                                     nullptr));
         },
         &rows_out},
    }};
    for (const auto& comparison : comparisons) Compare(comparison, bytes, rank, ranks, repeats);
  }
  Check(tuttiCommDestroy(comm));
  return EXIT_SUCCESS;
}
