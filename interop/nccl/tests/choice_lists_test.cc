// NCCL_ALGO and NCCL_PROTO in Tutti's words.
#include "interop/nccl/environment/choice_lists.h"

#include <gtest/gtest.h>

#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

// The same for each function, as one list for all of them becomes.
std::string ForAll(const std::string& list) {
  std::string text;
  for (const auto function : kTuttiFunctions) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", function, list);
  return text;
}

TEST(NcclAlgo, BecomesListsOfTuttisAlgorithms) {
  EXPECT_EQ(TuttiAlgorithms("ring"), ForAll("ring+ring"));
  EXPECT_EQ(TuttiAlgorithms("RING,Tree"), ForAll("ring+double_binary_tree+two_level_tree"));
  EXPECT_EQ(TuttiAlgorithms("^tree"), ForAll("^double_binary_tree+two_level_tree"));
  EXPECT_EQ(TuttiAlgorithms("NVLSTree"), ForAll("nvls+nvls"));
  EXPECT_EQ(TuttiAlgorithms("allreduce:ring;broadcast:tree"),
            "broadcast:double_binary_tree+two_level_tree,all_reduce:ring+ring");
  EXPECT_EQ(TuttiAlgorithms("ring;AllReduce:^ring"),
            "broadcast:ring+ring,reduce:ring+ring,all_gather:ring+ring,reduce_scatter:ring+ring,all_reduce:^ring");
}

TEST(NcclAlgo, LeavesOutNothingThatTuttiLacks) {
  EXPECT_EQ(TuttiAlgorithms(""), "");
  EXPECT_EQ(TuttiAlgorithms("^CollnetDirect,CollnetChain"), "");
  // NVLS and NVLSTree are one algorithm here, so leaving out one of them leaves it.
  EXPECT_EQ(TuttiAlgorithms("^nvlstree"), "");
  EXPECT_EQ(TuttiAlgorithms("^nvls,nvlstree"), ForAll("^nvls"));
}

template <typename Function>
std::string RefusalOf(Function function, const std::string& text) {
  try {
    function(text);
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), ncclInvalidUsage);
    return refusal.what();
  }
  ADD_FAILURE() << "takes " << text;
  return "";
}

TEST(NcclAlgo, NonsenseIsRefusedWithASentence) {
  const auto said = [](const char* text) { return RefusalOf(TuttiAlgorithms, text); };
  EXPECT_EQ(said("ringg"),
            "NCCL_ALGO has the unknown algorithm \"ringg\"; it takes Tree, Ring, CollnetDirect, CollnetChain, NVLS, "
            "NVLSTree, PAT");
  EXPECT_NE(said("sum:ring").find("unknown function \"sum\"; it takes Broadcast, Reduce, AllGather, "),
            std::string::npos);
  EXPECT_NE(said("ring;tree").find("only the first list"), std::string::npos);
  EXPECT_NE(said("CollnetChain").find("Tutti lacks"), std::string::npos);
}

TEST(NcclProto, BecomesAProtocolOrAllButOne) {
  EXPECT_EQ(TuttiProtocol("Simple"), "bulk");
  EXPECT_EQ(TuttiProtocol("ll"), "line");
  EXPECT_EQ(TuttiProtocol("LL128"), "inline");
  EXPECT_EQ(TuttiProtocol("^LL128"), "^inline");
  EXPECT_EQ(TuttiProtocol("LL,Simple"), "^inline");
  EXPECT_EQ(TuttiProtocol("^LL,LL128"), "bulk");
  EXPECT_EQ(TuttiProtocol("LL,LL128,Simple"), "");
  EXPECT_EQ(TuttiProtocol(""), "");
}

TEST(NcclProto, NonsenseIsRefusedWithASentence) {
  EXPECT_NE(RefusalOf(TuttiProtocol, "fast").find("unknown protocol \"fast\"; it takes LL, LL128, Simple"),
            std::string::npos);
  EXPECT_NE(RefusalOf(TuttiProtocol, "allreduce:LL").find("one choice of protocols"), std::string::npos);
  EXPECT_NE(RefusalOf(TuttiProtocol, "^LL,LL128,Simple").find("leaves no protocol"), std::string::npos);
}

}  // namespace
}  // namespace tutti::nccl
