// Messages name the line of the program that called this library. (This file is compiled with -g.)
#include <dlfcn.h>
#include <fmt/format.h>

#include <functional>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/extension.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/mappings.h"
#include "tutti/parallel/p2p_communication.h"
#include "tutti/parallel/pipeline.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

struct Data {
  std::vector<float> in = std::vector<float>(4), out = std::vector<float>(8);
  Tensor part() { return {in.data(), {4}}; }
  Tensor whole() { return {out.data(), {8}}; }
};

class Program {
 public:
  explicit Program(tuttiComm_t comm) : group_(comm) {}

  // Where the functions below call. After each call is another, because the last one might not return to its function.
  static constexpr int kReduces = __LINE__ + 2;
  [[gnu::noinline]] void Reduces() {
    group_.all_reduce(data_.part(), data_.part(), tuttiSum);
    Called();
  }
  static constexpr int kGathers = __LINE__ + 2;
  [[gnu::noinline]] void Gathers() {
    group_.all_gather(data_.part(), data_.whole());
    Called();
  }
  // By a function of the library that calls others of it.
  static constexpr int kAsLayer = __LINE__ + 2;
  [[gnu::noinline]] void GathersAsLayer() {
    gather_first_dimension({group_, compute_}, data_.part(), data_.whole());
    Called();
  }
  static constexpr int kSends = __LINE__ + 2;
  [[gnu::noinline]] void Sends() {
    batch_isend_irecv(group_, {{P2P::isend, data_.part(), 1}});
    Called();
  }
  static constexpr int kReceives = __LINE__ + 2;
  [[gnu::noinline]] void Receives() {
    batch_isend_irecv(group_, {{P2P::irecv, data_.whole(), 0}});
    Called();
  }
  void ReducesInStage();

 private:
  [[gnu::noinline]] void Called() { ++calls_; }

  ProcessGroup group_;
  HostCompute compute_;
  Data data_;
  int calls_ = 0;
};

// A stage that makes another call.
void Program::ReducesInStage() {
  struct Stage : PipelineStep {
    explicit Stage(Program& program) : program(program) {}
    void forward(int, const Tensor*, const Tensor*) override { program.Reduces(); }
    void backward(int, const Tensor*, const Tensor*, const Tensor*) override {}
    Program& program;
  };
  ProcessGroup alone(group_, "alone", {group_.rank()}, TUTTI_CONFIG_INITIALIZER);
  PipelineParallel pipeline(alone, std::nullopt, std::nullopt);
  Stage stage(*this);
  pipeline.run(gpipe(1, 1), stage);
}

class LinesOfUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
      GTEST_SKIP() << "what reads lines is missing: " << dlerror();
  }
};

// Both ranks are told the lines of both, which call differently.
void Disagree(const std::function<void(Program&)>& first, const std::string& site,
              const std::function<void(Program&)>& others, const std::string& others_site) {
  RunRanks(2, [&](Rank& self) {
    const auto comm = self.Join();
    Program program(comm);
    EXPECT_TRUE(Throws([&] { (self.rank() == 0 ? first : others)(program); }, tuttiInvalidUsage, {site, others_site}));
    self.Meet();
  });
}

std::string At(int line) { return fmt::format(" at calls_from_user_test.cc:{} in tutti::parallel::", line); }

TEST_F(LinesOfUsers, WhoCallAGroup) {
  Disagree(&Program::Reduces, At(Program::kReduces), &Program::Gathers, At(Program::kGathers));
}

TEST_F(LinesOfUsers, WhoCallALayer) {
  Disagree(&Program::Reduces, At(Program::kReduces), &Program::GathersAsLayer, At(Program::kAsLayer));
}

// The sender need not wait for the receiver, so it may be told nothing.
TEST_F(LinesOfUsers, WhoSendAndReceive) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    Program program(comm);
    if (self.rank() == 0) {
      program.Sends();
    } else {
      EXPECT_TRUE(
          Throws([&] { program.Receives(); }, tuttiInvalidUsage, {At(Program::kSends), At(Program::kReceives)}));
    }
    self.Meet();
  });
}

// Between it and the stage's line, the library has called itself.
TEST_F(LinesOfUsers, WhoseStageAPipelineCalls) {
  Disagree(&Program::ReducesInStage, At(Program::kReduces), &Program::GathersAsLayer, At(Program::kAsLayer));
}

TEST_F(LinesOfUsers, UnlessALibraryOnTopNamesItsOwn) {
  const auto from_script = [](Program& program) {
    const tuttiCallSite_t script = {17, "train.py:41 in step"};
    const CallsFrom named(&script);
    program.GathersAsLayer();
  };
  Disagree(&Program::Reduces, At(Program::kReduces), from_script, " at train.py:41 in step");
}

}  // namespace
}  // namespace tutti::parallel
