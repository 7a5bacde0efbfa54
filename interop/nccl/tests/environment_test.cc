// What NCCL's variables and config files become, and that the table in the documentation is the code's.
#include "interop/nccl/environment/environment.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "interop/nccl/environment/environment_table.h"
#include "interop/nccl/environment/words.h"
#include "interop/nccl/tests/testing.h"

namespace tutti::nccl::testing {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Environment Read(const Variables& variables, const std::vector<std::string>& texts = {}) {
  std::vector<ConfigFile> files;
  for (const auto& text : texts) files.push_back({text});
  return Environment(
      [variables](std::string_view name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      files);
}

// The setting that the variables give; "-" if they give none.
std::string Setting(const Variables& variables, std::string_view name) {
  const auto environment = Read(variables);
  EXPECT_FALSE(environment.problem()) << environment.problem()->text;
  const auto found = environment.settings().find(name);
  return found == environment.settings().end() ? "-" : found->second.text;
}

TEST(NcclEnvironment, ConfigFilesAreBounded) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "nccl_conf_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(ReadConfigFile(folder + "/none").problem, "");
  std::ofstream(folder + "/nccl.conf") << "NCCL_PROTO=LL\n";
  EXPECT_EQ(ReadConfigFile(folder + "/nccl.conf").text, "NCCL_PROTO=LL\n");
  // A pipe without a writer.
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadConfigFile(folder + "/pipe").text, "");
  fs::remove_all(folder);
  const auto endless = ReadConfigFile("/dev/zero");
  EXPECT_EQ(endless.text, "");
  EXPECT_NE(endless.problem.find("the limit"), std::string::npos) << endless.problem;
  const Environment environment([](std::string_view) { return std::nullopt; }, {endless});
  ASSERT_EQ(environment.remarks().size(), 1U);
  EXPECT_NE(environment.remarks()[0].find("/dev/zero"), std::string::npos);
}

TEST(NcclEnvironment, MessagesHaveNcclsWords) {
  const auto environment = Read({{"NCCL_SOCKET_IFNAME", "eth9"}, {"NCCL_IB_DISABLE", "1"}});
  const auto said = [&](std::string_view text) { return InNcclsWords(text, environment); };
  EXPECT_EQ(said("TUTTI_SOCKET_IFNAME=\"eth9\" names none"), "NCCL_SOCKET_IFNAME=\"eth9\" names none");
  EXPECT_EQ(said("TUTTI_NET=tcp"), "NCCL_IB_DISABLE=tcp");
  EXPECT_EQ(said("NCCL_IB_DISABLE stands for TUTTI_NET=\"x\", which"), "NCCL_IB_DISABLE=\"x\", which");
  EXPECT_EQ(said("set TUTTI_SECRET"), "set TUTTI_SECRET");
  EXPECT_EQ(said("tuttiGroupEnd without tuttiGroupStart in this thread"),
            "ncclGroupEnd without ncclGroupStart in this thread");
  EXPECT_EQ(said("neither tuttiScalarDevice nor 3"), "neither ncclScalarDevice nor 3");
  EXPECT_EQ(said("not of tuttiStreamCreate, my_tuttiSend, tutti: tuttiSends."),
            "not of tuttiStreamCreate, my_tuttiSend, tutti: tuttiSends.");
  EXPECT_EQ(said(""), "");
}

