#include "src/bootstrap/job_source.h"

#include <gtest/gtest.h>

#include <map>

#include "net/net_testing.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/rendezvous/rendezvous.h"

namespace tutti::bootstrap {
namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

const Environment kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

Lookup In(const Environment& environment) {
  return [&environment](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

Environment With(std::initializer_list<std::pair<std::string, std::string>> changes) {
  auto environment = kTorchrun;
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

TEST(TicketFromEnvironment, ReadsTheFourVariables) {
  const auto result = TicketFromEnvironment({}, In(kTorchrun));
  EXPECT_EQ(result.rank, 1);
  EXPECT_EQ(result.nranks, 4);
  EXPECT_TRUE(result.ticket.served_by_rank0);
  EXPECT_FALSE(result.ticket.listen_everywhere);
  EXPECT_EQ(result.ticket.addresses, std::vector{net::SocketAddress::Loopback(false, 29500)});
}

TEST(TicketFromEnvironment, LeavesTorchrunsStoreItsPort) {
  const auto environment = With({{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(TicketFromEnvironment({}, In(environment)).ticket.addresses.front().port, 29501);
  EXPECT_EQ(
      TicketFromEnvironment({}, In(With({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))).ticket.addresses.front().port,
      29500);
}

TEST(TicketFromEnvironment, KnowsLaunchers) {
  const Environment srun = {{"SLURM_PROCID", "3"},         {"SLURM_NTASKS", "8"},
                            {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_JOB_NODELIST", "localhost"},
                            {"SLURM_JOB_ID", "123456"},    {"SLURM_STEP_ID", "2"}};
  const auto slurm = TicketFromEnvironment({}, In(srun));
  EXPECT_EQ(slurm.rank, 3);
  EXPECT_EQ(slurm.nranks, 8);
  EXPECT_EQ(slurm.ticket.addresses.front().port, 15'000 + (123'456 + 2 * 97) % 15'000);

  Settings settings;
  settings.comm_id = "127.0.0.1:4711";
  for (const std::string name : {"OMPI_COMM_WORLD_", "PMI_"}) {
    const Environment mpirun = {{name + "RANK", "1"}, {name + "SIZE", "2"}};
    const auto mpi = TicketFromEnvironment(settings, In(mpirun));
    EXPECT_EQ(mpi.rank, 1);
    EXPECT_EQ(mpi.nranks, 2);
    EXPECT_EQ(mpi.ticket.addresses.front().port, 4711);
    EXPECT_THROW(TicketFromEnvironment({}, In(mpirun)), Error);  // where do they meet?
  }
  // The user's settings win.
  auto both = srun;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(TicketFromEnvironment(settings, In(both)).rank, 1);
  EXPECT_EQ(TicketFromEnvironment(settings, In(both)).ticket.addresses.front().port, 29500);
}

TEST(TicketFromEnvironment, RanksOfAnMpirunOnOneHostMeetOnLoopback) {
  const Environment open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                {"PMIX_NAMESPACE", "prterun-a-17@1"}};
  const auto place = [](Environment environment, std::initializer_list<std::pair<std::string, std::string>> changes) {
    for (const auto& [name, value] : changes) environment[name] = value;
    return TicketFromEnvironment({}, In(environment)).ticket;
  };
  const auto first = place(open_mpi, {});
  EXPECT_TRUE(first.addresses.front().IsLoopback());
  EXPECT_FALSE(first.listen_everywhere);
  EXPECT_GE(first.addresses.front().port, 15'000);
  EXPECT_LT(first.addresses.front().port, 30'000);
  EXPECT_EQ(place(open_mpi, {{"OMPI_COMM_WORLD_RANK", "3"}}).addresses, first.addresses);
  EXPECT_TRUE(RendezvousKey(place(open_mpi, {{"OMPI_COMM_WORLD_RANK", "3"}})) == RendezvousKey(first));
  const auto other = place(open_mpi, {{"PMIX_NAMESPACE", "prterun-a-17@2"}});
  EXPECT_NE(other.addresses, first.addresses);
  EXPECT_FALSE(RendezvousKey(other) == RendezvousKey(first));
  EXPECT_EQ(place(open_mpi, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}}).addresses.front().port, 4711);
  // Not all of them are here.
  EXPECT_THROW(place(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), Error);

  const Environment mpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_EQ(place(mpich, {}).addresses, place(mpich, {{"PMI_RANK", "1"}}).addresses);
  EXPECT_THROW(place(mpich, {{"MPI_LOCALNRANKS", "1"}}), Error);
}

TEST(TicketFromEnvironment, AProcessThatNobodyStartedIsAlone) {
  const auto ranks = [](const Environment& environment) {
    const auto result = TicketFromEnvironment({}, In(environment));
    EXPECT_EQ(result.rank, 0);
    return result.nranks;
  };
  EXPECT_EQ(ranks({}), 1);
  EXPECT_EQ(ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}), 1) << "srun did not start it";
  for (const auto* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THROW(TicketFromEnvironment({}, In({{name, "1"}})), Error) << name;
  }
  Settings settings;
  settings.comm_id = "127.0.0.1:4711";
  EXPECT_THROW(TicketFromEnvironment(settings, In({})), Error);
}

TEST(FirstSlurmHost, OfAllKindsOfLists) {
  EXPECT_EQ(FirstSlurmHost("alone"), "alone");
  EXPECT_EQ(FirstSlurmHost("a,b"), "a");
  EXPECT_EQ(FirstSlurmHost("node[07-09,12]-ib,other3"), "node07-ib");
  EXPECT_EQ(FirstSlurmHost("rack[2,5]node[3-4]"), "rack2node3");
  EXPECT_EQ(FirstSlurmHost("broken[1-"), "broken");
  EXPECT_EQ(FirstSlurmHost(""), "");
}

TEST(TicketFromEnvironment, RefusesNamingVariableAndValue) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<std::string, std::string>>{{"RANK", ""},
                                                                  {"RANK", "4"},
                                                                  {"RANK", "-1"},
                                                                  {"RANK", "one"},
                                                                  {"WORLD_SIZE", "0"},
                                                                  {"WORLD_SIZE", "99999999999999999999"},
                                                                  {"WORLD_SIZE", "4 "},
                                                                  {"MASTER_PORT", "0"},
                                                                  {"MASTER_PORT", "65536"},
                                                                  {"MASTER_ADDR", ""},
                                                                  {"MASTER_ADDR", "no such host"}}) {
    try {
      TicketFromEnvironment({}, In(With({{name, value}})));
      ADD_FAILURE() << name << '=' << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiInvalidUsage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(value), std::string::npos) << error.what();
    }
  }
  for (const auto* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    auto environment = kTorchrun;
    environment.erase(name);
    try {
      TicketFromEnvironment({}, In(environment));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("{} is not set", name)), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(
      TicketFromEnvironment({}, In(With({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}))), Error);
}

TEST(TicketFromEnvironment, SecretsDifferBetweenJobsAndNotBetweenRanks) {
  const auto secret = [](const Environment& environment, const std::string& text) {
    Settings settings;
    settings.secret = text;
    return RendezvousKey(TicketFromEnvironment(settings, In(environment)).ticket);
  };
  const auto key = secret(kTorchrun, "s");
  EXPECT_TRUE(key == secret(With({{"RANK", "3"}}), "s"));
  EXPECT_TRUE(key == secret(With({{"WORLD_SIZE", "5"}}), "s")) << "ranks that disagree must meet to be told";
  EXPECT_FALSE(key == secret(kTorchrun, "t"));
  EXPECT_FALSE(key == secret(kTorchrun, ""));
  EXPECT_FALSE(key == secret(With({{"MASTER_PORT", "29501"}}), "s"));
  EXPECT_FALSE(key == secret(With({{"TORCHELASTIC_RUN_ID", "x"}}), "s"));
}

TEST(TicketFromEnvironment, OffLoopbackAnEmptySecretIsRefused) {
  Settings none;
  const auto refused = [&](const std::function<void()>& make, const std::string& place) {
    try {
      make();
      ADD_FAILURE() << place;
    } catch (const Error& error) {
      testing::ExpectError(error, tuttiInvalidUsage, {"TUTTI_SECRET is not set", place, "/dev/urandom"});
    }
  };
  refused([&] { TicketFromEnvironment(none, In(With({{"MASTER_ADDR", "192.0.2.1"}}))); }, "MASTER_ADDR=192.0.2.1");
  const Environment srun = {{"SLURM_PROCID", "0"},
                            {"SLURM_NTASKS", "2"},
                            {"SLURM_STEP_NUM_TASKS", "2"},
                            {"SLURM_JOB_NODELIST", "192.0.2.7"},
                            {"SLURM_JOB_ID", "1"}};
  refused([&] { TicketFromEnvironment(none, In(srun)); }, "192.0.2.7");
  none.comm_id = "[2001:db8::1]:4711";
  refused([&] { TicketFromCommId(none, In({})); }, "TUTTI_COMM_ID=2001:db8::1");
  Settings some = none;
  some.secret = "a secret";
  EXPECT_EQ(TicketFromCommId(some, In({})).addresses.size(), 1U);
}

TEST(TicketFromEnvironment, AWeakSecretCostsWorkForEachGuess) {
  // The key comes from Argon2id, so a mere hash cannot test guesses.
  Settings settings;
  settings.secret = "123456";
  const auto ticket = TicketFromEnvironment(settings, In(kTorchrun)).ticket;
  net::ByteWriter facts;
  facts.Number(std::uint16_t{29500});
  for (int i = 0; i < 3; ++i) facts.Text("", 1);
  const auto password = auth::DeriveKey(auth::SecretKey(), "tutti password", {net::BytesOf(settings.secret)});
  EXPECT_FALSE(ticket.secret == auth::DeriveKey(password, "tutti job secret", {facts.bytes()}))
      << "one hash for each guess";
  const auto salt = auth::KeyedHash<crypto_pwhash_SALTBYTES>(auth::SecretKey(), "tutti salt", {facts.bytes()});
  std::array<std::byte, auth::SecretKey::kBytes> bytes;
  ASSERT_EQ(crypto_pwhash(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), settings.secret.data(),
                          settings.secret.size(), reinterpret_cast<const unsigned char*>(salt.data()), 3, 16 << 20,
                          crypto_pwhash_ALG_ARGON2ID13),
            0);
  const auth::SecretKey stretched{std::span<const std::byte, auth::SecretKey::kBytes>(bytes)};
  EXPECT_TRUE(ticket.secret == auth::DeriveKey(stretched, "tutti job secret", {facts.bytes()}));
}

TEST(TicketFromEnvironment, RanksMeet) {
  const auto port = std::to_string(testing::FreePort());
  const auto errors = testing::RunRanks(testing::AllRanks(4), [&](int rank) {
    const auto environment =
        With({{"RANK", std::to_string(rank)}, {"MASTER_PORT", port}, {"MASTER_ADDR", "localhost"}});
    const auto job = TicketFromEnvironment({}, In(environment));
    ControlPlane::Join(job.ticket, job.nranks, job.rank, {}, testing::Ample())->Barrier(testing::Ample());
  });
  testing::ExpectNoErrors(errors);
}

TEST(TicketFromCommId, NamesListenEverywhere) {
  Settings settings;
  settings.comm_id = "[::1]:7000";
  EXPECT_EQ(TicketFromCommId(settings, In({})).addresses, std::vector{net::SocketAddress::Loopback(true, 7000)});
  settings.comm_id = "localhost:7000";
  EXPECT_FALSE(TicketFromCommId(settings, In({})).listen_everywhere);
  settings.comm_id = "7000";
  EXPECT_THROW(TicketFromCommId(settings, In({})), Error);
}

}  // namespace
}  // namespace tutti::bootstrap
