#include "tools/inspect/diagnosis.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "src/diagnostics/dump.h"
#include "src/diagnostics/recorder.h"

namespace tutti::tools {
namespace {

plan::Operation MakeOperation(schedule::Collective collective, std::size_t count, tuttiDataType_t type, int peer = 0) {
  plan::Operation operation;
  operation.collective = collective;
  operation.count = count;
  operation.type = type;
  operation.root = peer;
  return operation;
}

plan::Operation AllReduceOf(std::size_t count) {
  return MakeOperation(schedule::Collective::all_reduce, count, tuttiFloat32);
}

// A rank's recorder, and the tool's parsed dump of it.
class Recorded {
 public:
  Recorded(int rank, int ranks) : block_(std::make_unique<ring::ControlBlock>()), recorder_(*block_) {
    dumped_.communicator = "0123456789abcdef";
    dumped_.name = "dp";
    dumped_.rank = rank;
    for (int r = 0; r < ranks; ++r) dumped_.roster.push_back({"node" + std::to_string(r), 100 + r});
  }
  // The next calls are made there.
  Recorded& At(const std::string& site) {
    ring::WriteCallSite(block_->sites, ++site_, {site, "", 0, 0});
    return *this;
  }
  Recorded& Call(const plan::Operation& operation, std::uint64_t sequence, bool done) {
    const auto record =
        recorder_.Begin({sequence, plan::SignatureOf(operation), plan::PackCall(operation), operation.count, Ticks(),
                         ring::PackOrigin(static_cast<std::uint32_t>(tuttiAlgorithmRing), site_)});
    if (done) recorder_.End(record, Ticks());
    return *this;
  }
  Recorded& WaitsFor(int rank) {
    dumped_.waits_for = rank;
    return *this;
  }
  Recorded& Fails(const std::string& text) {
    dumped_.failure.emplace(tuttiRemoteError, text);
    return *this;
  }
  Dump Read() {
    dumped_.scale = calendar_.Scale();
    return ParseDump(diagnostics::DumpOf(dumped_, *block_), "dump.json");
  }

