// The commands of the `tutti` tool. Each is one file that adds a subcommand with its options; the subcommand's callback
// runs it and throws Error with a readable message.
#pragma once

namespace CLI {
class App;
}

namespace tutti::tools {

void AddCalibrate(CLI::App& app);
void AddCompletion(CLI::App& app);
void AddDiagnose(CLI::App& app);
void AddExplain(CLI::App& app);
void AddJudge(CLI::App& app);
void AddPlan(CLI::App& app);
void AddPredict(CLI::App& app);
// `status` becomes the exit status of the ranks.
void AddRun(CLI::App& app, int& status);
void AddSettings(CLI::App& app);
void AddShow(CLI::App& app);
void AddSimulate(CLI::App& app);
void AddTopo(CLI::App& app);
void AddVerify(CLI::App& app);

}  // namespace tutti::tools