TEST(NcclEnvironment, BecomesSettings) {
  EXPECT_EQ(Setting({{"NCCL_COMM_ID", "a:1"}}, "TUTTI_COMM_ID"), "a:1");
  EXPECT_EQ(Setting({{"NCCL_SOCKET_IFNAME", "^docker"}}, "TUTTI_SOCKET_IFNAME"), "^docker");
  EXPECT_EQ(Setting({{"NCCL_SOCKET_FAMILY", "AF_INET6"}}, "TUTTI_SOCKET_FAMILY"), "inet6");
  EXPECT_EQ(Setting({{"NCCL_SOCKET_NTHREADS", "4"}, {"NCCL_NSOCKS_PERTHREAD", "2"}}, "TUTTI_SOCKETS"), "8");
  EXPECT_EQ(Setting({{"NCCL_SOCKET_NTHREADS", "4000000000000"}}, "TUTTI_SOCKETS"), "16");
  EXPECT_EQ(Setting({{"NCCL_NET", "socket"}}, "TUTTI_NET"), "tcp");
  EXPECT_EQ(Setting({{"NCCL_NET", "IB"}, {"NCCL_IB_DISABLE", "1"}}, "TUTTI_NET"), "verbs");
  EXPECT_EQ(Setting({{"NCCL_NET_PLUGIN", "ofi"}, {"NCCL_IB_DISABLE", "1"}}, "TUTTI_NET_PLUGIN"), "ofi");
  EXPECT_EQ(Setting({{"NCCL_NET_PLUGIN", "ofi"}, {"NCCL_NET", "AWS Libfabric"}}, "TUTTI_NET"), "plugin");
  EXPECT_EQ(Setting({{"NCCL_NET_PLUGIN", "ofi"}, {"NCCL_NET", "Socket"}}, "TUTTI_NET"), "tcp");
  EXPECT_EQ(Setting({{"NCCL_NET_PLUGIN", "none"}}, "TUTTI_NET_PLUGIN"), "-");
  EXPECT_EQ(Setting({{"NCCL_IB_DISABLE", "1"}}, "TUTTI_NET"), "tcp");
  EXPECT_EQ(Setting({{"NCCL_IB_DISABLE", "0"}}, "TUTTI_NET"), "-");
  EXPECT_EQ(Setting({{"NCCL_IB_HCA", "=mlx5_0:1"}}, "TUTTI_IB_HCA"), "=mlx5_0:1");
  EXPECT_EQ(Setting({{"NCCL_IB_TIMEOUT", "0x16"}}, "TUTTI_IB_TIMEOUT"), "22");
  EXPECT_EQ(Setting({{"NCCL_IB_RETRY_CNT", "3"}}, "TUTTI_IB_RETRY"), "3");
  EXPECT_EQ(Setting({{"NCCL_MIN_CTAS", "2"}}, "TUTTI_MIN_CHANNELS"), "2");
  EXPECT_EQ(Setting({{"NCCL_MIN_CTAS", "2"}, {"NCCL_MIN_NCHANNELS", "64"}}, "TUTTI_MIN_CHANNELS"), "32");
  EXPECT_EQ(Setting({{"NCCL_MAX_NCHANNELS", "4"}}, "TUTTI_MAX_CHANNELS"), "4");
  EXPECT_EQ(Setting({{"NCCL_P2P_DISABLE", "1"}}, "TUTTI_GPU_P2P"), "0");
  EXPECT_EQ(Setting({{"NCCL_P2P_DISABLE", "0"}}, "TUTTI_GPU_P2P"), "-");
  EXPECT_EQ(Setting({{"NCCL_P2P_LEVEL", "LOC"}}, "TUTTI_GPU_P2P"), "0");
  EXPECT_EQ(Setting({{"NCCL_P2P_LEVEL", "SYS"}}, "TUTTI_GPU_P2P"), "-");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "phb"}}, "TUTTI_GPUDIRECT"), "PHB");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "0"}}, "TUTTI_GPUDIRECT"), "LOC");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "3"}}, "TUTTI_GPUDIRECT"), "PHB");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "5"}}, "TUTTI_GPUDIRECT"), "SYS");
  EXPECT_EQ(Setting({}, "TUTTI_GPUDIRECT"), "-");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "P2C"}}, "TUTTI_GPUDIRECT"), "-");
  EXPECT_EQ(Setting({{"NCCL_NET_GDR_LEVEL", "SYS"}, {"NCCL_DMABUF_ENABLE", "0"}}, "TUTTI_GPUDIRECT"), "LOC");
  EXPECT_EQ(Setting({{"NCCL_NVLS_ENABLE", "0"}}, "TUTTI_NVLS"), "0");
  EXPECT_EQ(Setting({{"NCCL_NVLS_ENABLE", "2"}}, "TUTTI_NVLS"), "-");
  for (const char* const policy : {"2", "3"}) {
    EXPECT_EQ(Setting({{"NCCL_CTA_POLICY", policy}}, "TUTTI_COPY_ENGINE"), "1");
  }
  for (const char* const policy : {"0", "1"}) {
    EXPECT_EQ(Setting({{"NCCL_CTA_POLICY", policy}}, "TUTTI_COPY_ENGINE"), "-");
  }
  EXPECT_EQ(Setting({{"NCCL_TOPO_FILE", "x.xml"}}, "TUTTI_TOPO_FILE"), "x.xml");
  EXPECT_EQ(Setting({{"NCCL_PROTO", "LL"}}, "TUTTI_PROTO"), "line");
}

TEST(NcclEnvironment, TuttisVariableWins) {
  EXPECT_EQ(Setting({{"NCCL_PROTO", "LL"}, {"TUTTI_PROTO", "bulk"}}, "TUTTI_PROTO"), "-");
  EXPECT_EQ(Setting({{"NCCL_ALGO", "nonsense"}, {"TUTTI_ALGO", "ring"}}, "TUTTI_ALGO"), "-");
}

TEST(NcclEnvironment, ConfigFilesAreReadAfterVariables) {
  const std::vector<std::string> files = {"# a comment\nNCCL_IB_SL=1\r\nno equals sign\nNCCL_IB_TC=2\n",
                                          "NCCL_IB_TC=3\nNCCL_IB_GID_INDEX=4"};
  const auto settings = Read({{"NCCL_IB_SL", "5"}}, files).settings();
  EXPECT_EQ(settings.at("TUTTI_IB_SL").text, "5");
  EXPECT_EQ(settings.at("TUTTI_IB_TC").text, "2");
  EXPECT_EQ(settings.at("TUTTI_IB_GID_INDEX").text, "4");
}

bool Remarks(const Environment& environment, std::string_view text) {
  for (const auto& remark : environment.remarks()) {
    if (remark.find(text) != remark.npos) return true;
  }
  return false;
}