 private:
  std::unique_ptr<ring::ControlBlock> block_;
  diagnostics::Recorder recorder_;
  TickCalendar calendar_;
  diagnostics::DumpedRank dumped_;
  std::uint32_t site_ = 0;
};

bool Says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(Diagnosis, NamesWhoIsWaitedFor) {
  const auto text =
      Diagnose({Recorded(0, 3).Call(AllReduceOf(8), 1, true).Call(AllReduceOf(8), 2, false).WaitsFor(2).Read(),
                Recorded(1, 3).Call(AllReduceOf(8), 1, true).Call(AllReduceOf(8), 2, false).Read(),
                Recorded(2, 3).Call(AllReduceOf(8), 1, true).Read()});
  EXPECT_TRUE(Says(text, "communicator 01234567 \"dp\", 3 ranks, 3 dumps")) << text;
  EXPECT_TRUE(Says(text, "rank 0 (host node0, pid 100) is in operation 2, all_reduce(count=8, float32, sum) by ring"))
      << text;
  EXPECT_TRUE(Says(text, "it waits for rank 2 (host node2, pid 102)")) << text;
  EXPECT_TRUE(Says(text, "rank 2 (host node2, pid 102) is in no operation: its last was operation 1")) << text;
  EXPECT_TRUE(Says(text, "=> ranks 0 and 1 in operation 2 wait for rank 2, which has not called it")) << text;
}

TEST(Diagnosis, ComparesCalls) {
  const auto text = Diagnose(
      {Recorded(0, 2).Call(AllReduceOf(8), 1, false).Read(), Recorded(1, 2).Call(AllReduceOf(9), 1, false).Read()});
  EXPECT_TRUE(Says(text,
                   "=> The calls of operation 1 do not match: rank 0 called all_reduce(count=8, float32, sum), rank "
                   "1 called all_reduce(count=9, float32, sum)"))
      << text;
}

TEST(Diagnosis, NamesTheLinesOfCalls) {
  auto first = Recorded(0, 2).At("/job/train.py:41 in step").Call(AllReduceOf(8), 1, false).Read();
  EXPECT_EQ(first.operations.at(0).site, "/job/train.py:41 in step");
  const auto text =
      Diagnose({std::move(first), Recorded(1, 2).At("/job/train.py:44").Call(AllReduceOf(9), 1, false).Read()});
  EXPECT_TRUE(Says(text, "all_reduce(count=8, float32, sum) by ring at train.py:41 in step, since")) << text;
  EXPECT_TRUE(Says(text,
                   "rank 0 called all_reduce(count=8, float32, sum) at train.py:41 in step, rank 1 called "
                   "all_reduce(count=9, float32, sum) at train.py:44\n"))
      << text;
}

TEST(Diagnosis, TellsOfFailuresAndOfWhoLeftNothing) {
  const auto text = Diagnose({Recorded(0, 3).Call(AllReduceOf(8), 1, false).Fails("rank 2 died").Read(),
                              Recorded(1, 3).Call(AllReduceOf(8), 1, false).Fails("rank 2 died").Read()});
  EXPECT_TRUE(Says(text, "ranks 0 and 1 failed: another rank failed or left: rank 2 died")) << text;
  EXPECT_TRUE(Says(text, "=> rank 2 (host node2, pid 102) left no dump")) << text;
}

TEST(Diagnosis, FollowsMessages) {
  const auto send = MakeOperation(schedule::Collective::send, 4, tuttiInt32, 1);
  const auto receive = MakeOperation(schedule::Collective::receive, 4, tuttiInt32, 0);
  const auto text = Diagnose(
      {Recorded(0, 2).Call(send, 1, true).Call(send, 2, false).Read(), Recorded(1, 2).Call(receive, 1, true).Read()});
  EXPECT_TRUE(Says(text, "rank 0 (host node0, pid 100) waits in send(count=4, int32, to rank 1) as message 2")) << text;
  EXPECT_TRUE(Says(text, "rank 1, whose last call is receive 1 of that pair")) << text;
}

TEST(Diagnosis, FindsRanksThatWaitForEachOther) {
  const auto receive_from = [](int peer) { return MakeOperation(schedule::Collective::receive, 4, tuttiInt32, peer); };
  const auto text = Diagnose({Recorded(0, 4).Call(receive_from(2), 1, false).Read(),
                              Recorded(1, 4).Call(receive_from(0), 1, false).Read(),
                              Recorded(2, 4).Call(receive_from(1), 1, false).Read(), Recorded(3, 4).Read()});
  EXPECT_TRUE(
      Says(text,
           "=> These ranks wait for each other in a cycle: rank 0 in receive(count=4, int32, from rank 2), rank 2 "
           "in receive(count=4, int32, from rank 1), rank 1 in receive(count=4, int32, from rank 0)"))
      << text;
  EXPECT_TRUE(Says(text, "rank 2 has called no send for it")) << text;
}

TEST(Diagnosis, TellsHowManySignalsCame) {
  const auto signal = MakeOperation(schedule::Collective::signal, 0, tuttiInt8, 0);
  const auto wait = MakeOperation(schedule::Collective::wait_signal, 2, tuttiInt8, 1);
  const auto text = Diagnose({Recorded(0, 2).Call(wait, 1, false).Read(), Recorded(1, 2).Call(signal, 1, true).Read()});
  EXPECT_TRUE(Says(text, "rank 0 (host node0, pid 100) waits in wait_signal(count=2, from rank 1)")) << text;
  EXPECT_TRUE(Says(text, "rank 1, whose dump lists 1 puts and signals to it")) << text;
}

// The dump of one rank, with one part replaced.
std::string DumpWith(const std::string& part, const std::string& by) {
  std::string text =
      R"json({"tutti_dump": 1, "communicator": "0123456789abcdef", "name": "dp", "rank": 0, "time_us": 2e15,
    "ranks": [{"host": "node0", "pid": 100}, {"host": "node1", "pid": 101}], "waits_for": 1,
    "failure": {"code": "timed out", "text": "rank 1 is late"},
    "operations": [{"sequence": 1, "call": "send(count=4)", "kind": "send", "signature": "00", "algorithm": "none",
                    "peer": 1, "started_us": 1e15, "done": false}]})json";
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

TEST(Diagnosis, PrintsNothingThatATerminalObeys) {
  for (const std::string part :
       {"0123456789abcdef", "dp", "node0", "node1", "timed out", "rank 1 is late", "send(count=4)"}) {
    const auto text = Diagnose({ParseDump(DumpWith(part, "\\u001b[2J\\u009b31m\\n"), "file")});
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
    EXPECT_TRUE(Says(text, "\\x1b[2J")) << part << "\n" << text;
  }
}

TEST(Diagnosis, RefusesWhatHasTheWrongType) {
  const auto refused = [](const std::string& part, const std::string& by) -> std::string {
    try {
      Diagnose({ParseDump(DumpWith(part, by), "file")});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("dp", "dp"), "");
  EXPECT_EQ(refused("\"waits_for\": 1", "\"waits_for\": \"x\""),
            "file: \"waits_for\" is \"x\"; it takes a whole number from -1 to 1");
  EXPECT_EQ(refused("\"waits_for\": 1", "\"waits_for\": 2"),
            "file: \"waits_for\" is 2; it takes a whole number from -1 to 1");
  EXPECT_EQ(refused("\"peer\": 1", "\"peer\": 1e300"),
            "file: operations[0]: \"peer\" is 1e+300; it takes a whole number from -1 to 1048576");
  EXPECT_EQ(refused("\"rank\": 0", "\"rank\": -1"), "file: \"rank\" is -1; it takes a whole number from 0 to 1");
  EXPECT_EQ(refused("[{\"sequence\": 1,", "[7, {\"sequence\": 1,"),
            "file: operations[0]: 7 where an object is expected");
  EXPECT_EQ(refused("\"pid\": 100", "\"pid\": null"), "file: ranks[0]: \"pid\" is missing");
}

TEST(Diagnosis, RefusesWhatIsTooDeep) {
  constexpr int kDeep = 200'000;
  EXPECT_THROW(ParseDump("{\"tutti_dump\": " + std::string(kDeep, '[') + std::string(kDeep, ']') + "}", "file"), Error);
}

TEST(Diagnosis, RefusesWhatIsNoDump) {
  for (const std::string text : {"", "{}", "[1]", "{\"tutti_dump\": 2}", "{\"tutti_dump\": 1, \"rank\": \"x\"}"}) {
    EXPECT_THROW(ParseDump(text, "file"), Error) << text;
  }
  diagnostics::DumpedRank stranger;
  stranger.rank = 5;
  stranger.roster = {{"host", 1}};
  const auto text = diagnostics::DumpOf(stranger, *std::make_unique<ring::ControlBlock>());
  EXPECT_THROW(ParseDump(text, "file"), Error);  // rank 5 of 1
}

}  // namespace
}  // namespace tutti::tools
