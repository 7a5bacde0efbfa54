// Collectives that move blocks of one length. Each rank describes the data in its own way.
#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

constexpr int kElements[] = {1, 7, 600};

struct Round {
  MPI_Comm comm;
  int rank, ranks;
  Shape sent, received;  // this rank's
  int elements;          // of a block
  int integers() const { return elements * kIntegers; }
};

void Bcast(const Round& round, int root) {
  Memory memory(round.sent, round.elements);
  const auto values = Values(root, 0, round.integers());
  if (round.rank == root) memory.Put(0, values);
  MPI_Bcast(memory.data(), memory.elements(), memory.type(), root, round.comm);
  memory.Expect({{0, values}}, "MPI_Bcast");
}

void Gather(const Round& round, int root, bool in_place) {
  const bool is_root = round.rank == root;
  Memory from(round.sent, round.elements), to(round.received, is_root ? round.elements * round.ranks : 0);
  from.Put(0, Values(round.rank, 0, round.integers()));
  if (is_root && in_place) to.Put(root * round.elements, Values(root, 0, round.integers()));
  const void* const send = is_root && in_place ? MPI_IN_PLACE : from.data();
  MPI_Gather(send, from.elements(), from.type(), is_root ? to.data() : nullptr, round.elements, to.type(), root,
             round.comm);
  if (!is_root) return;
  std::vector<std::pair<int, std::vector<int>>> parts;
  for (int r = 0; r < round.ranks; ++r) parts.emplace_back(r * round.elements, Values(r, 0, round.integers()));
  to.Expect(parts, in_place ? "MPI_Gather in place" : "MPI_Gather");
}

void Scatter(const Round& round, int root, bool in_place) {
  const bool is_root = round.rank == root;
  Memory from(round.sent, is_root ? round.elements * round.ranks : 0), to(round.received, round.elements);
  std::vector<std::pair<int, std::vector<int>>> parts;
  for (int r = 0; r < round.ranks && is_root; ++r) {
    parts.emplace_back(r * round.elements, Values(root, r, round.integers()));
    from.Put(parts.back().first, parts.back().second);
  }
  void* const receive = is_root && in_place ? MPI_IN_PLACE : to.data();
  MPI_Scatter(is_root ? from.data() : nullptr, round.elements, from.type(), receive, to.elements(), to.type(), root,
              round.comm);
  from.Expect(parts, "MPI_Scatter's input");
  if (is_root && in_place) return;
  to.Expect({{0, Values(root, round.rank, round.integers())}}, "MPI_Scatter");
}

void Allgather(const Round& round, bool in_place) {
  Memory from(round.sent, round.elements), to(round.received, round.elements * round.ranks);
  const auto own = Values(round.rank, 0, round.integers());
  from.Put(0, own);
  if (in_place) to.Put(round.rank * round.elements, own);
  MPI_Allgather(in_place ? MPI_IN_PLACE : from.data(), from.elements(), from.type(), to.data(), round.elements,
                to.type(), round.comm);
  std::vector<std::pair<int, std::vector<int>>> parts;
  for (int r = 0; r < round.ranks; ++r) parts.emplace_back(r * round.elements, Values(r, 0, round.integers()));
  to.Expect(parts, in_place ? "MPI_Allgather in place" : "MPI_Allgather");
}

void Alltoall(const Round& round, bool in_place) {
  Memory from(round.sent, round.elements * round.ranks), to(round.received, round.elements * round.ranks);
  std::vector<std::pair<int, std::vector<int>>> parts;
  for (int r = 0; r < round.ranks; ++r) {
    (in_place ? to : from).Put(r * round.elements, Values(round.rank, r, round.integers()));
    parts.emplace_back(r * round.elements, Values(r, round.rank, round.integers()));
  }
  MPI_Alltoall(in_place ? MPI_IN_PLACE : from.data(), round.elements, from.type(), to.data(), round.elements, to.type(),
               round.comm);
  to.Expect(parts, in_place ? "MPI_Alltoall in place" : "MPI_Alltoall");
}

}  // namespace

void CheckMovement(MPI_Comm comm) {
  const int rank = RankOf(comm), ranks = RanksOf(comm);
  auto shapes = MakeShapes();
  const auto kinds = shapes.size();
  for (const int elements : kElements) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const Round round{comm,
                        rank,
                        ranks,
                        shapes[(kind + static_cast<std::size_t>(rank)) % kinds],
                        shapes[(kind + 2 * static_cast<std::size_t>(rank) + 1) % kinds],
                        elements};
      const int root = static_cast<int>(kind) % ranks;
      Bcast(round, root);
      MPI_Barrier(comm);
      for (const bool in_place : {false, true}) {
        Gather(round, root, in_place);
        Scatter(round, root, in_place);
        Allgather(round, in_place);
        Alltoall(round, in_place);
      }
    }
  }
  for (auto& shape : shapes) MPI_Type_free(&shape.type);
}

}  // namespace tutti::pmpi_test