TEST(NcclEnvironment, IsRemarkedUponOnce) {
  const auto environment = Read({{"NCCL_BUFFSIZE", "4096"},
                                 {"NCCL_NVLS_ENABLE", "0"},
                                 {"NCCL_IB_SL", "low"},
                                 {"NCCL_OF_ANOTHER_LIBRARY", "1"},
                                 {"NCCL_P2P_LEVEL", "SYS"}});
  EXPECT_TRUE(Remarks(environment, "NCCL_BUFFSIZE set by environment to 4096, which has no meaning here: the sizes"));
  EXPECT_TRUE(Remarks(environment, "NCCL_NVLS_ENABLE set by environment to 0 (TUTTI_NVLS=0)"));
  EXPECT_TRUE(Remarks(environment, "Invalid value low for NCCL_IB_SL, using default."));
  EXPECT_TRUE(Remarks(environment, "NCCL_P2P_LEVEL set by environment to SYS, which leaves TUTTI_GPU_P2P as it is"));
  EXPECT_FALSE(Remarks(environment, "NCCL_OF_ANOTHER_LIBRARY"));
  EXPECT_EQ(environment.remarks().size(), 5U);  // the invalid value twice
}

TEST(NcclEnvironment, NamesAreKnownOnce) {
  std::set<std::string_view> names;
  for (const auto& variable : KnownVariables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_TRUE(variable.name.starts_with("NCCL_"));
    EXPECT_FALSE(variable.text.empty());
  }
}

TEST(NcclEnvironment, TheDocumentationHasTheTable) {
  std::ifstream file(TUTTI_DOCS "/nccl_environment.md");
  ASSERT_TRUE(file);
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find("<!-- made: environment -->\n" + EnvironmentAsMarkdown() + "<!-- end: environment -->\n"),
            std::string::npos)
      << "docs/nccl_environment.md is out of date: run scripts/docs.sh";
}

// The communicator of two ranks adds up, by the algorithm that the last call names.
std::string AlgorithmWith(std::vector<std::pair<std::string, std::string>> environment) {
  const auto outcomes =
      RunRanks(2,
               [](Rank& self) {
                 const Comm comm = Join(self);
                 EXPECT_EQ(Sum(comm, 1), 2);
                 std::array<char, 256> text{};
                 tuttiCommDescribeLastOperation(reinterpret_cast<tuttiComm_t>(static_cast<ncclComm_t>(comm)),
                                                text.data(), text.size());
                 if (self.rank() == 0) self.Note(text.data());
               },
               {.environment = std::move(environment)});
  return outcomes[0].notes.empty() ? "" : outcomes[0].notes[0];
}

TEST(NcclEnvironment, IsFollowedByCommunicators) {
  EXPECT_NE(AlgorithmWith({{"NCCL_ALGO", "ring"}}).find(": ring,"), std::string::npos);
  EXPECT_NE(AlgorithmWith({{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}}).find(", bulk"), std::string::npos);
  EXPECT_NE(AlgorithmWith({{"NCCL_ALGO", "allreduce:tree"}}).find(": double_binary_tree,"), std::string::npos);
  EXPECT_NE(AlgorithmWith({{"NCCL_ALGO", "ring"}, {"TUTTI_ALGO", "recursive"}}).find(": recursive,"),
            std::string::npos);
  EXPECT_EQ(AlgorithmWith({{"NCCL_PROTO", "^LL"}}).find(", line"), std::string::npos);
  EXPECT_NE(AlgorithmWith({{"NCCL_PROTO", "LL"}}).find(", line"), std::string::npos);
  const auto four = AlgorithmWith({{"NCCL_ALGO", "ring"}, {"NCCL_MIN_NCHANNELS", "4"}});
  EXPECT_NE(four.find(": ring, 4 channels"), std::string::npos) << four;
}

void RefusedWith(const std::string& name, const std::string& value, ncclResult_t code, const std::string& word) {
  RunAlone(
      [&] {
        ncclUniqueId id;
        ncclComm_t comm = nullptr;
        auto result = ncclGetUniqueId(&id);
        if (result == ncclSuccess) result = ncclCommInitRank(&comm, 1, id, 0);
        EXPECT_TRUE(Fails(result, code, word)) << name;
        EXPECT_EQ(comm, nullptr);
      },
      {.environment = {{name, value}}});
}

TEST(NcclEnvironment, NonsenseIsRefusedWithNcclsCodeAndASentence) {
  RefusedWith("NCCL_ALGO", "fastest", ncclInvalidUsage, "NCCL_ALGO has the unknown algorithm \"fastest\"");
  RefusedWith("NCCL_PROTO", "LL64", ncclInvalidUsage, "NCCL_PROTO has the unknown protocol \"LL64\"");
  RefusedWith("NCCL_NET", "pigeon", ncclInvalidUsage, "NCCL_NET=\"pigeon\"");
  RefusedWith("NCCL_IB_TIMEOUT", "99", ncclInvalidArgument, "NCCL_IB_TIMEOUT=\"99\"");
  RefusedWith("NCCL_COMM_ID", "nowhere", ncclInvalidArgument, "nowhere");
}

}  // namespace
}  // namespace tutti::nccl::testing
