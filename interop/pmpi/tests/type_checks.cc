// Datatypes at the ends of what is allowed: without data, and longer than an int can count.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

MPI_Datatype EmptyRecord() {
  MPI_Datatype none{}, empty{};
  MPI_Type_contiguous(0, MPI_INT, &none);
  MPI_Type_create_resized(none, 0, 16, &empty);
  MPI_Type_commit(&empty);
  MPI_Type_free(&none);
  return empty;
}

// Memory that looks much longer than it is: one row of integers after another is the same row.
class Rows {
 public:
  static constexpr int kRow = 4 << 20;  // integers
  static constexpr int kRows = 136;     // 2.1 GiB
  static constexpr std::size_t kRowBytes = std::size_t{kRow} * sizeof(int);

  // `gap`: rows more.
  explicit Rows(int gap) : bytes_((kRows + static_cast<std::size_t>(gap)) * kRowBytes) {
    const int file = memfd_create("rows", MFD_CLOEXEC);
    void* const start = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool made = file >= 0 && start != MAP_FAILED && ftruncate(file, kRowBytes) == 0;
    for (std::size_t at = 0; made && at < bytes_; at += kRowBytes) {
      made = mmap(static_cast<char*>(start) + at, kRowBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
             MAP_FAILED;
    }
    if (file >= 0) close(file);
    Require(made, "memory for a long datatype");
    data_ = static_cast<int*>(start);
  }
  ~Rows() { munmap(data_, bytes_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  int* data() { return data_; }
  void Put(int seed) {
    for (int i = 0; i < kRow; ++i) data_[i] = seed + i;
  }
  bool Has(int seed) const {
    for (int i = 0; i < kRow; ++i) {
      if (data_[i] != seed + i) return false;
    }
    return true;
  }

 private:
  std::size_t bytes_;
  int* data_ = nullptr;
};

MPI_Datatype Committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

// All integers of Rows, in a row or as two blocks with a row between them.
MPI_Datatype LongType(bool in_a_row) {
  MPI_Datatype row{}, all{};
  MPI_Type_contiguous(Rows::kRow, MPI_INT, &row);
  if (in_a_row) {
    MPI_Type_contiguous(Rows::kRows, row, &all);
  } else {
    MPI_Type_vector(2, Rows::kRows / 2, Rows::kRows / 2 + 1, row, &all);
  }
  MPI_Type_free(&row);
  return Committed(all);
}

long PeakMiB() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr long kKiBPerMiB = 1024;
  return usage.ru_maxrss / kKiBPerMiB;
}

bool HaveMemory(MPI_Comm comm, std::size_t bytes) {
  int have =
      static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) > bytes ? 1
                                                                                                                    : 0;
  MPI_Bcast(&have, 1, MPI_INT, 0, comm);
  return have != 0;
}

// One element of more than a probe packs needs no copy.
void NoCopy(MPI_Comm comm) {
  constexpr int kIntegersOfType = 48 << 20;
  constexpr long kTypeMiB = 192;
  MPI_Datatype whole{};
  MPI_Type_contiguous(kIntegersOfType, MPI_INT, &whole);
  whole = Committed(whole);
  std::vector<int> data(kIntegersOfType, RankOf(comm));
  const long before = PeakMiB();
  MPI_Bcast(data.data(), 1, whole, 0, comm);
  Require(data.front() == 0 && data.back() == 0, "MPI_Bcast of one long element");
  Require(PeakMiB() - before < kTypeMiB / 2, "MPI_Bcast of one long element in a row makes a copy");
  MPI_Type_free(&whole);
}

}  // namespace

void CheckEmptyTypes(MPI_Comm comm) {
  constexpr int kMost = 64;
  const int rank = RankOf(comm), ranks = RanksOf(comm);
  const auto empty = EmptyRecord();
  std::array<int, kMost> counts{}, places{}, got{}, zeros{}, ones{};
  ones.fill(1);
  got.fill(-1);
  const int mine = Sent(rank, 0, 0);
  for (int r = 1; r < ranks; ++r) {
    counts[static_cast<std::size_t>(r)] = 1;
    places[static_cast<std::size_t>(r)] = r;
  }
  MPI_Allgatherv(&mine, 1, rank == 0 ? empty : MPI_INT, got.data(), counts.data(), places.data(), MPI_INT, comm);
  Require(got[0] == -1, "MPI_Allgatherv of nothing");
  for (int r = 1; r < ranks; ++r) {
    Require(got[static_cast<std::size_t>(r)] == Sent(r, 0, 0), "MPI_Allgatherv beside an empty type");
  }
  const auto before = got;
  MPI_Bcast(got.data(), 3, empty, 0, comm);
  MPI_Gather(&mine, 1, empty, got.data(), 1, empty, 0, comm);
  MPI_Scatter(&mine, 1, empty, got.data(), 1, empty, 0, comm);
  MPI_Allgather(&mine, 2, empty, got.data(), 2, empty, comm);
  MPI_Alltoall(&mine, 1, empty, got.data(), 1, empty, comm);
  MPI_Alltoallv(&mine, ones.data(), zeros.data(), empty, got.data(), ones.data(), zeros.data(), empty, comm);
  Require(got == before, "collectives of an empty type");
  auto type = empty;
  MPI_Type_free(&type);
}

void CheckLongTypes(MPI_Comm comm) {
  NoCopy(comm);
  auto in_a_row = LongType(true), apart = LongType(false);
  const int rank = RankOf(comm);
  Rows rows(1);
  // The roots describe the data in both ways, and so do those that receive them.
  for (const bool all_in_a_row : {true, false}) {
    if (!all_in_a_row && !HaveMemory(comm, 3 * Rows::kRows * Rows::kRowBytes)) break;
    for (int root = 0; root < 2; ++root) {
      if (rank == root) {
        rows.Put(1000 + root);
      } else {
        rows.Put(-1);
      }
      MPI_Bcast(rows.data(), 1, all_in_a_row || rank == 0 ? in_a_row : apart, root, comm);
      Require(rows.Has(1000 + root), "MPI_Bcast of an element of more than 2 GiB");
    }
  }
  MPI_Type_free(&in_a_row);
  MPI_Type_free(&apart);
}

}  // namespace tutti::pmpi_test
