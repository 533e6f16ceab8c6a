// The verbs of `stepwatch` by family. Each function adds verbs to the command line; a verb that is called stores its
// exit code.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

void AddValidate(CLI::App* app, int* exit_code);
void AddPlan(CLI::App* app, int* exit_code);
void AddWatch(CLI::App* app, int* exit_code);
void AddRehearse(CLI::App* app, int* exit_code);
// start, stop, apply, rollback
void AddEditVerbs(CLI::App* app, int* exit_code);
// history, show
void AddHistoryVerbs(CLI::App* app, int* exit_code);
// pause, resume, rotate
void AddPauseVerbs(CLI::App* app, int* exit_code);
void AddDoctor(CLI::App* app, int* exit_code);
// ps, status, events
void AddJobVerbs(CLI::App* app, int* exit_code);
void AddTop(CLI::App* app, int* exit_code);
// runs, incidents, ack, silence, why: the queries to stepwatchd
void AddOperationsVerbs(CLI::App* app, int* exit_code);
void AddPerformance(CLI::App* app, int* exit_code);
// csv2tb, csv2db, anomaly
void AddOfflineVerbs(CLI::App* app, int* exit_code);
// completion, manual and a hidden one. Their texts list all verbs that `app` has when one of them is called.
void AddTextVerbs(CLI::App* app, int* exit_code);
void AddPrune(CLI::App* app, int* exit_code);
void AddLogs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
