#include "algorithms/msccl/program.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "algorithms/builders/build.h"
#include "algorithms/verifier/verify.h"
#include "base/error.h"

namespace tutti::msccl {
namespace {

Program Read(const std::string& name) { return ReadProgram("algorithms/msccl/testdata/" + name + ".xml"); }

std::string TextOf(const std::string& name) {
  std::ifstream file("algorithms/msccl/testdata/" + name + ".xml");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The message with which the text is refused.
std::string WhyRefused(const std::string& text) {
  try {
    ParseProgram(text, "program.xml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidArgument);
    return error.what();
  }
  return "not refused";
}

void ExpectHas(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks: " << word;
}

TEST(Program, RightOnesAreProved) {
  for (const auto* name : {"all_pairs_all_reduce", "ring_all_gather", "hierarchical_all_reduce", "ring_reduce_scatter",
                           "two_step_all_to_all", "ring_all_reduce", "direct_all_to_all", "chain_broadcast",
                           "chain_reduce", "star_gather", "star_scatter", "pair_all_reduce"}) {
    Program program = Read(name);
    EXPECT_EQ(program.name, name);
    EXPECT_EQ(Prove(program), std::nullopt) << name;
    EXPECT_TRUE(program.ranks.front().reference_safe) << name;
  }
}

// A program becomes the schedule that a person would have written.
TEST(Program, BecomesTheStepsItDescribes) {
  const Program program = Read("hierarchical_all_reduce");
  EXPECT_TRUE(program.in_place);
  EXPECT_EQ(schedule::ToString(program.ranks[2], "program"),
            "all_reduce by program, rank 2 of 4, 2 blocks\n"
            "channel 0\n"
            "  lane 0\n"
            "    0: block 1: {scaled in[1]} -> {to(3)}\n"
            "    1: block 0: {from(3), scaled in[0]} -> {out[0]}\n"
            "  lane 1\n"
            "    0: block 0: {from(0, 1), out[0]} -> {out[0], to(0, 1)} final after(0, 1)\n"
            "  lane 2\n"
            "    0: block 0: {out[0]} -> {to(3, 1)} after(1, 0)\n"
            "    1: block 1: {from(3, 1)} -> {out[1]}\n");
}

TEST(Program, ChunksOfARanksBlockAreBlocks) {
  const Program program = Read("ring_all_gather");
  EXPECT_EQ(program.ranks[1].blocks, 8);
  EXPECT_EQ(program.ranks[1].parts(), 2);
  EXPECT_EQ(verifier::OutputExpression(program.ranks, 3, 5), "in2[5]");
}

// A lane reads what another lane's next chunk overwrites, so one chunk of scratch is not enough.
TEST(Program, GetsAsMuchScratchAsItNeeds) {
  Program frugal = Read("all_pairs_all_reduce");
  ASSERT_EQ(Prove(frugal), std::nullopt);
  EXPECT_FALSE(frugal.ranks.front().whole_scratch);
  Program lavish = Read("two_step_all_to_all");
  ASSERT_EQ(Prove(lavish), std::nullopt);
  EXPECT_TRUE(lavish.ranks.front().whole_scratch);
}

// A file may promise too little - copying a block to where it is already does no harm -, but not too much.
TEST(Program, WorksInPlaceIfThatCanBeProved) {
  for (const auto* name : {"ring_all_gather", "two_step_all_to_all", "chain_broadcast", "star_gather"}) {
    Program program = Read(name);
    EXPECT_FALSE(program.in_place) << name;
    ASSERT_EQ(Prove(program), std::nullopt) << name;
    EXPECT_TRUE(program.in_place) << name;
  }
  Program racing = Read("direct_all_to_all");
  ASSERT_EQ(Prove(racing), std::nullopt);
  EXPECT_FALSE(racing.in_place);
  racing.in_place = true;
  ExpectHas(Prove(racing).value_or("proved"), {"may be read before or after it is written"});
}

TEST(Program, IsDeterministicOnlyInTheOrderOfRanks) {
  EXPECT_TRUE(verifier::IsDeterministic(Read("pair_all_reduce").ranks));
  EXPECT_FALSE(verifier::IsDeterministic(Read("chain_reduce").ranks));  // the order, but rounded twice
  EXPECT_FALSE(verifier::IsDeterministic(Read("ring_reduce_scatter").ranks));
  EXPECT_TRUE(verifier::IsDeterministic(Read("ring_all_gather").ranks));
}

// The program sends two chunks at once round a ring.
TEST(Program, MayNeedSlots) {
  Program program = Read("ring_reduce_scatter");
  EXPECT_EQ(Prove(program, 4), std::nullopt);
  ExpectHas(Prove(program, 1).value_or("proved"), {"deadlock", "waits for rank 1 to empty one of 1 slots"});
}

TEST(Program, WrongOnesAreRefusedWithTheReason) {
  const auto why_wrong = [](const std::string& name) {
    Program program = Read(name);
    return Prove(program).value_or("proved");
  };
  ExpectHas(why_wrong("wrong_deadlock"),
            {"deadlock", "rank 0 of 4, channel 0, lane 0, step 1", "waits for rank 3 to fill"});
  ExpectHas(why_wrong("wrong_missing_contribution"), {"out[2]", "it lacks rank 3's contribution"});
  ExpectHas(why_wrong("wrong_collective"), {"all_reduce by program", "rank 2", "out["});
  ExpectHas(WhyRefused(TextOf("wrong_double_contribution")),
            {"program.xml:31:", "GPU 1 adds the contribution of GPU 0", "already"});
  ExpectHas(WhyRefused(TextOf("wrong_dangling_dependency")),
            {"program.xml:53:", "step 7 of thread block 0, which does not exist"});
}

// The text with its first `what` replaced.
std::string With(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Program, NonsenseIsRefusedWithLineAndReason) {
  const std::string right = TextOf("hierarchical_all_reduce");
  const auto expect = [&](const std::string& what, const std::string& by, const std::vector<std::string>& words) {
    ExpectHas(WhyRefused(With(right, what, by)), words);
  };
  expect("<algo", "<algorithm", {"program.xml:"});
  expect("coll=\"allreduce\"", "coll=\"custom\"", {"program.xml:2:", "coll must be allreduce"});
  expect("ngpus=\"4\"", "ngpus=\"5\"", {"program.xml:2:", "4 <gpu> elements, but ngpus is 5"});
  expect("ngpus=\"4\"", "ngpus=\"1000000\"", {"program.xml:2:", "ngpus", "from 1 to 256"});
  expect("nchunksperloop=\"2\"", "", {"program.xml:2:", "no nchunksperloop"});
  expect("allreduce", "allgather", {"program.xml:2:", "not a multiple of the 4 GPUs"});
  expect("gpu id=\"0\"", "gpu id=\"1\"", {"program.xml:", "more than one <gpu> with id=1"});
  expect("i_chunks=\"2\"", "i_chunks=\"3\"", {"program.xml:3:", "i_chunks", "from 0 to 2"});
  expect("send=\"1\"", "send=\"4\"", {"program.xml:4:", "send", "from -1 to 3"});
  expect("send=\"1\"", "send=\"-1\"", {"program.xml:5:", "no rank to send to"});
  expect("recv=\"1\"", "recv=\"-1\"", {"program.xml:6:", "no rank to receive from"});
  expect("chan=\"0\"", "chan=\"999\"", {"program.xml:4:", "chan"});
  expect("type=\"s\"", "type=\"x\"", {"program.xml:5:", "type must be s, r,"});
  expect("srcbuf=\"i\"", "srcbuf=\"q\"", {"program.xml:5:", "srcbuf must be i, o or s"});
  expect("srcoff=\"1\"", "srcoff=\"2\"", {"program.xml:5:", "srcoff", "from 0 to 1"});
  expect("srcbuf=\"i\" srcoff=\"1\"", "srcbuf=\"s\" srcoff=\"0\"",
         {"program.xml:5:", "1 chunks of a buffer that has 0"});
  expect("cnt=\"1\"", "cnt=\"0\"", {"program.xml:5:", "cnt"});
  expect("hasdep=\"1\"", "hasdep=\"0\"", {"program.xml:9:", "does not signal its completion"});
  expect("s=\"1\"", "s=\"0\"", {"program.xml:6:", "more than one <step> with s=0"});
  expect("<tb", "<thread", {"program.xml:"});
  ExpectHas(WhyRefused(""), {"program.xml:"});
  ExpectHas(WhyRefused("<algo/>"), {"program.xml:1:", "no coll"});
  EXPECT_THROW(ReadProgram("algorithms/msccl/testdata/no_such_file.xml"), Error);
}

// The steps only wait, for one another.
TEST(Program, WaitsInACircleAreRefused) {
  const auto wait = [](int on) {
    return fmt::format(
        "<tb id=\"{}\" send=\"-1\" recv=\"-1\" chan=\"0\"><step s=\"0\" type=\"nop\" depid=\"{}\" deps=\"0\" "
        "hasdep=\"1\"/><step s=\"1\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\"/></tb>",
        1 - on, on);
  };
  ExpectHas(WhyRefused("<algo coll=\"allreduce\" nchunksperloop=\"1\" ngpus=\"1\"><gpu id=\"0\">" + wait(1) + wait(0) +
                       "</gpu></algo>"),
            {"program.xml:1:", "in a cycle"});
}

}  // namespace
}  // namespace tutti::msccl
