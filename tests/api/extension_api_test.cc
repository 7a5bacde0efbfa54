// The hooks of a library on top of Tutti, as the C API calls them.
#include <atomic>
#include <string>
#include <vector>

#include "testing/ranks.h"
#include "tutti/extension.h"

namespace tutti::testing {
namespace {

// What the hooks of one process hear, in order. Hooks have no other way to reach a test.
std::vector<std::string> heard;

void Hear(const std::string& what) { heard.push_back(what); }

tuttiExtension_t Hooks() {
  tuttiExtension_t hooks{};
  hooks.size = sizeof hooks;
  hooks.joining = [](const tuttiCommFacts_t* facts) {
    Hear("joining " + std::to_string(facts->rank) + " of " + std::to_string(facts->nranks));
  };
  hooks.joined = [](const tuttiCommFacts_t* facts) {
    Hear("joined " + std::to_string(facts->rank) + " of " + std::to_string(facts->nranks) + ", " +
         std::to_string(facts->hosts) + " hosts of " + std::to_string(facts->mostRanksOfHost) +
         (facts->parent != nullptr ? ", a child" : "") + (facts->id != 0 ? "" : ", without an id"));
  };
  hooks.ending = [](const tuttiCommFacts_t*) { Hear("ending"); };
  hooks.groupStarts = [] { Hear("group starts"); };
  hooks.groupEnds = [] { Hear("group ends"); };
  hooks.groupEnded = [] { Hear("group ended"); };
  hooks.observe = [](const tuttiCommFacts_t* facts) -> void* {
    return std::string_view(facts->name) == "unobserved" ? nullptr : &heard;
  };
  hooks.unobserve = [](void*) { Hear("unobserved"); };
  hooks.callBegins = [](void* observer, const tuttiCall_t* call) {
    Hear(std::string("call ") + call->function + " of " + std::to_string(call->bytes) + " B");
    return observer;
  };
  hooks.callReturns = [](void*) { Hear("returns"); };
  hooks.operationBegins = [](void*, const tuttiOffer_t* plan) {
    Hear(std::string("begins by ") + tuttiAlgorithmName(plan->algorithm));
  };
  hooks.operationEnds = [](void*) { Hear("ends"); };
  hooks.callForgotten = [](void*) { Hear("forgotten"); };
  return hooks;
}

void WithHooks(const std::function<void(Rank&)>& body) {
  RunRanks(2,
           [&](Rank& self) {
             const auto hooks = Hooks();
             EXPECT_TRUE(Ok(tuttiExtend(&hooks)));
             body(self);
           },
           {.environment = {{"TUTTI_ALGO", "ring"}}});
}

using Words = std::vector<std::string>;

TEST(Extension, HearsOfCommunicatorsAndCalls) {
  WithHooks([](Rank& self) {
    {
      const Comm comm = self.Join();
      std::vector<float> data(4, 1);
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(Ok(AllReduce(comm, data)));
    }
    const Words call{"call all_reduce of 16 B", "begins by ring", "ends", "returns", "forgotten"};
    Words expected{"joining " + std::to_string(self.rank()) + " of 2",
                   "joined " + std::to_string(self.rank()) + " of 2, 1 hosts of 2"};
    expected.insert(expected.end(), call.begin(), call.end());
    expected.insert(expected.end(), call.begin(), call.end());
    expected.insert(expected.end(), {"ending", "unobserved"});
    EXPECT_EQ(heard, expected);
  });
}

TEST(Extension, HearsOfGroups) {
  WithHooks([](Rank& self) {
    const Comm comm = self.Join();
    heard.clear();
    std::vector<float> data(4, 1);
    EXPECT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(AllReduce(comm, data)));
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_EQ(heard, (Words{"group starts", "call all_reduce of 16 B", "returns", "group ends", "begins by ring",
                            "ends", "forgotten", "group ended"}));
  });
}

TEST(Extension, HearsNothingOfARefusedCallNorOfAnUnobservedCommunicator) {
  WithHooks([](Rank& self) {
    const Comm comm = self.Join();
    heard.clear();
    EXPECT_FALSE(Ok(tuttiAllReduce(nullptr, nullptr, 1, tuttiFloat, tuttiSum, comm, nullptr)));
    EXPECT_EQ(heard, Words{});
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.name = "unobserved";
    const Comm other = self.Join(&config, 1);
    heard.clear();
    std::vector<float> data(4, 1);
    EXPECT_TRUE(Ok(AllReduce(other, data)));
    EXPECT_EQ(heard, Words{});
  });
}

TEST(Extension, HearsOfChildren) {
  WithHooks([](Rank& self) {
    const Comm comm = self.Join();
    heard.clear();
    Comm child;
    EXPECT_TRUE(Ok(tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr)));
    EXPECT_EQ(heard,
              (Words{"joining -1 of 0", "joined " + std::to_string(self.rank()) + " of 2, 1 hosts of 2, a child"}));
  });
}

TEST(Extension, IsRegisteredOnceAndMayRefuse) {
  RunAlone([] {
    EXPECT_TRUE(Fails(tuttiExtend(nullptr), tuttiInvalidArgument, {"extension is NULL"}));
    tuttiExtension_t hooks{};
    EXPECT_TRUE(Fails(tuttiExtend(&hooks), tuttiInvalidArgument, {"size"}));
    hooks.size = sizeof hooks;
    hooks.check = [](char* why, std::size_t size) {
      std::snprintf(why, size, "not today");
      return tuttiSystemError;
    };
    hooks.setting = [](const char* name, const char** source) -> const char* {
      *source = "OTHER_TIMEOUT";
      return std::string_view(name) == "TUTTI_TIMEOUT_MS" ? "1234" : nullptr;
    };
    EXPECT_TRUE(Ok(tuttiExtend(&hooks)));
    EXPECT_TRUE(Fails(tuttiExtend(&hooks), tuttiInvalidUsage, {"already"}));
    tuttiUniqueId id;
    EXPECT_TRUE(Fails(tuttiGetUniqueId(&id), tuttiSystemError, {"not today"}));
    tuttiComm_t comm = nullptr;
    EXPECT_TRUE(Fails(tuttiCommInitAll(&comm, 1, nullptr), tuttiSystemError, {"not today"}));
    const char *name = nullptr, *value = nullptr;
    std::string timeout;
    for (int i = 0; tuttiGetSetting(i, &name, &value) == tuttiSuccess; ++i) {
      if (std::string_view(name) == "TUTTI_TIMEOUT_MS") timeout = value;
    }
    EXPECT_EQ(timeout, "1234");
  });
}

}  // namespace
}  // namespace tutti::testing
